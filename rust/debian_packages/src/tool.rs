// SPDX-License-Identifier: GPL-2.0
//! Running apt's tools, and what is said when one fails.

use std::io::ErrorKind;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use crate::{Error, Result};

/// How often a tool that is watched is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Run `command` and return what it printed.
///
/// # Errors
///
/// If it is not there, or fails; then in its own words.
pub fn run(command: &mut Command) -> Result<String> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| not_run(&tool, error))?;
    check(&tool, output)
}

/// Run `command`, calling `on_poll` meanwhile. What it prints is dropped.
///
/// # Errors
///
/// As those of [`run`].
pub fn run_watched(command: &mut Command, mut on_poll: impl FnMut()) -> Result<()> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| not_run(&tool, error))?;
    while child.try_wait()?.is_none() {
        on_poll();
        thread::sleep(POLL_INTERVAL);
    }
    // What a tool says when it fails is far below the size of a pipe.
    check(&tool, child.wait_with_output()?)?;
    Ok(())
}

fn check(tool: &str, output: Output) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Apt(format!(
        "{tool} failed ({}): {}",
        output.status,
        reason(&String::from_utf8_lossy(&output.stderr))
    )))
}

/// The errors among the lines of a tool that failed, or its last line.
fn reason(stderr: &str) -> String {
    let mut errors: Vec<&str> = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("E: "))
        .map(str::trim)
        .collect();
    if errors.is_empty() {
        errors.extend(stderr.lines().last());
    }
    errors.join("; ")
}

fn not_run(tool: &str, error: std::io::Error) -> Error {
    if error.kind() == ErrorKind::NotFound {
        return Error::MissingTool {
            tool: tool.to_owned(),
        };
    }
    Error::Apt(format!("running {tool}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_rather_than_warnings() {
        let text = "W: old\nE: no such package\nE: broken\nbye\n";
        assert_eq!(reason(text), "no such package; broken");
        assert_eq!(reason("dpkg-deb: error\n"), "dpkg-deb: error");
        assert_eq!(reason(""), "");
    }

    #[test]
    fn a_missing_tool_is_named() {
        let error = run(&mut Command::new("no-such-tool")).unwrap_err();
        assert!(matches!(error, Error::MissingTool { tool } if tool == "no-such-tool"));
    }

    #[test]
    fn a_watched_tool_ends_with_its_reason() {
        let mut nr_polls = 0;
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 0.2; echo E: why >&2; exit 1"]);
        let error = run_watched(&mut command, || nr_polls += 1).unwrap_err();
        assert!(error.to_string().ends_with(": why"), "{error}");
        assert!(nr_polls > 0);
    }
}
