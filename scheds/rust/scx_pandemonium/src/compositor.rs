//! Which programs draw the screen: names of compositors, as BPF compares them.
//!
//! The kernel keeps the first 15 bytes of a program's name, so that is what is
//! compared. A name may end with `*`, which stands for anything.
//!
//! Not here: what a compositor is entitled to (`src/bpf/policy/compositor.h`).

use std::str::FromStr;

use anyhow::{Result, ensure};
use log::warn;

use crate::bpf_intf::{comm_pattern, intf_consts_COMM_LEN, intf_consts_MAX_COMM_PATTERNS};

/// Bytes of a task's name, the final 0 included.
const COMM_LEN: usize = intf_consts_COMM_LEN as usize;

/// Bytes of a name that the kernel keeps.
const NAME_LEN_MAX: usize = COMM_LEN - 1;

/// Most names that BPF compares with.
const NR_PATTERNS_MAX: usize = intf_consts_MAX_COMM_PATTERNS as usize;

/// Programs that draw the screen, or half of it as Xwayland does. Those with a
/// dot are what a wrapper script of a distribution calls the program behind it.
const KNOWN: &[&str] = &[
    ".Hyprland-wrapped",
    ".gamescope-wrapped",
    ".gnome-shell-wrapped",
    ".kwin_wayland-wrapped",
    ".kwin_x11-wrapped",
    ".sway-wrapped",
    "Hyprland",
    "X",
    "Xorg",
    "Xwayland",
    "budgie-wm",
    "cage",
    "cinnamon",
    "compiz",
    "cosmic-comp",
    "deepin-kwin*",
    "dwl",
    "enlightenment",
    "gala",
    "gamescope",
    "gamescope-wl",
    "gnome-shell",
    "kwin_wayland",
    "kwin_x11",
    "labwc",
    "marco",
    "muffin",
    "mutter",
    "niri",
    "phoc",
    "picom",
    "river",
    "sway",
    "wayfire",
    "weston",
    "xfwm4",
];
const _: () = assert!(KNOWN.len() <= NR_PATTERNS_MAX);

/// A name, or the beginning of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommPattern {
    /// What was asked for.
    text: String,
    /// What is compared: at most [`NAME_LEN_MAX`] bytes.
    name: Vec<u8>,
    /// Whether any name that begins so is meant.
    is_prefix: bool,
}

impl FromStr for CommPattern {
    type Err = String;

    /// Read a name. Refused are those that no program can have or that would
    /// make one of every program.
    fn from_str(text: &str) -> Result<CommPattern, String> {
        let (name, is_prefix) = match text.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (text, false),
        };
        if name.is_empty() {
            return Err(if is_prefix {
                "would match every program".to_owned()
            } else {
                "the name is empty".to_owned()
            });
        }
        if name.contains('*') {
            return Err("a * may only stand at the end".to_owned());
        }
        if name.contains(char::is_control) {
            return Err("the name contains a control character".to_owned());
        }
        let len = name.len().min(NAME_LEN_MAX);
        Ok(CommPattern {
            text: text.to_owned(),
            name: name.as_bytes()[..len].to_vec(),
            is_prefix,
        })
    }
}

impl CommPattern {
    /// Whether the kernel keeps less of such a name than was asked for.
    fn is_cut(&self) -> bool {
        self.text.len() > self.name.len() + usize::from(self.is_prefix)
    }

    /// Whether `comm`, as the kernel keeps it, is such a name.
    fn matches(&self, comm: &str) -> bool {
        match self.is_prefix {
            true => comm.as_bytes().starts_with(&self.name),
            false => comm.as_bytes() == self.name,
        }
    }

    /// The pattern as BPF compares it. The mask of a whole name covers the 0
    /// behind it; what the kernel leaves behind that is not looked at.
    fn to_bpf(&self) -> comm_pattern {
        let mut value = [0; COMM_LEN];
        let mut mask = [0; COMM_LEN];
        let nr_compared = self.name.len() + usize::from(!self.is_prefix);
        value[..self.name.len()].copy_from_slice(&self.name);
        mask[..nr_compared].fill(u8::MAX);
        comm_pattern {
            value: words(&value),
            mask: words(&mask),
        }
    }
}

/// The words of a name, as memory holds them.
fn words(bytes: &[u8; COMM_LEN]) -> [u64; 2] {
    let mut words = [0; 2];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    words
}

/// Whether a process of this name, as the kernel keeps it, draws the screen.
pub fn is_known(comm: &str) -> bool {
    let mut known = KNOWN.iter().filter_map(|name| name.parse().ok());
    known.any(|pattern: CommPattern| pattern.matches(comm))
}

/// The names that are known and those of `more`, as BPF compares them.
///
/// # Errors
///
/// If there are more than BPF compares with.
pub fn patterns(more: &[CommPattern]) -> Result<Vec<comm_pattern>> {
    ensure!(
        KNOWN.len() + more.len() <= NR_PATTERNS_MAX,
        "at most {} compositors can be given",
        NR_PATTERNS_MAX - KNOWN.len()
    );
    for pattern in more.iter().filter(|pattern| pattern.is_cut()) {
        warn!(
            "--compositor {}: the kernel keeps {NAME_LEN_MAX} bytes of a name, so {} is looked for",
            pattern.text,
            String::from_utf8_lossy(&pattern.name)
        );
    }
    let known = KNOWN.iter().filter_map(|name| name.parse().ok());
    let all = known.chain(more.iter().cloned());
    Ok(all.map(|pattern: CommPattern| pattern.to_bpf()).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{fuzz, policy};

    /// A name as the kernel keeps it, with `garbage` behind its final 0.
    fn comm(name: &str, garbage: u8) -> [u64; 2] {
        let mut comm = [garbage; COMM_LEN];
        let len = name.len().min(NAME_LEN_MAX);
        comm[..len].copy_from_slice(&name.as_bytes()[..len]);
        comm[len] = 0;
        words(&comm)
    }

    fn matches(pattern: &str, name: &str) -> bool {
        let pattern = pattern.parse::<CommPattern>().unwrap();
        let kept = &name[..name.len().min(NAME_LEN_MAX)];
        let is_said = pattern.matches(kept);
        let pattern = pattern.to_bpf();
        let is_match = policy::comm_matches(&pattern, comm(name, 0));
        assert_eq!(is_match, policy::comm_matches(&pattern, comm(name, 0xff)));
        assert_eq!(is_match, is_said);
        is_match
    }

    #[test]
    fn a_name_matches_itself_and_nothing_longer_or_shorter() {
        for name in ["X", "sway", "kwin_wayland", "Hyprland", "deepin-kwin_x11"] {
            assert!(matches(name, name), "{name}");
            assert!(!matches(name, &name[..name.len() - 1]), "{name} cut");
            assert!(!matches(name, "systemd"), "{name}");
            assert!(!matches(name, ""), "{name}");
        }
        assert!(!matches("sway", "swaybg"));
        assert!(!matches("Hyprland", "Hyprlander"));
        assert!(!matches("kwin_wayland", "kwin_wayland_wrapper"));
    }

    #[test]
    fn a_prefix_matches_what_begins_with_it() {
        assert!(matches("kwin*", "kwin_wayland"));
        assert!(matches("kwin*", "kwin"));
        assert!(matches("gamescope*", "gamescope-wl"));
        assert!(!matches("kwin*", "kwi"));
        assert!(!matches("kwin*", "my-kwin"));
    }

    #[test]
    fn a_long_name_is_what_the_kernel_keeps_of_it() {
        assert!(matches(".Hyprland-wrapped", ".Hyprland-wrapp"));
        assert!(matches("a-very-long-name-of-it*", "a-very-long-name"));
        let is_cut = |text: &str| text.parse::<CommPattern>().unwrap().is_cut();
        assert!(is_cut(".Hyprland-wrapped"));
        assert!(is_cut("0123456789abcdef*"));
        assert!(!is_cut("0123456789abcde"));
        assert!(!is_cut("0123456789abcde*"));
    }

    #[test]
    fn a_name_that_no_program_or_every_program_has_is_refused() {
        for bad in ["", "*", "**", "a*b", "*a", "a\tb", "a\0"] {
            assert!(bad.parse::<CommPattern>().is_err(), "{bad:?} was accepted");
        }
        assert!("Web Content".parse::<CommPattern>().is_ok());
    }

    #[test]
    fn every_known_name_is_a_pattern_and_more_fit_up_to_a_bound() {
        assert_eq!(patterns(&[]).unwrap().len(), KNOWN.len());
        let one: CommPattern = "mine".parse().unwrap();
        let more = vec![one; NR_PATTERNS_MAX - KNOWN.len()];
        assert_eq!(patterns(&more).unwrap().len(), NR_PATTERNS_MAX);
        let too_many = [more, vec!["mine".parse().unwrap()]].concat();
        assert!(patterns(&too_many).is_err());
    }

    proptest! {
        #![proptest_config(fuzz::config(2000))]

        #[test]
        fn fuzz_a_name_of_anything(text in any::<String>(), short in "[a-z*\\PC]{0,20}") {
            for text in [text, short] {
                let Ok(pattern) = text.parse::<CommPattern>() else {
                    continue;
                };
                let bpf = pattern.to_bpf();
                prop_assert!(pattern.name.len() <= NAME_LEN_MAX);
                // A program that is called so is found, and one without a name is not.
                prop_assert!(policy::comm_matches(&bpf, comm_of(&pattern.name)));
                prop_assert!(!policy::comm_matches(&bpf, comm_of(b"")));
            }
        }
    }

    /// These bytes as the kernel keeps them.
    fn comm_of(name: &[u8]) -> [u64; 2] {
        let mut comm = [0; COMM_LEN];
        comm[..name.len()].copy_from_slice(name);
        words(&comm)
    }
}
