//! Whether this machine can run the scheduler, and what to know about it: one line
//! for each thing that users meet.
//!
//! What is looked at is read once, into [`Facts`]; what follows from it is pure.
//!
//! Not here: why a start failed (refusal), whether rules are sound (rules).

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Result, bail, ensure};
use nix::unistd::geteuid;
use scx_utils::compat;

use crate::cpufreq::LISTENER;
use crate::text::printable;
use crate::{cpufreq, held, output, refusal, rules, scheduler, waker};

/// What the kernel says of its scheduling class.
pub const SCHED_EXT: &str = "/sys/kernel/sched_ext";
const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";
/// The version of the running kernel.
pub const RELEASE_PATH: &str = "/proc/sys/kernel/osrelease";
const JIT_PATH: &str = "/proc/sys/net/core/bpf_jit_enable";

/// Filesystems of the kernel, by what is in each.
const MOUNTS: [(&str, &str); 2] = [("/proc", "/proc/self"), ("/sys", "/sys/kernel")];

/// What is wrong with a kernel that has no type information.
const NO_TYPES: &str = "the kernel has no type information: boot one with CONFIG_DEBUG_INFO_BTF=y";

/// What our own scheduler is called in sched_ext.
const OPS_NAME: &str = "pandemonium";

/// Programs that are told of: what one of them was, often all that it started is.
const NR_HELD_MAX: usize = 8;

/// The program of ananicy that distributions install.
const ANANICY_COMM: &str = "ananicy-cpp";

/// How good what was found is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    /// It works, and the user should know.
    Note,
    /// It does not work.
    Problem,
}

/// One line.
#[derive(Debug)]
struct Finding {
    verdict: Verdict,
    /// What was looked at.
    subject: &'static str,
    /// What was found, and what to do about it.
    text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Note => "note",
            Verdict::Problem => "problem",
        };
        write!(f, "{verdict:<8}{:<12}{}", self.subject, self.text)
    }
}

/// What is true of this machine and this process.
#[derive(Clone, Debug, Default)]
struct Facts {
    /// Where a filesystem of the kernel is missing.
    unmounted: Vec<&'static str>,
    /// Of the kernel.
    release: String,
    has_sched_ext: bool,
    has_btf: bool,
    /// Functions of sched_ext that the kernel's type information has wrong.
    malformed: Vec<String>,
    has_function_tracer: bool,
    has_jit: bool,
    /// Whether interrupts can be told from tasks; `None` if it was not tried.
    has_wakers: Option<bool>,
    is_root: bool,
    /// Why the kernel would refuse a scheduler.
    refusals: Vec<String>,
    /// The scheduler that runs; empty if none does.
    ops: String,
    driver: String,
    governors: BTreeSet<String>,
    has_ananicy: bool,
    /// About programs that are held in batch though they are known to be more.
    held: Vec<String>,
}

/// Checks that the files of the kernel can be seen, and its type information, without
/// which scx_utils panics.
///
/// # Errors
///
/// If something is not there, with what to do.
pub fn ensure_visible() -> Result<()> {
    let unmounted = unmounted();
    ensure!(unmounted.is_empty(), not_mounted(&unmounted));
    // A kernel without sched_ext is refused for that.
    ensure!(has_types() || !has_sched_ext(), NO_TYPES);
    Ok(())
}

fn unmounted() -> Vec<&'static str> {
    let missing = MOUNTS
        .iter()
        .filter(|(_, inside)| !Path::new(inside).exists());
    missing.map(|(mount, _)| *mount).collect()
}

fn not_mounted(unmounted: &[&str]) -> String {
    let verb = if unmounted.len() == 1 { "is" } else { "are" };
    format!(
        "{} {verb} not mounted, and the kernel says there what a scheduler has to know",
        unmounted.join(" and ")
    )
}

fn has_types() -> bool {
    Path::new(BTF_PATH).exists()
}

fn has_sched_ext() -> bool {
    Path::new(SCHED_EXT).exists()
}

/// Print what is found.
///
/// # Errors
///
/// If something is found that does not work, or it cannot be printed.
pub fn run() -> Result<()> {
    let findings = Facts::read().findings();
    output::print(&listed(&findings))?;
    let problems = findings.iter().filter(|it| it.verdict == Verdict::Problem);
    match problems.count() {
        0 => Ok(()),
        1 => bail!("a problem is in the way of scheduling this machine"),
        nr => bail!("{nr} problems are in the way of scheduling this machine"),
    }
}

/// What is found, a line for each thing.
pub fn lines() -> String {
    listed(&Facts::read().findings())
}

fn listed(findings: &[Finding]) -> String {
    findings
        .iter()
        .map(|finding| format!("{finding}\n"))
        .collect()
}

/// The text of a file without what ends it; empty if it cannot be read.
fn read(path: impl AsRef<Path>) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    printable(text.trim())
}

/// What the file of this name says of each group of CPUs of one frequency.
fn of_policies(name: &str) -> BTreeSet<String> {
    let said = cpufreq::read_of_each(Path::new(cpufreq::POLICIES), name);
    let said = said.iter().map(|said| printable(said));
    said.filter(|said| !said.is_empty()).collect()
}

fn runs(comm: &str) -> bool {
    let processes = procfs::process::all_processes();
    let mut stats = processes.into_iter().flatten().flatten();
    stats.any(|process| process.stat().is_ok_and(|stat| stat.comm == comm))
}

impl Facts {
    fn read() -> Facts {
        let has_btf = has_types();
        Facts {
            unmounted: unmounted(),
            release: read(RELEASE_PATH),
            has_sched_ext: has_sched_ext(),
            has_btf,
            // It ends the program where there is no type information.
            malformed: if has_btf {
                compat::malformed_scx_kfuncs()
            } else {
                Vec::new()
            },
            has_function_tracer: compat::function_tracer_available(),
            has_jit: read(JIT_PATH) != "0",
            is_root: geteuid().is_root(),
            has_wakers: match has_btf && geteuid().is_root() {
                true => scheduler::can_find_interrupts().ok(),
                false => None,
            },
            refusals: refusal::foreseen(),
            ops: read(Path::new(SCHED_EXT).join("root/ops")),
            driver: of_policies("scaling_driver")
                .into_iter()
                .next()
                .unwrap_or_default(),
            governors: of_policies("scaling_governor"),
            has_ananicy: runs(ANANICY_COMM),
            held: held::programs(&rules::usual()),
        }
    }

    fn findings(&self) -> Vec<Finding> {
        // Of a kernel that cannot be seen nothing is known.
        if !self.unmounted.is_empty() {
            return vec![problem("mounts", not_mounted(&self.unmounted))];
        }
        let mut findings = vec![self.kernel()];
        // Of a kernel that has no sched_ext the rest says nothing.
        if self.has_sched_ext {
            findings.extend([self.types(), self.tracer(), self.jit()]);
            findings.extend(self.permissions());
            findings.extend(self.wakers());
            findings.push(self.other());
        }
        findings.extend([self.frequency(), self.ananicy()]);
        findings.extend(self.priorities());
        findings
    }

    fn kernel(&self) -> Finding {
        let release = &self.release;
        if self.has_sched_ext {
            return ok("kernel", format!("{release}, with sched_ext"));
        }
        problem(
            "kernel",
            format!(
                "{release} has no sched_ext: boot one of Linux 6.12 or newer with \
                 CONFIG_SCHED_CLASS_EXT=y"
            ),
        )
    }

    fn types(&self) -> Finding {
        if !self.has_btf {
            return problem("types", NO_TYPES);
        }
        if self.malformed.is_empty() {
            return ok("types", "the kernel's type information is sound");
        }
        problem("types", refusal::wrong_types(&self.malformed))
    }

    fn tracer(&self) -> Finding {
        if self.has_function_tracer {
            return ok("tracer", "functions can be traced");
        }
        let text = "schedulers need the function tracer: boot a kernel with \
                    CONFIG_FUNCTION_TRACER=y";
        problem("tracer", text)
    }

    fn jit(&self) -> Finding {
        if self.has_jit {
            return ok("jit", "BPF programs are compiled");
        }
        let text = "the kernel would refuse interpreted programs: sysctl net.core.bpf_jit_enable=1";
        problem("jit", text)
    }

    fn wakers(&self) -> Option<Finding> {
        Some(match self.has_wakers? {
            true => ok("wakers", "the kernel shows what wakes a task"),
            false => note("wakers", waker::UNKNOWN),
        })
    }

    fn permissions(&self) -> Vec<Finding> {
        if !self.is_root {
            let text = "loading a scheduler into the kernel needs root: use sudo";
            return vec![problem("permission", text)];
        }
        if self.refusals.is_empty() {
            let text = "root, no CPU is isolated and the kernel is not locked down";
            return vec![ok("permission", text)];
        }
        let refusals = self.refusals.iter();
        refusals.map(|why| problem("permission", why)).collect()
    }

    fn other(&self) -> Finding {
        let ops = &self.ops;
        if ops.is_empty() {
            return ok("scheduler", "none of sched_ext runs");
        }
        if ops.starts_with(OPS_NAME) {
            return ok("scheduler", format!("{ops} runs"));
        }
        problem(
            "scheduler",
            format!(
                "{ops} runs, and there can be one at a time: stop it first, with `scxctl stop`, \
                 or by stopping its service"
            ),
        )
    }

    fn frequency(&self) -> Finding {
        let governors: Vec<&str> = self.governors.iter().map(String::as_str).collect();
        if governors.is_empty() {
            return ok("frequency", "not set by this kernel");
        }
        let text = format!("driver {}, governor {}", self.driver, governors.join(", "));
        if governors.contains(&LISTENER) {
            return ok("frequency", text);
        }
        note(
            "frequency",
            format!("{text}: only {LISTENER} listens to what the scheduler asks for"),
        )
    }

    fn ananicy(&self) -> Finding {
        if !self.has_ananicy {
            return ok("ananicy", "does not run");
        }
        let text = "runs and changes nice levels, which are honoured; its rules are read as well, \
                    without their nice levels";
        note("ananicy", text)
    }

    fn priorities(&self) -> Vec<Finding> {
        if self.held.is_empty() {
            let text = "no compositor and no game is held in batch";
            return vec![ok("priority", text)];
        }
        let held = self.held.iter().take(NR_HELD_MAX);
        held.map(|text| note("priority", text)).collect()
    }
}

fn ok(subject: &'static str, text: impl Into<String>) -> Finding {
    finding(Verdict::Ok, subject, text)
}

fn note(subject: &'static str, text: impl Into<String>) -> Finding {
    finding(Verdict::Note, subject, text)
}

fn problem(subject: &'static str, text: impl Into<String>) -> Finding {
    finding(Verdict::Problem, subject, text)
}

fn finding(verdict: Verdict, subject: &'static str, text: impl Into<String>) -> Finding {
    Finding {
        verdict,
        subject,
        text: text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine on which the scheduler starts.
    fn good() -> Facts {
        Facts {
            release: "6.18.1".to_owned(),
            has_sched_ext: true,
            has_btf: true,
            has_function_tracer: true,
            has_jit: true,
            is_root: true,
            ..Facts::default()
        }
    }

    fn verdicts(facts: &Facts) -> Vec<(Verdict, &'static str)> {
        let findings = facts.findings();
        let wrong = findings.iter().filter(|it| it.verdict != Verdict::Ok);
        wrong.map(|it| (it.verdict, it.subject)).collect()
    }

    #[test]
    fn a_good_machine_has_no_problem() {
        assert_eq!(verdicts(&good()), []);
        let ours = Facts {
            ops: "pandemonium_6.0.0_x86_64".to_owned(),
            driver: "acpi-cpufreq".to_owned(),
            governors: BTreeSet::from([LISTENER.to_owned()]),
            ..good()
        };
        assert_eq!(verdicts(&ours), []);
    }

    #[test]
    fn each_cause_is_one_problem_with_what_to_do() {
        for (facts, subject, word) in [
            (
                Facts {
                    has_sched_ext: false,
                    ..good()
                },
                "kernel",
                "CONFIG_SCHED_CLASS_EXT",
            ),
            (
                Facts {
                    unmounted: vec!["/proc"],
                    ..Facts::default()
                },
                "mounts",
                "/proc is not mounted",
            ),
            (
                Facts {
                    has_btf: false,
                    ..good()
                },
                "types",
                "CONFIG_DEBUG_INFO_BTF",
            ),
            (
                Facts {
                    malformed: vec!["scx_bpf_x".to_owned()],
                    ..good()
                },
                "types",
                "pahole 1.31",
            ),
            (
                Facts {
                    has_function_tracer: false,
                    ..good()
                },
                "tracer",
                "CONFIG_FUNCTION_TRACER",
            ),
            (
                Facts {
                    has_jit: false,
                    ..good()
                },
                "jit",
                "bpf_jit_enable=1",
            ),
            (
                Facts {
                    is_root: false,
                    ..good()
                },
                "permission",
                "sudo",
            ),
            (
                Facts {
                    refusals: vec!["because".to_owned()],
                    ..good()
                },
                "permission",
                "because",
            ),
            (
                Facts {
                    ops: "bpfland_1".to_owned(),
                    ..good()
                },
                "scheduler",
                "scxctl stop",
            ),
        ] {
            assert_eq!(verdicts(&facts), [(Verdict::Problem, subject)]);
            let findings = facts.findings();
            let line = findings.iter().find(|it| it.verdict == Verdict::Problem);
            assert!(line.unwrap().to_string().contains(word), "{findings:?}");
        }
    }

    #[test]
    fn what_works_but_should_be_known_is_a_note() {
        let facts = Facts {
            governors: BTreeSet::from(["powersave".to_owned()]),
            has_ananicy: true,
            held: vec!["weston (431) runs in SCHED_IDLE".to_owned()],
            ..good()
        };
        let subjects = ["frequency", "ananicy", "priority"];
        let notes = subjects.map(|subject| (Verdict::Note, subject));
        assert_eq!(verdicts(&facts), notes);
    }
}
