//! `scx_pandemonium report`: one text for a report of a problem.
//!
//! It reads, runs nothing and changes nothing. What cannot be had is a line that says
//! why. The names of the machine and of its users are taken out of what people have
//! named.
//!
//! Not here: what is in the way of a start (check), the telemetry (stats, tasks).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process;

use anyhow::{Context, Result, bail, ensure};
use clap::{Arg, CommandFactory};
use scx_utils::build_id;
use serde_json::Value;

use crate::check::{self, RELEASE_PATH, SCHED_EXT};
use crate::cli::{Opts, ReportOpts};
use crate::client::Client;
use crate::kernel_log::{KernelLog, Line};
use crate::output;
use crate::server::{TASKS_TARGET, TOP_TARGET};
use crate::tasks::Tasks;
use crate::text::printable;

/// How much of the kernel's log and of the list of tasks is told.
const NR_LOG_LINES_MAX: usize = 50;
const NR_TASKS_MAX: usize = 40;

/// Words of the kernel's command line that change what a scheduler may do.
const KERNEL_OPTIONS: &[&str] = &[
    "isolcpus",
    "lockdown",
    "maxcpus",
    "mitigations",
    "nohz_full",
    "nosmt",
    "nr_cpus",
    "preempt",
    "rcu_nocbs",
];

/// Names of users that are the same on all machines.
const COMMON_USERS: &[&str] = &["root"];

/// Words of paths that are the same on all machines, which users may be called as well.
const COMMON_DIRS: &[&str] = &[
    "bin", "cache", "data", "etc", "games", "home", "lib", "lib64", "local", "log", "media", "mnt",
    "opt", "root", "run", "sbin", "share", "src", "srv", "system", "tmp", "user", "usr", "var",
];

/// Print the report, or write it to a file.
///
/// # Errors
///
/// If it cannot be printed or written.
pub fn run(opts: &ReportOpts) -> Result<()> {
    let file = opts.output.as_deref().map(output::File::new).transpose()?;
    let report = text(opts.no_names, private_names());
    match file {
        Some(file) => file.replace(&report),
        None => output::print(&report),
    }
}

/// The report, in which something stands for each of the `private` names.
fn text(no_names: bool, private: Vec<Private>) -> String {
    let mut client = Client::connect();
    // What we and the kernel word: no name of people is in it, but maybe a word that
    // people take for a name.
    let version = version();
    let machine = described(machine());
    let check = check::lines();
    let sched_ext = described(sched_ext(Path::new(SCHED_EXT)));
    let telemetry = described(ask(&mut client, telemetry));
    let names = Names::new(
        private,
        &[&version, &machine, &check, &sched_ext, &telemetry],
    );
    let command_line = described(command_line().map(|line| names.redact(&line)));
    let kernel_log = described(kernel_log().map(|lines| names.redact(&lines)));
    let tasks = ask(&mut client, |client| tasks(client, no_names, &names));
    let parts = [
        ("scx_pandemonium", version),
        ("Machine", machine),
        ("Check", check),
        ("sched_ext", sched_ext),
        ("Command line", command_line),
        ("Kernel log", kernel_log),
        ("Telemetry", telemetry),
        ("Tasks", described(tasks)),
    ];
    let mut text = String::new();
    for (title, part) in parts {
        text += &format!("## {title}\n\n```\n{}\n```\n\n", part.trim_end());
    }
    text
}

/// A part, or why it cannot be had.
fn described(part: Result<String>) -> String {
    part.unwrap_or_else(|err| format!("not known: {err:#}"))
}

fn ask(
    client: &mut Result<Client>,
    what: impl FnOnce(&mut Client) -> Result<String>,
) -> Result<String> {
    match client {
        Ok(client) => what(client),
        Err(err) => bail!("{err:#}"),
    }
}

fn version() -> String {
    build_id::full_version(env!("CARGO_PKG_VERSION"))
}

fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(text.trim().to_owned())
}

fn machine() -> Result<String> {
    let release = read(RELEASE_PATH)?;
    let cpus = read("/sys/devices/system/cpu/online")?;
    let possible = read("/sys/devices/system/cpu/possible")?;
    let words = read("/proc/cmdline")?;
    let is_told = |word: &&str| {
        let (key, _) = word.split_once('=').unwrap_or((word, ""));
        KERNEL_OPTIONS.contains(&key)
    };
    let options: Vec<&str> = words.split_whitespace().filter(is_told).collect();
    Ok(printable(&format!(
        "Linux {release}, CPUs {cpus} of {possible}, started with: {}",
        if options.is_empty() {
            "nothing that matters here".to_owned()
        } else {
            options.join(" ")
        }
    )))
}

/// What the kernel says of its scheduling class, a line for each file in `dir`.
fn sched_ext(dir: &Path) -> Result<String> {
    ensure!(dir.exists(), "this kernel has no sched_ext");
    let mut lines = Vec::new();
    for dir in [dir.to_owned(), dir.join("root")] {
        let Ok(entries) = fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if let (Ok(text), true) = (read(&path), path.is_file()) {
                let name = entry.file_name();
                lines.push(printable(&format!("{} {text}", name.to_string_lossy())));
            }
        }
    }
    lines.sort_unstable();
    Ok(lines.join("\n"))
}

/// How the running scheduler was started.
fn command_line() -> Result<String> {
    let processes = procfs::process::all_processes().context("reading /proc")?;
    let ours = processes.flatten().filter(|found| {
        let is_ours = found
            .stat()
            .is_ok_and(|stat| stat.comm == "scx_pandemonium");
        is_ours && u32::try_from(found.pid).is_ok_and(|pid| pid != process::id())
    });
    let lines: Vec<String> = ours
        .filter_map(|found| found.cmdline().ok())
        .map(|words| printable(&words.join(" ")))
        .collect();
    ensure!(!lines.is_empty(), "no scx_pandemonium is running");
    Ok(lines.join("\n"))
}

/// The last lines of the kernel's log that speak of sched_ext.
fn kernel_log() -> Result<String> {
    let lines = KernelLog::open()?.lines(usize::MAX)?;
    ensure!(!lines.is_empty(), "says nothing of sched_ext");
    let first = lines.len().saturating_sub(NR_LOG_LINES_MAX);
    let last: Vec<String> = lines[first..].iter().map(Line::print).collect();
    Ok(last.join("\n"))
}

fn telemetry(client: &mut Client) -> Result<String> {
    let metrics: Value = client.ask(TOP_TARGET, &[])?;
    serde_json::to_string_pretty(&metrics).context("writing JSON")
}

fn tasks(client: &mut Client, no_names: bool, names: &Names) -> Result<String> {
    let mut tasks: Tasks = client.ask(TASKS_TARGET, &[])?;
    for task in &mut tasks.tasks {
        task.comm = match no_names {
            true => "-".to_owned(),
            false => names.redact(&task.comm),
        };
    }
    let nr_more = tasks.tasks.len().saturating_sub(NR_TASKS_MAX);
    Ok(format!(
        "{}\n{nr_more} more",
        tasks.table(NR_TASKS_MAX).trim_end()
    ))
}

/// Whose name it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Host,
    User,
}

impl Owner {
    /// What stands for a name.
    fn placeholder(self) -> &'static str {
        match self {
            Owner::Host => "HOST",
            Owner::User => "USER",
        }
    }

    /// Whether a word between `before` and `after` is a name and nothing else.
    fn is_named(self, before: &str, after: &str) -> bool {
        match self {
            Owner::Host => before.ends_with('@'),
            Owner::User => before.ends_with("/home/") || after.starts_with('@'),
        }
    }
}

/// A name that is to be taken out.
#[derive(Clone, Debug)]
struct Private {
    name: String,
    owner: Owner,
}

/// The names of the machine and of its users.
fn private_names() -> Vec<Private> {
    let host = read("/proc/sys/kernel/hostname").unwrap_or_default();
    let homes = fs::read_dir("/home").into_iter().flatten().flatten();
    let homes = homes.map(|home| home.file_name().to_string_lossy().into_owned());
    let users = ["USER", "SUDO_USER"].map(|key| std::env::var(key).unwrap_or_default());
    let users: BTreeSet<String> = homes.chain(users).collect();
    let users = users
        .into_iter()
        .filter(|name| !COMMON_USERS.contains(&name.as_str()));
    let user = |name| Private {
        name,
        owner: Owner::User,
    };
    let mut names: Vec<Private> = users.map(user).collect();
    names.push(Private {
        name: host,
        owner: Owner::Host,
    });
    names
}

/// What is to be taken out of what people have named: paths, arguments and tasks.
struct Names {
    /// The longest first, since one may be the beginning of another.
    private: Vec<Private>,
    /// Words that say nothing of who uses the machine: those of the rest of the report,
    /// of our options and of usual paths. A name that is one of them, as a machine called
    /// linux or auto has it, is taken out only where it can be nothing else.
    common: BTreeSet<String>,
}

impl Names {
    /// The `private` ones, in a report that has `texts` as they are.
    fn new(mut private: Vec<Private>, texts: &[&str]) -> Names {
        private.retain(|private| !private.name.is_empty());
        private.sort_by_key(|private| std::cmp::Reverse(private.name.len()));
        let command = Opts::command();
        let values = command.get_arguments().flat_map(Arg::get_possible_values);
        let values = values.map(|value| value.get_name().to_owned());
        let words = texts
            .iter()
            .flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
        let words = words.chain(COMMON_DIRS.iter().copied());
        Names {
            private,
            common: words.map(str::to_lowercase).chain(values).collect(),
        }
    }

    /// `text` with what stands for each name where it is a word of its own.
    fn redact(&self, text: &str) -> String {
        let redact = |text: String, private: &Private| self.redact_one(&text, private);
        self.private.iter().fold(text.to_owned(), redact)
    }

    fn redact_one(&self, text: &str, private: &Private) -> String {
        let Private { name, owner } = private;
        let is_common = self.common.contains(&name.to_lowercase());
        let mut done = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(name.as_str()) {
            let (before, found) = rest.split_at(at);
            let after = &found[name.len()..];
            done += before;
            let is_word = !done.ends_with(is_of_word) && !after.starts_with(is_of_word);
            let is_name = is_word && (!is_common || owner.is_named(&done, after));
            done += if is_name { owner.placeholder() } else { name };
            rest = after;
        }
        done + rest
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(private: &[(&str, Owner)], texts: &[&str]) -> Names {
        let private = private.iter().map(|(name, owner)| Private {
            name: (*name).to_owned(),
            owner: *owner,
        });
        Names::new(private.collect(), texts)
    }

    #[test]
    fn names_go_where_they_are_words() {
        let private = [
            ("anna", Owner::User),
            ("anna-lena", Owner::User),
            ("box", Owner::Host),
            ("", Owner::Host),
        ];
        let names = names(&private, &[]);
        for (text, expected) in [
            (
                "/home/anna/x --rules /home/anna",
                "/home/USER/x --rules /home/USER",
            ),
            ("anna-lena@box: hannah boxes", "USER@HOST: hannah boxes"),
            (
                "/etc/anna.toml /srv/box/anna",
                "/etc/USER.toml /srv/HOST/USER",
            ),
            ("box", "HOST"),
            ("", ""),
        ] {
            assert_eq!(names.redact(text), expected);
        }
    }

    #[test]
    fn a_name_that_is_a_word_of_the_report_goes_only_where_it_is_a_name() {
        let machine = "Linux 6.18.1-2-cachyos, started with: mitigations=auto";
        let texts = ["6.0.0 x86_64-unknown-linux-gnu", machine];
        let line = "/usr/games/scx_pandemonium --profile auto --affinity strong --rules \
                    /usr/lib/x86_64-linux-gnu/cachyos";
        let log = "BPF scheduler \"pandemonium_6.0.0_x86_64_unknown_linux_gnu\" enabled";
        for name in ["linux", "auto", "cachyos", "x86", "games", "strong", "Auto"] {
            for owner in [Owner::Host, Owner::User] {
                let names = names(&[(name, owner)], &texts);
                assert_eq!(names.redact(line), line, "{name}");
                assert_eq!(names.redact(log), log, "{name}");
            }
            let names = names(&[(name, Owner::User), ("box", Owner::Host)], &texts);
            let named = format!("--procdb /var/home/{name}/memory {name}@box");
            assert_eq!(
                names.redact(&named),
                "--procdb /var/home/USER/memory USER@HOST"
            );
        }
        let host = names(&[("linux", Owner::Host)], &texts);
        assert_eq!(host.redact("anna@linux /x/linux"), "anna@HOST /x/linux");
    }

    #[test]
    fn what_we_and_the_kernel_word_stays_as_it_is() {
        let private = |name: String| {
            vec![Private {
                name,
                owner: Owner::Host,
            }]
        };
        let plain = text(false, Vec::new());
        let head = |text: &str| {
            text.split_once("## Command line")
                .map(|(head, _)| head.to_owned())
        };
        for name in ["linux", "gnu", "Linux", "unknown", "ok", "kernel"] {
            let named = text(false, private(name.to_owned()));
            assert_eq!(head(&named), head(&plain), "{name}");
        }
    }

    #[test]
    fn each_part_is_there_or_says_why_it_is_not() {
        let text = text(false, Vec::new());
        for title in [
            "scx_pandemonium",
            "Machine",
            "Check",
            "sched_ext",
            "Command line",
            "Kernel log",
            "Telemetry",
            "Tasks",
        ] {
            let (_, part) = text.split_once(&format!("## {title}\n\n```\n")).unwrap();
            assert!(!part.starts_with("```"), "{title} is empty");
        }
    }

    proptest! {
        #[test]
        fn a_name_that_is_a_word_is_never_left(
            name in "[a-z][a-z0-9-]{0,8}", words in prop::collection::vec("[a-zA-Z/ _.]{0,6}", 0..8)
        ) {
            let text = words.join(&format!(" {name} "));
            let names = Names { private: Vec::new(), common: BTreeSet::new() };
            let private = Private { name: name.clone(), owner: Owner::User };
            let told = names.redact_one(&text, &private);
            let is_left = told.split_whitespace().any(|word| word == name);
            prop_assert!(!is_left, "{}", told);
        }
    }
}
