// SPDX-License-Identifier: GPL-2.0
//! The same run gives the same figures, to the byte.

use crate::ours::OURS;

/// A real load, with figures of the scheduler's and of the load's own.
const SCRIPT: &str = "\
begin --stats 0.3
load 2
stop INT
";

/// The telemetry begins a second after the start, if its server was not there yet; two
/// intervals later there are so many.
const NR_LINES_MIN: usize = 3;

invariant!(two_runs_are_the_same_to_the_byte, |kernel| {
    let world = OURS.flat(kernel, 2)?.booted_alone();
    let (one, other) = (world.run(SCRIPT)?, world.run(SCRIPT)?);
    let nr_lines = one
        .console
        .iter()
        .filter(|line| line.starts_with("[pandemonium]"))
        .count();
    one.check(nr_lines >= NR_LINES_MIN, || {
        format!("only {nr_lines} lines of telemetry")
    })?;
    for (line, same) in one.console.iter().zip(&other.console) {
        one.check_eq("a line of the console", line, same)?;
    }
    one.check_eq("lines", one.console.len(), other.console.len())?;
    one.check(one.report == other.report, || {
        "the reports differ".to_owned()
    })
});
