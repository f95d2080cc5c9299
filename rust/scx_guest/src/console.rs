// SPDX-License-Identifier: GPL-2.0
//! What the lines of the console mean.
//!
//! *How did the guest end?* Lines that begin with the run's mark are words of
//! /init; lines with a kernel time stamp may tell of a failure; the rest, once
//! the script began, is its output. Pure: lines in, verdict out, no process.

use std::collections::VecDeque;

use crate::Failure;

/// Lines kept to show what led to a failure.
const NR_TAIL_LINES: usize = 20;

/// Where kernels warn of faults of their own that harm nothing, by lines of their sources:
/// other kernels tell what a scheduler does there.
///
/// 6.18.15: a task that was about to get a CPU when a scheduler was taken out, or when it
/// left the class, still has that on record when it is given one the next time: the queue,
/// and the flags if it had any. Mended since (commit 7e0ffb72de8a, "sched_ext: Fix stale
/// direct dispatch state in ddsp_dsq_id").
///
/// 6.12.117: `sched_cpu_dying()` stops the deadline server of the fair class of a CPU that
/// goes offline, also where it does not run since a scheduler has all tasks. Newer ones do not
/// warn.
const KNOWN_FAULTS: [&str; 4] = [
    "kernel/sched/deadline.c:428 task_non_contending+",
    "kernel/sched/deadline.c:265 sub_running_bw+",
    "kernel/sched/ext.c:1173 scx_dsq_insert_commit+",
    "kernel/sched/ext.c:1174 scx_dsq_insert_commit+",
];

/// Reads a guest's console line by line.
pub(crate) struct Watcher {
    mark: String,
    is_scx_error_allowed: bool,
    has_begun: bool,
    failure: Option<Failure>,
    exit_code: Option<i32>,
    tail: VecDeque<String>,
    output: Vec<String>,
}

impl Watcher {
    pub(crate) fn new(mark: &str, is_scx_error_allowed: bool) -> Self {
        Self {
            mark: mark.to_owned(),
            is_scx_error_allowed,
            has_begun: false,
            failure: None,
            exit_code: None,
            tail: VecDeque::new(),
            output: Vec::new(),
        }
    }

    /// The script has begun before the first line.
    pub(crate) fn go_on(&mut self) {
        self.has_begun = true;
    }

    /// Take one line, and return what of it is the script's output.
    pub(crate) fn push(&mut self, line: &str) -> Option<String> {
        let line = line.trim_end_matches(['\r', '\n']);
        // The script's last line may lack its end, so the mark can stand
        // anywhere.
        let (text, word) = match line.split_once(&self.mark) {
            Some((text, word)) => (text, Some(word.trim())),
            None => (line, None),
        };
        let text = text.to_owned();
        let output = if word.is_some() && text.is_empty() {
            None
        } else {
            self.take_text(text)
        };
        if let Some(word) = word {
            self.take_word(word);
        }
        output
    }

    fn take_text(&mut self, text: String) -> Option<String> {
        // What comes then is only the kernel's farewell.
        if self.exit_code.is_some() || self.failure == Some(Failure::NoSchedExt) {
            return None;
        }
        self.note_failure(&text);
        if self.tail.len() == NR_TAIL_LINES {
            self.tail.pop_front();
        }
        self.tail.push_back(text.clone());
        if !self.has_begun {
            return None;
        }
        self.output.push(text.clone());
        Some(text)
    }

    fn take_word(&mut self, word: &str) {
        match word.split_once(' ').unwrap_or((word, "")) {
            ("begin", _) => self.has_begun = true,
            ("exit", code) => self.exit_code = code.parse().ok(),
            ("dmesg", line) => self.note_failure(line),
            ("no-sched-ext", _) => self.failure = Some(Failure::NoSchedExt),
            _ => log::warn!("unknown word from the guest: {word}"),
        }
    }

    /// The first failure is the one that explains the others; but a panic says
    /// more than the fault before it only if memory was the reason.
    fn note_failure(&mut self, line: &str) {
        if self.failure.is_none() {
            self.failure = classify(line, self.is_scx_error_allowed);
        }
    }

    /// Whether nothing more is to be expected from this guest.
    pub(crate) fn is_over(&self) -> bool {
        self.exit_code.is_some()
            || matches!(self.failure, Some(Failure::Panic(_) | Failure::NoSchedExt))
    }

    /// Whether the script has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// What the console told: the failure or the exit code, if either was seen,
    /// with the last lines and the script's output.
    pub(crate) fn finish(self) -> Verdict {
        Verdict {
            failure: self.failure,
            exit_code: self.exit_code,
            tail: self.tail.into(),
            output: self.output,
        }
    }
}

/// What a whole console told.
pub(crate) struct Verdict {
    pub(crate) failure: Option<Failure>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) tail: Vec<String>,
    pub(crate) output: Vec<String>,
}

/// The failure that a kernel line tells of.
fn classify(line: &str, is_scx_error_allowed: bool) -> Option<Failure> {
    let message = kernel_message(line)?;
    let found = message.trim().to_owned();

    if message.starts_with("Kernel panic - not syncing: System is deadlocked on memory")
        || message.starts_with("Out of memory: Killed")
        || message.starts_with("Initramfs unpacking failed: write error")
        || message.starts_with("Kernel panic - not syncing: Out of memory")
    {
        return Some(Failure::OutOfMemory(found));
    }
    if message.starts_with("Kernel panic - not syncing") {
        return Some(Failure::Panic(found));
    }
    if message.starts_with("BUG: ")
        || message.starts_with("kernel BUG at")
        || message.starts_with("Oops")
        || message.starts_with("general protection fault")
        || message.starts_with("watchdog: BUG")
        || is_warning(message)
    {
        return Some(Failure::Oops(found));
    }
    let is_scx_error = message.starts_with("sched_ext: ")
        && message.contains(" disabled (")
        && !message.contains(" disabled (unregistered from");
    (is_scx_error && !is_scx_error_allowed).then_some(Failure::SchedExt(found))
}

/// Whether the kernel warns of a state that should not be: a WARN(), an RCU stall
/// or a task that is blocked for long.
fn is_warning(message: &str) -> bool {
    let info = message.strip_prefix("rcu: ").unwrap_or(message);
    let info = info.strip_prefix("INFO: ");
    let is_known = KNOWN_FAULTS.iter().any(|fault| message.contains(fault));
    (message.starts_with("WARNING: ") && !is_known)
        || info.is_some_and(|info| info.starts_with("rcu_") || info.contains(" blocked for more"))
}

/// What follows the kernel's time stamp, wherever in the line that is: the
/// kernel does not wait for a program to finish its line.
fn kernel_message(line: &str) -> Option<&str> {
    line.match_indices('[').find_map(|(at, _)| {
        let (stamp, rest) = line[at + 1..].split_once(']')?;
        let (seconds, micros) = stamp.trim_start().split_once('.')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_number(seconds) || micros.len() != 6 || !is_number(micros) {
            return None;
        }
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        // With CONFIG_PRINTK_CALLER the task or CPU stands behind the time.
        match rest
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("] "))
        {
            Some((caller, rest)) if caller.trim().starts_with(['T', 'C']) => Some(rest),
            _ => Some(rest),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: &str = "@scx_guest:0123";

    fn watch(lines: &[&str], is_scx_error_allowed: bool) -> Verdict {
        let mut watcher = Watcher::new(MARK, is_scx_error_allowed);
        for line in lines {
            watcher.push(line);
        }
        watcher.finish()
    }

    #[test]
    fn output_is_what_stands_between_begin_and_exit() {
        let begin = format!("{MARK} begin\r");
        let exit = format!("no end of line{MARK} exit 7");
        let verdict = watch(
            &["boot", &begin, "one\r", "", "two", &exit, "reboot: x"],
            false,
        );
        assert_eq!(verdict.exit_code, Some(7));
        assert_eq!(verdict.output, ["one", "", "two", "no end of line"]);
        assert_eq!(verdict.failure, None);
    }

    #[test]
    fn only_an_error_of_a_scheduler_is_a_failure() {
        let normal = "[    5.1] x [    5.000001] sched_ext: BPF scheduler \"x\" disabled (unregistered from user space)";
        let error = "[    5.000001] sched_ext: BPF scheduler \"x\" disabled (runnable task stall)";
        assert_eq!(watch(&[normal], false).failure, None);
        assert!(matches!(
            watch(&[error], false).failure,
            Some(Failure::SchedExt(_))
        ));
        assert_eq!(watch(&[error], true).failure, None);
    }

    #[test]
    fn a_program_that_only_speaks_of_failures_has_not_failed() {
        let lines = [
            "sched_ext: BPF scheduler \"x\" disabled (stall)",
            "BUG: mine",
            "[1.5] Oops",
        ];
        assert_eq!(watch(&lines, false).failure, None);
    }

    #[test]
    fn kernel_failures_are_told_apart() {
        let panic = "[    2.142428] Kernel panic - not syncing: VFS";
        let oom = "text[   12.142428][   T12] Out of memory: Killed process 7 (hog)";
        let oops = "[    2.142428][    C0] BUG: kernel NULL pointer dereference";
        assert!(matches!(
            watch(&[panic], false).failure,
            Some(Failure::Panic(_))
        ));
        assert!(matches!(
            watch(&[oom], false).failure,
            Some(Failure::OutOfMemory(_))
        ));
        assert!(matches!(
            watch(&[oops, panic], false).failure,
            Some(Failure::Oops(_))
        ));
    }

    #[test]
    fn what_the_kernel_only_warns_of_is_a_fault_too() {
        for warning in [
            "WARNING: CPU: 1 PID: 7 at kernel/sched/ext.c:1 x+0x1/0x2",
            "WARNING: CPU: 1 PID: 23 at kernel/sched/deadline.c:429 task_non_contending+0x1/0x2",
            "WARNING: CPU: 0 PID: 0 at kernel/sched/ext.c:1175 scx_dsq_insert_commit+0xef/0x120",
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "INFO: rcu_sched self-detected stall on CPU",
            "INFO: task hog:12 blocked for more than 122 seconds.",
        ] {
            let line = format!("[    2.142428] {warning}");
            let failure = watch(&[&line], true).failure;
            assert!(matches!(failure, Some(Failure::Oops(_))), "{warning}");
        }
        for normal in [
            "INFO: NMI handler took too long",
            "rcu: Preemptible",
            "WARNING: CPU: 1 PID: 23 at kernel/sched/deadline.c:428 task_non_contending+0x33/0x176",
            "WARNING: CPU: 1 PID: 23 at kernel/sched/deadline.c:265 sub_running_bw+0x2a/0x60",
            "WARNING: CPU: 0 PID: 0 at kernel/sched/ext.c:1173 scx_dsq_insert_commit+0xef/0x120",
            "WARNING: CPU: 0 PID: 0 at kernel/sched/ext.c:1174 scx_dsq_insert_commit+0xf3/0x120",
        ] {
            let line = format!("[    2.142428] {normal}");
            assert_eq!(watch(&[&line], false).failure, None, "{normal}");
        }
    }

    #[test]
    fn the_kernels_own_buffer_counts_like_its_console() {
        let line = format!("{MARK} dmesg [    2.142428] Out of memory: Killed process 7 (hog)");
        assert!(matches!(
            watch(&[&line], false).failure,
            Some(Failure::OutOfMemory(_))
        ));
    }

    #[test]
    fn the_tail_is_the_last_lines() {
        let lines: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let tail = watch(&lines, false).tail;
        assert_eq!(tail.len(), NR_TAIL_LINES);
        assert_eq!(tail.last().map(String::as_str), Some("99"));
    }
}
