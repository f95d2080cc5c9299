// SPDX-License-Identifier: GPL-2.0
//! Programs of other projects, as part of a scenario: found, started, heard.
//!
//! What a program writes goes to a file without a name, so that reading it
//! wakes nobody during the measurement and nothing is left behind. It leads a
//! process group of its own and ends with whoever started it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::clock::now_ns;
use crate::last_words;
use crate::shared::die_with_parent;

/// A program of another project.
#[derive(Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name in `PATH`.
    pub program: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
}

impl Tool {
    /// Its path, or an error that names the package.
    pub fn find(&self) -> Result<PathBuf> {
        which::which(self.program).with_context(|| {
            format!(
                "{} is not installed; on Debian it is in the package {}",
                self.program, self.package
            )
        })
    }

    /// Start it with `args` in `dir`.
    pub fn start(&self, args: &[String], dir: &Path) -> Result<Running> {
        Running::start(&self.find()?, args, dir)
    }
}

/// A program that was started.
#[derive(Debug)]
pub struct Running {
    program: String,
    process: Child,
    output: File,
    from_ns: u64,
}

impl Running {
    /// Start the program at `path` with `args` in `dir`.
    pub fn start(path: &Path, args: &[String], dir: &Path) -> Result<Self> {
        let output = tempfile::tempfile().context("opening a file for a tool's output")?;
        let share = |file: &File| file.try_clone().context("sharing a tool's output");
        let parent = Pid::this();
        let mut command = Command::new(path);
        command
            .args(args)
            .current_dir(dir)
            .env("LC_ALL", "C")
            // A make that runs this would pass its own settings on.
            .env_remove("MAKEFLAGS")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(share(&output)?)
            .stderr(share(&output)?);
        // SAFETY: the closure only makes two system calls.
        unsafe {
            command.pre_exec(move || {
                die_with_parent(parent);
                Ok(())
            });
        }
        let from_ns = now_ns();
        let process = command
            .spawn()
            .with_context(|| format!("starting {}", path.display()))?;
        let program = path.file_name().unwrap_or_default();
        Ok(Self {
            program: program.to_string_lossy().into_owned(),
            process,
            output,
            from_ns,
        })
    }

    /// Wait for its end: what it wrote, and the time it took in nanoseconds.
    /// An exit status other than 0 is an error that quotes its last lines.
    pub fn join(mut self) -> Result<(String, u64)> {
        let status = self.wait()?;
        let took_ns = now_ns() - self.from_ns;
        let text = self.text()?;
        if !status.success() {
            bail!("{} failed ({status}): {}", self.program, last_lines(&text));
        }
        Ok((text, took_ns))
    }

    /// End it, with all it started. An error if it has ended by itself: then
    /// it was not there for as long as it should have been.
    pub fn stop(mut self) -> Result<()> {
        if let Some(status) = self.process.try_wait().context("waiting for a tool")? {
            let text = last_lines(&self.text()?);
            bail!("{} ended too early ({status}): {text}", self.program);
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<ExitStatus> {
        let waiting = || format!("waiting for {}", self.program);
        self.process.wait().with_context(waiting)
    }

    fn text(&mut self) -> Result<String> {
        let reading = || format!("reading the output of {}", self.program);
        let mut bytes = Vec::new();
        self.output.seek(SeekFrom::Start(0)).with_context(reading)?;
        self.output.read_to_end(&mut bytes).with_context(reading)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The group is named by a process that has not been reaped, or whose
        // number is in use for as long as the group has members.
        let _ = killpg(Pid::from_raw(self.process.id() as i32), Signal::SIGKILL);
        let _ = self.process.wait();
    }
}

fn last_lines(text: &str) -> String {
    last_words::quote(text.lines().map(str::trim))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHELL: Tool = Tool {
        program: "sh",
        package: "dash",
    };

    fn start(line: &str) -> Running {
        let args = ["-c".to_string(), line.to_string()];
        SHELL.start(&args, Path::new("/")).unwrap()
    }

    #[test]
    fn a_missing_tool_names_its_package() {
        let tool = Tool {
            program: "no-such-tool",
            package: "no-such-package",
        };
        let error = tool.find().unwrap_err().to_string();
        assert!(error.contains("no-such-tool is not installed"), "{error}");
        assert!(error.contains("no-such-package"), "{error}");
    }

    #[test]
    fn what_a_tool_says_and_how_long_it_took_come_back() {
        let (text, took_ns) = start("echo one; echo two >&2; sleep 0.05").join().unwrap();
        assert_eq!(text, "one\ntwo\n");
        assert!(took_ns >= 50_000_000);
    }

    #[test]
    fn a_tool_that_fails_is_quoted_and_gives_no_result() {
        let error = start("echo no such option; exit 3").join().unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("no such option") && error.contains('3'),
            "{error}"
        );
    }

    #[test]
    fn a_load_that_ends_too_early_is_an_error() {
        let running = start("true");
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(running.stop().is_err());
        assert!(start("sleep 600").stop().is_ok());
    }

    #[test]
    fn what_a_tool_started_ends_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let running = start(&format!("sleep 600 & echo $! > {}; wait", file.display()));
        let pid = loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            match text.trim().parse() {
                Ok(pid) => break Pid::from_raw(pid),
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
            }
        };
        drop(running);
        // An orphan is reaped by whoever adopts it, a moment later.
        let is_gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        let gone = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            is_gone()
        });
        assert!(gone);
    }
}
