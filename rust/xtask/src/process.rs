// SPDX-License-Identifier: GPL-2.0
//! Running other programs: what is shown, and what is said when one fails.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use scx_guest::quote;

use crate::interrupt;

/// How much of a failed program's output is shown.
const TAIL_LINES: usize = 12;

/// How much of a command line is shown.
const DISPLAY_CHARS: usize = 120;

/// How often the progress line moves.
const SPIN_INTERVAL: Duration = Duration::from_millis(120);

/// Run `command` with its output passed through.
pub fn run(command: &mut Command) -> Result<()> {
    interrupt::check()?;
    let shown = display(command);
    let status = command
        .status()
        .with_context(|| format!("cannot run {shown}"))?;
    interrupt::check()?;
    ensure!(status.success(), "{shown} failed ({status})");
    Ok(())
}

/// Run `command` behind a progress line called `what`; if it fails, show how it ended.
///
/// A terminal sees the program's current line, anything else sees `what` once.
pub fn run_quietly(command: &mut Command, what: &str) -> Result<()> {
    interrupt::check()?;
    let spinner = progress(what);
    let mut tail = VecDeque::new();
    let status = follow(command, |line| {
        spinner.set_message(line.trim().to_string());
        if tail.len() == TAIL_LINES {
            tail.pop_front();
        }
        tail.push_back(line);
    });
    spinner.finish_and_clear();
    interrupt::check()?;
    if status?.success() {
        return Ok(());
    }
    let tail = Vec::from(tail);
    if let Some(cause) = known_cause(&tail) {
        bail!("{what}: {cause}");
    }
    for line in &tail {
        eprintln!("  {line}");
    }
    bail!("{what}: {}", last_words(&tail))
}

/// Run `command` and give each line of its output, both streams, to `on_line`.
/// Return how it ended.
pub fn follow(command: &mut Command, mut on_line: impl FnMut(String)) -> Result<ExitStatus> {
    let shown = display(command);
    let (reader, writer) = io::pipe().context("making a pipe")?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("sharing a pipe")?)
        .stderr(writer)
        .spawn()
        .with_context(|| format!("cannot run {shown}"))?;
    // The command keeps the write ends; until they are closed the pipe has no end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.with_context(|| format!("reading from {shown}"))?;
        on_line(String::from_utf8_lossy(&line).trim_end().to_string());
    }
    child.wait().with_context(|| format!("waiting for {shown}"))
}

/// A progress line for a step of unknown length.
pub fn progress(what: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        eprintln!("{what} ...");
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {prefix} {elapsed} {wide_msg:.dim}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let spinner = ProgressBar::new_spinner()
        .with_style(style)
        .with_prefix(what.to_string());
    spinner.enable_steady_tick(SPIN_INTERVAL);
    spinner
}

/// `command` as a person would type it, cut where it gets too long for a message.
pub fn display(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(name).chain(command.get_args());
    let words: Vec<String> = words.map(|word| quote(&word.to_string_lossy())).collect();
    let words = words.join(" ");
    match words.char_indices().nth(DISPLAY_CHARS) {
        Some((end, _)) => format!("{} ...", words.get(..end).unwrap_or(&words)),
        None => words,
    }
}

/// Why a program failed, if it is one of the reasons that need no other words.
fn known_cause(tail: &[String]) -> Option<&'static str> {
    let has = |patterns: &[&str]| {
        tail.iter()
            .any(|line| patterns.iter().any(|pattern| line.contains(pattern)))
    };
    if has(&["No space left on device", "enough free space"]) {
        return Some("the disk is full");
    }
    if has(&[
        "Could not resolve",
        "Temporary failure resolving",
        "Network is unreachable",
    ]) {
        return Some("no network: the server cannot be reached");
    }
    None
}

/// The line of a failed program's output that is most likely to say why.
fn last_words(tail: &[String]) -> String {
    let is_error = |line: &&String| line.starts_with("E: ") || line.starts_with("error");
    let told = tail
        .iter()
        .find(is_error)
        .or(tail.iter().rfind(|line| !line.is_empty()));
    match told {
        Some(line) => line.trim_start_matches("E: ").to_string(),
        None => "it failed and said nothing".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_string).collect()
    }

    #[test]
    fn the_reason_is_picked_out_of_the_noise() {
        let apt = lines("Reading...\nE: Unable to locate package x\nbye");
        assert_eq!(last_words(&apt), "Unable to locate package x");
        assert_eq!(last_words(&lines("one\ntwo\n")), "two");
        assert_eq!(last_words(&[]), "it failed and said nothing");
    }

    #[test]
    fn a_full_disk_and_a_missing_network_are_recognised() {
        let full = lines("cp: No space left on device");
        assert_eq!(known_cause(&full), Some("the disk is full"));
        let offline = lines("Err:1\nE: Temporary failure resolving 'x'");
        assert_eq!(
            known_cause(&offline),
            Some("no network: the server cannot be reached")
        );
        assert_eq!(known_cause(&lines("E: Unable to locate package x")), None);
    }

    #[test]
    fn both_streams_of_a_program_are_followed_to_their_end() {
        let mut seen = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let status = follow(&mut command, |line| seen.push(line)).expect("sh runs");
        assert_eq!(status.code(), Some(3));
        assert_eq!(seen, ["out", "err"]);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run(&mut Command::new("no-such-program")).expect_err("it cannot run");
        assert!(format!("{error:#}").contains("no-such-program"));
    }
}
