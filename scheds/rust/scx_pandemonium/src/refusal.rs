//! Why the kernel refuses to load or to attach the scheduler, and what to do.
//!
//! The system call that fails says a number only. The kernel's own words are in its
//! log; what it looks at stands in /proc and /sys.
//!
//! Not here: another scheduler that runs, a kernel without sched_ext, a user who is
//! not root, which are seen before anything is loaded (scheduler).

use std::fs;

use anyhow::anyhow;
use procfs::process::Process;
use scx_utils::compat;

use crate::kernel_log::KernelLog;

/// Records that are looked at: what the kernel says meanwhile of other things is
/// less.
const NR_RECORDS_MAX: usize = 1000;

const ISOLATED_PATH: &str = "/sys/devices/system/cpu/isolated";
const COMMAND_LINE_PATH: &str = "/proc/cmdline";
const ISOLCPUS: &str = "isolcpus=";
const LOCKDOWN_PATH: &str = "/sys/kernel/security/lockdown";

/// The kernel's build, where it says whether it is for real-time work.
const VERSION_PATH: &str = "/proc/sys/kernel/version";
const REAL_TIME: &str = "PREEMPT_RT";

/// A variable of each CPU that the BPF half reads. Its address is that of
/// `/proc/kallsyms`, which has functions only without `CONFIG_KALLSYMS_ALL`.
const VARIABLE: &str = "runqueues";

/// In the file of the lockdown: BPF may not read the kernel's memory.
const LOCKED_DOWN: &str = "[confidentiality]";

/// Capabilities, by their numbers in `linux/capability.h`, without which no
/// scheduler is loaded; the first stands for the others.
const CAP_SYS_ADMIN: u32 = 21;
const CAPS: [(u32, &str); 2] = [(38, "CAP_PERFMON"), (39, "CAP_BPF")];

/// The kernel's log from some moment on; nothing if it may not be read.
pub struct Words(Option<KernelLog>);

impl Words {
    /// What the kernel says from now on.
    pub fn from_now() -> Words {
        Words(KernelLog::from_now().ok())
    }

    /// What the kernel has said of sched_ext since.
    fn said(&mut self) -> Vec<String> {
        let lines = self.0.as_mut().map(|log| log.lines(NR_RECORDS_MAX));
        let lines = lines.and_then(Result::ok).unwrap_or_default();
        lines.into_iter().map(|line| line.words).collect()
    }

    /// `err`, with the reasons that can be found for it.
    pub fn explain(&mut self, err: anyhow::Error) -> anyhow::Error {
        let err = with_types(err, &compat::malformed_scx_kfuncs());
        match State::read(self.said()).reasons() {
            reasons if reasons.is_empty() => err,
            reasons => err.context(reasons.join("; ")),
        }
    }
}

/// `err` of a load; if type information of the functions `malformed` is wrong, with the
/// words for that in place of those of the library, which take many lines to name a
/// version of pahole that has the same fault.
fn with_types(err: anyhow::Error, malformed: &[String]) -> anyhow::Error {
    if malformed.is_empty() {
        return err;
    }
    anyhow!("{}", err.root_cause()).context(wrong_types(malformed))
}

/// What is wrong with a kernel that has wrong type information of the functions
/// `malformed`, and what to do.
pub fn wrong_types(malformed: &[String]) -> String {
    format!(
        "the kernel's type information is wrong for {}, so that no scheduler loads: its build \
         took a pahole that is too old, as 1.30 of Fedora 44 is; boot a kernel that was built \
         with pahole 1.31 or newer",
        malformed.join(", ")
    )
}

/// What there is to find reasons in.
struct State {
    /// What the kernel said of sched_ext.
    words: Vec<String>,
    isolated: String,
    lockdown: String,
    version: String,
    /// Whether variables of the kernel have addresses, as those of each CPU.
    has_variables: bool,
    /// Capabilities of this process, a bit each.
    caps: u64,
}

/// What would make the kernel refuse a scheduler of this process, were it started
/// now; empty if nothing that can be seen.
pub fn foreseen() -> Vec<String> {
    let mut state = State::read(Vec::new());
    // A partition of a cpuset isolates CPUs as well, which the kernel does not mind.
    let line = fs::read_to_string(COMMAND_LINE_PATH).unwrap_or_default();
    if !line.contains(ISOLCPUS) {
        state.isolated.clear();
    }
    state.reasons()
}

impl State {
    /// That of this machine and process, of which the kernel said `words`.
    fn read(words: Vec<String>) -> State {
        let status = Process::myself().and_then(|process| process.status());
        State {
            words,
            isolated: fs::read_to_string(ISOLATED_PATH).unwrap_or_default(),
            lockdown: fs::read_to_string(LOCKDOWN_PATH).unwrap_or_default(),
            version: fs::read_to_string(VERSION_PATH).unwrap_or_default(),
            has_variables: compat::in_kallsyms(VARIABLE).unwrap_or(true),
            caps: status.map_or(u64::MAX, |status| status.capeff),
        }
    }

    fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if !self.words.is_empty() {
            reasons.push(format!("the kernel says: {}", self.words.join(", ")));
        }
        let isolated = self.isolated.trim();
        let is_about_isolation = self.words.iter().any(|words| words.contains("isolcpus"));
        if is_about_isolation || self.words.is_empty() && !isolated.is_empty() {
            reasons.push(format!(
                "CPUs {isolated} are isolated, and the kernel refuses every sched_ext scheduler \
                 beside isolcpus=: remove it from the kernel's command line and restart"
            ));
        }
        let has = |cap: u32| self.caps >> cap & 1 != 0;
        let missing = CAPS.iter().filter(|(cap, _)| !has(*cap));
        let missing: Vec<&str> = missing.map(|(_, name)| *name).collect();
        if !missing.is_empty() && !has(CAP_SYS_ADMIN) {
            reasons.push(format!(
                "{} is missing, though the user is root: start it outside the container, or let \
                 the service have it",
                missing.join(" and ")
            ));
        }
        if self.lockdown.contains(LOCKED_DOWN) {
            reasons.push(
                "the kernel is locked down to confidentiality, in which BPF may not read what a \
                 scheduler needs: boot with lockdown=integrity or without"
                    .to_owned(),
            );
        }
        if self.version.contains(REAL_TIME) {
            reasons.push(
                "the kernel is built with PREEMPT_RT, and such kernels refuse the BPF timers by \
                 which slices end: boot one without"
                    .to_owned(),
            );
        }
        if !self.has_variables {
            reasons.push(
                "the kernel does not show where its variables are: boot one with \
                 CONFIG_KALLSYMS_ALL=y"
                    .to_owned(),
            );
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual() -> State {
        State {
            words: Vec::new(),
            isolated: "\n".to_owned(),
            lockdown: "none [integrity] confidentiality\n".to_owned(),
            version: "#1 SMP PREEMPT_DYNAMIC Debian 6.18.15-1 (2026-03-12)\n".to_owned(),
            has_variables: true,
            caps: u64::MAX,
        }
    }

    #[test]
    fn each_reason_is_told_with_what_to_do_and_none_is_made_up() {
        assert_eq!(usual().reasons(), Vec::<String>::new());
        let without = |caps: &[u32]| State {
            caps: !caps.iter().fold(0, |bits, cap| bits | 1_u64 << cap),
            ..usual()
        };
        assert_eq!(without(&[38, 39]).reasons(), Vec::<String>::new());
        let locked = State {
            lockdown: "none integrity [confidentiality]".to_owned(),
            ..usual()
        };
        let isolated = State {
            isolated: "1-3\n".to_owned(),
            ..usual()
        };
        let real_time = State {
            version: "#1 SMP PREEMPT_RT Debian 6.18.15-1 (2026-03-12)\n".to_owned(),
            ..usual()
        };
        let without_variables = State {
            has_variables: false,
            ..usual()
        };
        // As of a partition of a cpuset, which the kernel minds as little.
        let other = State {
            words: vec!["something else".to_owned()],
            isolated: "1-3\n".to_owned(),
            ..usual()
        };
        for (state, wanted) in [
            (without(&[21, 39]), "CAP_BPF is missing"),
            (without(&[21, 38, 39]), "CAP_PERFMON and CAP_BPF is missing"),
            (locked, "lockdown=integrity"),
            (real_time, "built with PREEMPT_RT"),
            (without_variables, "CONFIG_KALLSYMS_ALL=y"),
            (isolated, "CPUs 1-3 are isolated"),
            (other, "the kernel says: something else"),
        ] {
            let reasons = state.reasons();
            assert_eq!(reasons.len(), 1, "{reasons:?}");
            assert!(reasons[0].contains(wanted), "{reasons:?}");
        }
    }

    #[test]
    fn wrong_type_information_is_one_line_that_names_a_pahole_that_works() {
        let err = || {
            let err = anyhow!("Invalid argument (os error 22)");
            err.context("Failed to load BPF program")
                .context("malformed.\n\nFix: pahole >= 1.26.")
        };
        let text = format!("{:#}", with_types(err(), &["scx_bpf_x".to_owned()]));
        for word in ["scx_bpf_x", "pahole 1.31 or newer", "(os error 22)"] {
            assert!(text.contains(word), "{text}");
        }
        assert!(!text.contains('\n') && !text.contains("1.26"), "{text}");
        assert_eq!(
            format!("{:#}", with_types(err(), &[])),
            format!("{:#}", err())
        );
    }
}
