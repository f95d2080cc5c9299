//! Whether anything listens to how fast the scheduler wants CPUs to be: the
//! governors that the kernel's cpufreq has for them.
//!
//! Only schedutil does. Others measure by themselves, and so do processors that
//! set their own frequency, as intel_pstate and amd-pstate let them in their
//! active modes.
//!
//! Not here: what is asked for (`src/bpf/frequency.bpf.c`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::cli::Cpufreq;

/// The governor that listens.
pub const LISTENER: &str = "schedutil";

/// Where the kernel has a directory for each group of CPUs of one frequency.
pub const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";

/// When CPUs are asked for, and where governors are read.
pub struct Governors {
    mode: Cpufreq,
    policies: PathBuf,
}

impl Governors {
    /// Those of this machine, as far as `mode` wants to know.
    pub fn new(mode: Cpufreq) -> Self {
        Governors {
            mode,
            policies: PathBuf::from(POLICIES),
        }
    }

    /// Whether one may listen, now or once it is changed. A driver that is loaded
    /// later is not foreseen.
    pub fn may_listen(&self) -> bool {
        match self.mode {
            Cpufreq::Auto => !read_governors(&self.policies).is_empty(),
            Cpufreq::On => true,
            Cpufreq::Off => false,
        }
    }

    /// Whether one listens at present.
    pub fn one_listens(&self) -> bool {
        match self.mode {
            Cpufreq::Auto => {
                let governors = read_governors(&self.policies);
                governors.iter().any(|governor| governor == LISTENER)
            }
            Cpufreq::On => true,
            Cpufreq::Off => false,
        }
    }
}

/// The governor of each policy; none where the kernel sets no frequencies.
///
/// Without a driver there is no directory, or an empty one. What is in it and has no
/// governor is the tunables of one, or a policy whose last CPU has just gone.
fn read_governors(policies: &Path) -> Vec<String> {
    read_of_each(policies, "scaling_governor")
}

/// What the file `name` says of each policy that has one.
pub fn read_of_each(policies: &Path, name: &str) -> Vec<String> {
    let entries = fs::read_dir(policies).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path().join(name));
    let texts = files.filter_map(|file| fs::read_to_string(file).ok());
    texts.map(|text| text.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use tempfile::{TempDir, tempdir};

    use super::*;

    /// A directory of policies with these governors.
    struct Machine(TempDir);

    impl Machine {
        fn new(governors: &[&str]) -> Self {
            let machine = Machine(tempdir().unwrap());
            let dir = machine.0.path();
            fs::create_dir_all(dir.join("schedutil")).unwrap();
            for (nr, governor) in governors.iter().enumerate() {
                let policy = dir.join(format!("policy{nr}"));
                fs::create_dir_all(&policy).unwrap();
                fs::write(policy.join("scaling_governor"), format!("{governor}\n")).unwrap();
            }
            machine
        }

        fn governors(&self, mode: Cpufreq) -> Governors {
            Governors {
                mode,
                policies: self.0.path().to_owned(),
            }
        }

        /// Whether one may listen, and whether one does.
        fn ask(&self, mode: Cpufreq) -> (bool, bool) {
            let governors = self.governors(mode);
            (governors.may_listen(), governors.one_listens())
        }
    }

    #[test]
    fn one_policy_with_schedutil_is_enough() {
        let machine = Machine::new(&["performance", "schedutil"]);
        assert_eq!(machine.ask(Cpufreq::Auto), (true, true));
        assert_eq!(machine.ask(Cpufreq::Off), (false, false));
    }

    #[test]
    fn other_governors_may_be_changed_for_schedutil() {
        let machine = Machine::new(&["powersave", "performance"]);
        assert_eq!(machine.ask(Cpufreq::Auto), (true, false));
        let file = machine.0.path().join("policy0/scaling_governor");
        fs::write(file, "schedutil\n").unwrap();
        assert_eq!(machine.ask(Cpufreq::Auto), (true, true));
    }

    #[test]
    fn nothing_listens_where_there_is_no_policy_unless_it_is_said_to() {
        let machine = Machine::new(&[]);
        assert_eq!(machine.ask(Cpufreq::Auto), (false, false));
        assert_eq!(machine.ask(Cpufreq::On), (true, true));
        let nowhere = Governors {
            mode: Cpufreq::Auto,
            policies: machine.0.path().join("nowhere"),
        };
        assert!(!nowhere.may_listen());
    }
}
