// SPDX-License-Identifier: GPL-2.0
//! One line that says what is being waited for.
//!
//! On a terminal it moves; elsewhere it is printed once, so that logs stay
//! readable.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often the line is drawn anew.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);

/// A line about something that has no known end.
pub(crate) fn spinner(message: String) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(message);
    bar.enable_steady_tick(DRAW_INTERVAL);
    bar
}

/// A line about `total_bytes` to come; a plain line where there is no terminal.
pub(crate) fn bytes(message: String, total_bytes: u64) -> ProgressBar {
    if !stderr().is_terminal() {
        eprintln!("{message} ({} MB)", total_bytes.div_ceil(1_000_000));
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(total_bytes).with_message(message);
    if let Ok(style) =
        ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec}")
    {
        bar.set_style(style);
    }
    bar.enable_steady_tick(DRAW_INTERVAL);
    bar
}

/// A line about something short; a plain line where there is no terminal.
pub(crate) fn step(message: String) -> ProgressBar {
    if !stderr().is_terminal() {
        eprintln!("{message}");
        return ProgressBar::hidden();
    }
    spinner(message)
}
