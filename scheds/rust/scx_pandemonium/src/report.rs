//! `scx_pandemonium report`: one text for a report of a problem.
//!
//! It reads, runs nothing and changes nothing. What cannot be had is a line that says
//! why. The names of the machine and of its users are taken out.
//!
//! Not here: what is in the way of a start (check), the telemetry (stats, tasks).

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process;

use anyhow::{Context, Result, bail, ensure};
use nix::fcntl::OFlag;
use scx_utils::build_id;
use serde_json::Value;

use crate::check::{self, RELEASE_PATH, SCHED_EXT};
use crate::cli::ReportOpts;
use crate::client::Client;
use crate::output;
use crate::server::{TASKS_TARGET, TOP_TARGET};
use crate::tasks::Tasks;
use crate::text::printable;

const KERNEL_LOG: &str = "/dev/kmsg";

/// What the kernel's log says of the scheduler begins with that.
const SCHED_EXT_PREFIX: &str = "sched_ext:";

/// How much of the kernel's log and of the list of tasks is told.
const NR_LOG_LINES_MAX: usize = 50;
const NR_TASKS_MAX: usize = 40;

/// The longest record of the kernel's log.
const RECORD_SIZE: usize = 8192;

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

/// Print the report, or write it to a file.
///
/// # Errors
///
/// If it cannot be printed or written.
pub fn run(opts: &ReportOpts) -> Result<()> {
    let file = opts.output.as_deref().map(output::File::new).transpose()?;
    let report = redact(&text(opts.no_names), &private_names());
    match file {
        Some(file) => file.replace(&report),
        None => output::print(&report),
    }
}

fn text(no_names: bool) -> String {
    let mut client = Client::connect();
    let telemetry = ask(&mut client, telemetry);
    let tasks = ask(&mut client, |client| tasks(client, no_names));
    let parts = [
        ("scx_pandemonium", Ok(version())),
        ("Machine", machine()),
        ("Check", Ok(check::lines())),
        ("sched_ext", sched_ext(Path::new(SCHED_EXT))),
        ("Command line", command_line()),
        ("Kernel log", kernel_log()),
        ("Telemetry", telemetry),
        ("Tasks", tasks),
    ];
    let mut text = String::new();
    for (title, part) in parts {
        let part = part.unwrap_or_else(|err| format!("not known: {err:#}"));
        text += &format!("## {title}\n\n```\n{}\n```\n\n", part.trim_end());
    }
    text
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
    let mut log = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(KERNEL_LOG)
        .with_context(|| KERNEL_LOG.to_owned())?;
    let mut record = vec![0; RECORD_SIZE];
    let mut lines = Vec::new();
    loop {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(size) => lines.extend(log_line(&String::from_utf8_lossy(&record[..size]))),
            Err(err) if err.kind() == ErrorKind::WouldBlock => break,
            // Older records went away while they were read.
            Err(err) if err.kind() == ErrorKind::BrokenPipe => {}
            Err(err) => return Err(err).context(KERNEL_LOG),
        }
    }
    ensure!(!lines.is_empty(), "says nothing of sched_ext");
    let first = lines.len().saturating_sub(NR_LOG_LINES_MAX);
    Ok(lines[first..].join("\n"))
}

/// What a record says, such as `6,339,5140900,-;sched_ext: ...`, if it speaks of
/// sched_ext; with the time since the machine started, in seconds.
fn log_line(record: &str) -> Option<String> {
    let (head, text) = record.split_once(';')?;
    let text = text.lines().next()?;
    let at_us: u64 = head.split(',').nth(2)?.parse().ok()?;
    let (seconds, us) = (at_us / 1_000_000, at_us % 1_000_000);
    text.starts_with(SCHED_EXT_PREFIX)
        .then(|| printable(&format!("[{seconds:5}.{us:06}] {text}")))
}

fn telemetry(client: &mut Client) -> Result<String> {
    let metrics: Value = client.ask(TOP_TARGET, &[])?;
    serde_json::to_string_pretty(&metrics).context("writing JSON")
}

fn tasks(client: &mut Client, no_names: bool) -> Result<String> {
    let mut tasks: Tasks = client.ask(TASKS_TARGET, &[])?;
    if no_names {
        for task in &mut tasks.tasks {
            task.comm = "-".to_owned();
        }
    }
    let nr_more = tasks.tasks.len().saturating_sub(NR_TASKS_MAX);
    Ok(format!(
        "{}\n{nr_more} more",
        tasks.table(NR_TASKS_MAX).trim_end()
    ))
}

/// What the machine and its users are called, and what stands for that.
fn private_names() -> Vec<(String, &'static str)> {
    let host = read("/proc/sys/kernel/hostname").unwrap_or_default();
    let homes = fs::read_dir("/home").into_iter().flatten().flatten();
    let homes = homes.map(|home| home.file_name().to_string_lossy().into_owned());
    let users = ["USER", "SUDO_USER"].map(|key| std::env::var(key).unwrap_or_default());
    let users: BTreeSet<String> = homes.chain(users).collect();
    let users = users
        .into_iter()
        .filter(|name| !COMMON_USERS.contains(&name.as_str()));
    let mut names: Vec<(String, &str)> = users.map(|name| (name, "USER")).collect();
    names.push((host, "HOST"));
    names.retain(|(name, _)| !name.is_empty());
    // A name may be the beginning of another one.
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    names
}

/// `text` with what stands for each of `names` where it is a word of its own.
fn redact(text: &str, names: &[(String, &str)]) -> String {
    let mut text = text.to_owned();
    for (name, instead) in names {
        let mut done = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(at) = rest.find(name.as_str()) {
            let (before, found) = rest.split_at(at);
            let after = &found[name.len()..];
            done += before;
            let is_word = !done.ends_with(is_of_word) && !after.starts_with(is_of_word);
            done += if is_word { instead } else { name };
            rest = after;
        }
        text = done + rest;
    }
    text
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_go_where_they_are_words() {
        let names = [
            ("anna-lena".to_owned(), "USER"),
            ("anna".to_owned(), "USER"),
            ("box".to_owned(), "HOST"),
        ];
        for (text, expected) in [
            (
                "/home/anna/x --rules /home/anna",
                "/home/USER/x --rules /home/USER",
            ),
            ("anna-lena@box: hannah boxes", "USER@HOST: hannah boxes"),
            ("box", "HOST"),
            ("", ""),
        ] {
            assert_eq!(redact(text, &names), expected);
        }
    }

    #[test]
    fn a_record_of_the_kernel_is_told_if_it_speaks_of_sched_ext() {
        let record = "6,339,5140900,-;sched_ext: BPF scheduler \"a\" enabled\n SUBSYSTEM=x\n";
        let line = "[    5.140900] sched_ext: BPF scheduler \"a\" enabled";
        assert_eq!(log_line(record).as_deref(), Some(line));
        for other in [
            "6,339,5140900,-;usb 1-1: new",
            "sched_ext: x",
            "",
            ";",
            "1,2;x",
        ] {
            assert_eq!(log_line(other), None, "{other}");
        }
    }

    #[test]
    fn each_part_is_there_or_says_why_it_is_not() {
        let text = text(false);
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
            let told = redact(&text, &[(name.clone(), "USER")]);
            let is_left = told.split_whitespace().any(|word| word == name);
            prop_assert!(!is_left, "{}", told);
        }
    }
}
