//! `scx_pandemonium dmesg`: what the kernel's log says of sched_ext.
//!
//! Not here: how the log is read (kernel_log).

use anyhow::Result;

use crate::kernel_log::{KernelLog, Line};
use crate::output;

/// Print each line, the oldest first.
///
/// # Errors
///
/// If the log may not be read, or it cannot be printed.
pub fn run() -> Result<()> {
    let lines = KernelLog::open()?.lines(usize::MAX)?;
    if lines.is_empty() {
        output::tell("scx_pandemonium: the kernel's log says nothing of sched_ext");
    }
    output::print(&text(&lines))
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| line.print() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_line_has_its_time_and_an_empty_log_has_none() {
        let line = |at_us, words: &str| Line {
            at: Duration::from_micros(at_us),
            words: words.to_owned(),
        };
        let lines = [line(1, "a"), line(12_345_678_901, "b")];
        let expected = "[    0.000001] sched_ext: a\n[12345.678901] sched_ext: b\n";
        assert_eq!(text(&lines), expected);
        assert_eq!(text(&[]), "");
    }
}
