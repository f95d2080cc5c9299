// SPDX-License-Identifier: GPL-2.0
//! What test programs say: how many tests passed, which failed, which did not run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::process;

/// What a test says that does not test anything here: `skipped: NAME: WHY`.
const SKIPPED: &str = "skipped: ";

/// The sum of what the test programs report.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TestCount {
    passed: u64,
    failed: u64,
    /// Names of those that passed without testing anything, by reason.
    skipped: BTreeMap<String, BTreeSet<String>>,
    /// Which draw is counted.
    pub draw: u32,
    /// Names of those that failed, and in which draws.
    failures: BTreeMap<String, Vec<u32>>,
}

impl TestCount {
    /// Run tests by cargo's `command` to their end, those of `names` only unless that is
    /// empty, print what they say and count it. Return how many failed, which is no error.
    pub fn run(&mut self, command: &mut Command, names: &[String]) -> Result<u64> {
        let nr_failed = self.failed;
        command
            .arg("--no-fail-fast")
            .arg(if io::stdout().is_terminal() {
                "--color=always"
            } else {
                "--color=never"
            });
        if !names.is_empty() {
            command.args(["--", "--exact"]).args(names);
        }
        let status = process::follow(command, |line| {
            println!("{line}");
            self.add(&line);
        })?;
        if status.success() {
            return Ok(0);
        }
        // Killed from outside, or by the kernel for want of memory: what was
        // counted is not all.
        ensure!(
            status.code().is_some(),
            "the tests were cut short ({status})"
        );
        ensure!(
            self.failed > nr_failed,
            "the tests did not run to their end"
        );
        Ok(self.failed - nr_failed)
    }

    /// Count `line` if it is a test program's last, `test result: ok. 3 passed; 0 failed; ...`,
    /// or a test says in it that it was skipped.
    fn add(&mut self, line: &str) {
        if let Some((_, skipped)) = line.split_once(SKIPPED)
            && let Some((name, reason)) = skipped.split_once(": ")
        {
            let names = self.skipped.entry(reason.to_string()).or_default();
            names.insert(name.to_string());
        }
        if let Some(name) = failed_name(line) {
            let draws = self.failures.entry(name.to_string()).or_default();
            draws.push(self.draw);
        }
        let Some((_, result)) = line.split_once("test result: ") else {
            return;
        };
        let number_before = |word: &str| {
            let (before, _) = result.split_once(word)?;
            before
                .trim()
                .rsplit(|c: char| !c.is_ascii_digit())
                .next()?
                .parse::<u64>()
                .ok()
        };
        self.passed += number_before(" passed").unwrap_or(0);
        self.failed += number_before(" failed").unwrap_or(0);
    }

    /// The sum as lines: what passed and failed, and what was not run and why.
    pub fn summary(&self) -> String {
        let nr_skipped = self.skipped.values().map(BTreeSet::len).sum::<usize>() as u64;
        let nr_skipped = nr_skipped * u64::from(self.draw.max(1));
        let passed = self.passed.saturating_sub(nr_skipped);
        let mut text = format!("{passed} passed, {} failed", self.failed);
        for (reason, names) in &self.skipped {
            let list: Vec<&str> = names.iter().map(String::as_str).collect();
            text += &format!("\n{} not run, {reason}: {}", names.len(), list.join(", "));
        }
        for (name, draws) in &self.failures {
            let draws: Vec<String> = draws.iter().map(u32::to_string).collect();
            text += &format!("\n{name} failed");
            if self.draw > 1 {
                text += &format!(" in draws {} of {}", draws.join(", "), self.draw);
            }
        }
        text
    }
}

/// The name in `test NAME ... FAILED`.
fn failed_name(line: &str) -> Option<&str> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    result.contains("FAILED").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_summed_over_the_test_programs() {
        let mut count = TestCount::default();
        count.add("test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        count.add("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured");
        count.add("test a_result ... ok");
        assert_eq!(count.summary(), "15 passed, 2 failed");
    }

    #[test]
    fn what_was_not_run_is_named_and_did_not_pass() {
        let mut count = TestCount::default();
        for line in [
            "skipped: share::on_the_second: no second kernel",
            "test share::on_the_second ... ok",
            "test waits::on_the_second ... skipped: waits::on_the_second: no second kernel",
            "test result: ok. 3 passed; 0 failed; 0 ignored",
        ] {
            count.add(line);
        }
        let expected = "1 passed, 0 failed\n\
                        2 not run, no second kernel: share::on_the_second, waits::on_the_second";
        assert_eq!(count.summary(), expected);
    }

    #[test]
    fn what_failed_is_named_with_its_draws() {
        let mut count = TestCount::default();
        for draw in 1..=3 {
            count.draw = draw;
            count.add(match draw {
                2 => "test a::b ... FAILED",
                _ => "test a::b ... ok",
            });
            count.add("test result: x. 1 passed; 1 failed; 0 ignored");
        }
        let expected = "3 passed, 3 failed\na::b failed in draws 2 of 3";
        assert_eq!(count.summary(), expected);
    }
}
