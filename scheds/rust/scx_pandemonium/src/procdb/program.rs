//! Which program a process runs, by a name that lasts.
//!
//! The path of its file. What runs other programs says nothing of them by that: a
//! script is known by what runs it and its own name, a game under Wine by the
//! program that its command line begins with.
//!
//! Where another user's processes may not be looked at, as in a service without
//! `CAP_SYS_PTRACE`, the first word of the command line stands for the path.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;

use procfs::process::Process;

use crate::bpf_intf::intf_consts_PROGRAM_NAMED_BIT;
use crate::rules::{basename, text_of};

/// What runs scripts, without a version at the end.
const INTERPRETERS: &[&str] = &[
    "bash", "dash", "sh", "ash", "zsh", "ksh", "fish", "python", "perl", "ruby", "node", "nodejs",
    "lua", "luajit", "php", "java", "tclsh", "wish", "guile", "R", "mono", "dotnet", "electron",
    "gjs", "qml",
];

/// Options of these that are followed by a text to run, not by a file.
const TEXT_OPTIONS: &[&str] = &["-c", "-e", "-m"];

/// What is one file for many programs, which is told by the first word of the
/// command line; all that begin like this.
const MANY_IN_ONE: &[&str] = &["wine", "busybox", "toybox", "coreutils"];

/// Bytes of a command line that are read.
const CMDLINE_LEN_MAX: u64 = 4096;

/// The kernel appends it to the path of a program whose file is gone.
const DELETED: &str = " (deleted)";

/// Begins the path of a file that has never been in a directory, and has another
/// inode each time.
const IN_MEMORY: &str = "/memfd:";

/// A program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What it is called in a [`super::Key`].
    pub name: String,
    /// Whether it is not told by the file that runs: a script, a game.
    pub is_named: bool,
}

impl Program {
    /// The program of process `pid`; `None` if it is gone, or has no name that is
    /// text.
    pub fn read(pid: i32) -> Option<Program> {
        let process = Process::new(pid).ok()?;
        let exe = process.exe().ok().as_deref().and_then(text_of);
        let mut bytes = Vec::new();
        let file = process.open_relative("cmdline").ok()?;
        file.take(CMDLINE_LEN_MAX).read_to_end(&mut bytes).ok()?;
        let words = bytes.split(|byte| *byte == 0);
        let words: Vec<&str> = words.map_while(|word| str::from_utf8(word).ok()).collect();
        Program::new(exe.as_deref(), &words)
    }

    /// The program of file `exe`, if that is known, with a command line of
    /// `words`.
    fn new(exe: Option<&str>, words: &[&str]) -> Option<Program> {
        let argv0 = words.first().copied().filter(|word| !word.is_empty());
        let exe = exe.map(|exe| exe.trim_end_matches(DELETED));
        let path = exe.or(argv0)?;
        let runner = basename(path)?;
        let is_one_of_many = MANY_IN_ONE.iter().any(|name| runner.starts_with(name));
        let own_name = if is_one_of_many {
            argv0.and_then(basename).filter(|name| *name != runner)
        } else if is_interpreter(runner) {
            script(words)
        } else {
            None
        };
        Some(Program {
            name: own_name.map_or_else(|| path.to_owned(), |name| format!("{runner} {name}")),
            is_named: own_name.is_some() || path.starts_with(IN_MEMORY),
        })
    }

    /// Its number in the BPF half, if its file does not tell it.
    pub fn number(&self) -> Option<u64> {
        self.is_named.then(|| number(&self.name))
    }
}

/// The number of a program that its file does not tell, by its name.
pub fn number(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish() | 1 << intf_consts_PROGRAM_NAMED_BIT
}

/// Whether a program of this name runs scripts.
fn is_interpreter(name: &str) -> bool {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.contains(&plain)
}

/// The name of the script in a command line of an interpreter.
fn script<'a>(words: &[&'a str]) -> Option<&'a str> {
    let mut words = words.iter().skip(1);
    let word = words.find(|word| !word.starts_with('-') || TEXT_OPTIONS.contains(word))?;
    basename(word).filter(|name| !name.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fuzz;

    fn name(exe: &str, words: &[&str]) -> (String, bool) {
        let program = Program::new(Some(exe), words).unwrap();
        (program.name, program.is_named)
    }

    #[test]
    fn a_program_is_its_file_unless_that_runs_others() {
        for (exe, words, expected, is_named) in [
            ("/usr/bin/ls", &["ls", "-l"][..], "/usr/bin/ls", false),
            ("/memfd:x (deleted)", &["x"], "/memfd:x", true),
            ("/opt/x (deleted)", &["x"], "/opt/x", false),
            (
                "/usr/bin/python3.11",
                &["/usr/bin/python3", "-u", "/home/u/train.py", "--fast"],
                "python3.11 train.py",
                true,
            ),
            (
                "/usr/bin/dash",
                &["sh", "-c", "make all"],
                "/usr/bin/dash",
                false,
            ),
            ("/usr/bin/bash", &["-bash"], "/usr/bin/bash", false),
            (
                "/usr/lib/wine/wine64-preloader",
                &["Z:\\games\\Game.exe", "-windowed"],
                "wine64-preloader Game.exe",
                true,
            ),
            ("/bin/busybox", &["gzip", "x"], "busybox gzip", true),
            ("/bin/busybox", &["busybox", "x"], "/bin/busybox", false),
            ("/usr/bin/shfmt", &["shfmt", "x"], "/usr/bin/shfmt", false),
        ] {
            assert_eq!(name(exe, words), (expected.to_owned(), is_named));
        }
    }

    #[test]
    fn without_a_look_at_the_file_the_command_line_tells() {
        let program = Program::new(None, &["/usr/bin/python3", "a.py"]).unwrap();
        assert_eq!(program.name, "python3 a.py");
        assert_eq!(Program::new(None, &["", "x"]), None);
        assert_eq!(Program::new(None, &[]), None);
    }

    #[test]
    fn a_number_is_no_inode_and_the_same_each_time() {
        assert_eq!(number("a b"), number("a b"));
        assert_ne!(number("a b"), number("a c"));
        assert_eq!(number("a b") >> intf_consts_PROGRAM_NAMED_BIT, 1);
    }

    proptest! {
        #![proptest_config(fuzz::config(2000))]

        #[test]
        fn fuzz_a_program_of_any_command_line(
            exe in prop::option::of("/?(usr/bin/)?(wine|busybox|python3|bash|\\PC{0,4})( \\(deleted\\))?"),
            words in prop::collection::vec("(-c|-m|-|/)?\\PC{0,6}", 0..4),
        ) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if let Some(program) = Program::new(exe.as_deref(), &words) {
                prop_assert_eq!(program.number().is_some(), program.is_named);
            }
        }
    }
}
