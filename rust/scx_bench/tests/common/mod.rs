// SPDX-License-Identifier: GPL-2.0
//! Runs of the bench for tests: one at a time, undisturbed where possible.

#![allow(clippy::expect_used, dead_code)]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use scx_bench::clock::NSEC_PER_USEC;
use scx_bench::result::{RunResult, ScenarioResult};

/// The nice value that takes precedence over all others.
const NICE_FIRST: i32 = -20;

static MACHINE: Mutex<()> = Mutex::new(());

/// Wait until no other test of this program measures.
pub fn take_machine() -> MutexGuard<'static, ()> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One run of one scenario, its loads sized for one CPU.
#[derive(Debug)]
pub struct Bench {
    scenario: String,
    args: Vec<String>,
    is_pinned: bool,
}

impl Bench {
    pub fn new(scenario: &str) -> Self {
        let args = ["run", "--cpus", "1", "--scenario", scenario];
        Self {
            scenario: scenario.to_string(),
            args: args.map(String::from).to_vec(),
            is_pinned: false,
        }
    }

    pub fn seconds(self, seconds: f64) -> Self {
        self.arg("--seconds", &seconds.to_string())
    }

    pub fn inject_ns(self, inject_ns: u64) -> Self {
        self.arg(
            "--inject-delay-us",
            &(inject_ns / NSEC_PER_USEC).to_string(),
        )
    }

    pub fn no_load(mut self) -> Self {
        self.args.push("--no-load".to_string());
        self
    }

    /// All on one CPU.
    pub fn pinned(mut self) -> Self {
        self.is_pinned = true;
        self
    }

    pub fn run(self) -> ScenarioResult {
        let dir = tempfile::tempdir().expect("a directory");
        let json = dir.path().join("json");
        let mut command = Command::new(env!("CARGO_BIN_EXE_scx_bench"));
        command.args(&self.args).arg("--json").arg(&json);
        let is_pinned = self.is_pinned;
        // SAFETY: the closure only makes system calls.
        unsafe {
            command.pre_exec(move || {
                // Only root may; others take more attempts.
                libc::setpriority(libc::PRIO_PROCESS, 0, NICE_FIRST);
                if is_pinned {
                    pin();
                }
                Ok(())
            });
        }
        let output = command.output().expect("the bench starts");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}: {error}{said}", self.scenario);
        let text = std::fs::read_to_string(&json).expect("the bench wrote its result");
        let mut result: RunResult = serde_json::from_str(&text).expect("the result is JSON");
        result.scenarios.pop().expect("one scenario was run")
    }

    fn arg(mut self, name: &str, value: &str) -> Self {
        self.args.extend([name.to_string(), value.to_string()]);
        self
    }
}

/// Stay on the CPU that this runs on now.
fn pin() {
    // SAFETY: the set is a plain bit mask, valid as all-zero, and lives across
    // the calls.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu().max(0) as usize, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}
