// SPDX-License-Identifier: GPL-2.0
//! Text tables for the terminal.

use std::io::Write;

use anyhow::{Context, Result};

use crate::result::{Metric, ScenarioResult};

/// Write `text` to standard output; an error where that is full or closed.
pub fn say(text: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .context("writing to standard output")
}

/// One scenario's headline figures on one line.
pub fn headline_line(result: &ScenarioResult) -> String {
    let figures: Vec<String> = result
        .metrics
        .iter()
        .filter(|metric| metric.headline)
        .map(figure)
        .collect();
    format!("{:<12} {}", result.scenario, figures.join("  "))
}

/// All figures of one scenario, a line each.
pub fn detail_lines(result: &ScenarioResult) -> Vec<String> {
    let figures = result
        .metrics
        .iter()
        .map(|metric| format!("  {}", figure(metric)));
    let callbacks = result.callbacks.iter().map(|callback| {
        let mean = callback.time_ns as f64 / callback.calls as f64;
        format!(
            "  {:<16} {:>9} calls of {} ns",
            callback.name,
            callback.calls,
            value(mean)
        )
    });
    figures.chain(callbacks).collect()
}

/// A value with as many digits as it deserves: three significant ones, and no
/// fraction from 100 up.
pub fn value(value: f64) -> String {
    let magnitude = value.abs();
    let digits = match magnitude {
        _ if magnitude == 0.0 => 0,
        m if m >= 100.0 => 0,
        m if m >= 10.0 => 1,
        m if m >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

fn figure(metric: &Metric) -> String {
    let space = if metric.unit.is_empty() || metric.unit == "%" {
        ""
    } else {
        " "
    };
    format!(
        "{} {}{space}{}",
        metric.name,
        value(metric.value),
        metric.unit
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_significant_digits() {
        let shown: Vec<String> = [0.0, 0.0214, 0.16, 3.456, 12.34, 563.0, 12345.6]
            .map(value)
            .to_vec();
        assert_eq!(
            shown,
            ["0", "0.021", "0.160", "3.46", "12.3", "563", "12346"]
        );
    }
}
