// SPDX-License-Identifier: GPL-2.0
//! What a guest told, and checks of it whose failure says how to see it again.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::draws::Broken;
use super::load;

/// What a Rust program says when it panics, in any of its threads.
const PANIC: &str = "panicked at";

/// What a guest told.
pub struct Told {
    /// Values by key, in the order they were told.
    facts: BTreeMap<String, Vec<String>>,
    /// The console's lines.
    pub console: Vec<String>,
    /// All facts as they were told.
    pub report: Vec<u8>,
    stop_max_ms: u64,
    repeat: String,
}

impl Told {
    /// What a guest told by its `console` and its `report`. A stop is to take
    /// `stop_max_ms` at most; `repeat` says how to run the same guest again.
    pub fn new(console: Vec<String>, report: Vec<u8>, stop_max_ms: u64, repeat: String) -> Told {
        Told {
            facts: read_facts(&report),
            console,
            report,
            stop_max_ms,
            repeat,
        }
    }

    /// Every value told of `key`.
    pub fn all<T>(&self, key: &str) -> Result<Vec<T>>
    where
        T: FromStr,
        T::Err: Display,
    {
        let values = self
            .facts
            .get(key)
            .with_context(|| self.failure(&format!("nothing was told of {key}")))?;
        values
            .iter()
            .map(|value| {
                value
                    .parse()
                    .map_err(|err| anyhow!(self.failure(&format!("{key} is {value:?}: {err}"))))
            })
            .collect()
    }

    /// The only value told of `key`.
    pub fn one<T>(&self, key: &str) -> Result<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        let mut values = self.all(key)?;
        match (values.pop(), values.is_empty()) {
            (Some(value), true) => Ok(value),
            _ => bail!(self.failure(&format!("{key} was told more than once"))),
        }
    }

    /// The numbers told of `key`, in one value or several: `N` of them.
    pub fn numbers<const N: usize>(&self, key: &str) -> Result<[u64; N]> {
        let values = self.all::<String>(key)?.join(" ");
        let numbers: Result<Vec<u64>, _> = values.split(' ').map(str::parse).collect();
        let numbers = numbers.ok().and_then(|numbers| numbers.try_into().ok());
        numbers.with_context(|| self.failure(&format!("{key} is {values:?}, not {N} numbers")))
    }

    /// An error that says `what`, and how to see it again, unless `is_ok`.
    pub fn check(&self, is_ok: bool, what: impl FnOnce() -> String) -> Result<()> {
        ensure!(is_ok, self.failure(&what()));
        Ok(())
    }

    /// The same for what holds in every draw: an error of it is [`Broken`].
    pub fn always(&self, is_ok: bool, what: impl FnOnce() -> String) -> Result<()> {
        self.check(is_ok, what).map_err(|err| Broken(err).into())
    }

    /// A check of equality.
    pub fn check_eq<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        found: T,
        expected: T,
    ) -> Result<()> {
        self.check(found == expected, || {
            format!("{what}: found {found:?}, expected {expected:?}")
        })
    }

    /// Checks that the script did not give up.
    pub fn check_not_given_up(&self) -> Result<()> {
        match self.facts.get("gave_up") {
            Some(why) => {
                bail!(self.failure(&format!("the script gave up: {}", why.join(", "))))
            }
            None => Ok(()),
        }
    }

    /// Checks that no program panicked: the scheduler, whose log ends on the
    /// console, or another.
    pub fn check_no_panic(&self) -> Result<()> {
        match self.console.iter().find(|line| line.contains(PANIC)) {
            Some(line) => bail!(self.failure(&format!("a program panicked: {line}"))),
            None => Ok(()),
        }
    }

    /// Checks that every stop that was told went well, and in time.
    pub fn check_stops(&self) -> Result<()> {
        for stop_ms in self.all::<u64>("stop_ms")? {
            self.check(stop_ms <= self.stop_max_ms, || {
                format!("a stop took {stop_ms} ms, more than {}", self.stop_max_ms)
            })?;
        }
        for code in self.all::<i32>("stop_code")? {
            self.always(code == 0, || format!("a stop ended with {code}"))?;
        }
        for state in self.all::<String>("stop_state")? {
            self.always(state == "disabled", || {
                format!("sched_ext is {state} after a stop")
            })?;
        }
        Ok(())
    }

    /// Checks that all the kernel said, as `kernel`, is that the scheduler was
    /// unregistered.
    pub fn check_kernel_said_no_more(&self) -> Result<()> {
        let kernel: Vec<String> = self.all("kernel")?;
        self.always(
            kernel.len() == 1 && kernel[0].contains("disabled (unregistered from"),
            || format!("the kernel said: {kernel:?}"),
        )
    }

    /// Checks that no worker of a load was left behind: each went round, and
    /// none waited longer than `gap_max_ms` between two rounds.
    pub fn check_load(&self, gap_max_ms: u64) -> Result<()> {
        let kinds = self.all::<load::Kind>("load")?;
        for kind in &kinds {
            println!("{kind}");
        }
        for kind in kinds {
            self.always(kind.nr_rounds_min > 0, || {
                format!("a {} never ran", kind.name)
            })?;
            self.check(kind.gap_max_ms <= gap_max_ms, || {
                format!(
                    "a {} waited {} ms, more than {gap_max_ms}",
                    kind.name, kind.gap_max_ms
                )
            })?;
        }
        Ok(())
    }

    fn failure(&self, what: &str) -> String {
        format!("{what}\n{}", self.repeat)
    }
}

fn read_facts(report: &[u8]) -> BTreeMap<String, Vec<String>> {
    let mut facts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in String::from_utf8_lossy(report).lines() {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        facts
            .entry(key.to_owned())
            .or_default()
            .push(value.to_owned());
    }
    facts
}
