// SPDX-License-Identifier: GPL-2.0
//! What can go wrong, each with one line that says what to do about it.
//!
//! A run fails for a reason of the host's ([`Error`]) or because of what
//! happened in the guest ([`Failure`], which comes with the last lines of the
//! console). A script that ends with a non-zero status is neither: its status
//! is in [`crate::Outcome`].

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a guest could not be set up, or why its run does not count.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be booted.
    #[error("{}: not a bootable x86-64 Linux kernel: {reason}", path.display())]
    NotAKernel {
        /// The image that was given.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// The kernel was built without sched_ext.
    #[error("{}: this kernel has no sched_ext ({evidence})", path.display())]
    NoSchedExt {
        /// The kernel's image.
        path: PathBuf,
        /// Where that was seen.
        evidence: String,
    },

    /// There is no kernel to be had.
    #[error("no kernel with sched_ext: {0}")]
    NoKernel(String),

    /// No kernel could be fetched.
    #[error(transparent)]
    Packages(debian_packages::Error),

    /// A program that this crate runs on the host is missing.
    #[error("{tool} is not installed: {hint}")]
    MissingTool {
        /// The program's name.
        tool: String,
        /// What to install.
        hint: String,
    },

    /// This QEMU's clock does not share time fairly between virtual CPUs.
    #[error(
        "QEMU {found} is too old: 8.1 or newer is needed \
         (Debian 12 has it in bookworm-backports, package qemu-system-x86)"
    )]
    QemuTooOld {
        /// The version that was found.
        found: String,
    },

    /// QEMU refused to start or died.
    #[error("QEMU failed: {0}")]
    Qemu(String),

    /// KVM was asked for and cannot be used.
    #[error("KVM cannot be used: {0}")]
    NoKvm(String),

    /// No such shape of machine.
    #[error("bad topology: {0}")]
    Topology(String),

    /// No such caches, or none in such a guest.
    #[error("bad caches: {0}")]
    Caches(String),

    /// This QEMU cannot count what caches would do.
    #[error("QEMU cannot count for caches: {0}")]
    NoPlugins(String),

    /// A program or file for the guest cannot be read.
    #[error("{}: cannot be put into the guest: {reason}", path.display())]
    Program {
        /// The file on the host.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// A shared library of a program is missing on the host.
    #[error("{}: its shared library {library} is not on this machine", program.display())]
    MissingLibrary {
        /// The program that needs it.
        program: PathBuf,
        /// The library's name.
        library: String,
    },

    /// The guest ran and failed.
    #[error("{failure}{}", format_tail(tail))]
    Guest {
        /// What happened.
        failure: Failure,
        /// The last lines of the console, oldest first.
        tail: Vec<String>,
    },

    /// The host's file system or process table said no.
    #[error("{what}: {answer}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system answered; part of the message, so not its source.
        answer: io::Error,
    },
}

impl Error {
    /// An I/O error with what was being done.
    pub(crate) fn io(what: impl Into<String>, answer: io::Error) -> Self {
        Error::Io {
            what: what.into(),
            answer,
        }
    }

    /// An I/O error about one path: `verb` is like "reading".
    pub(crate) fn at(verb: &str, path: &Path, answer: io::Error) -> Self {
        Error::io(format!("{verb} {}", path.display()), answer)
    }

    /// What happened in the guest, if it was the guest that failed.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Error::Guest { failure, .. } => Some(failure),
            _ => None,
        }
    }
}

impl From<debian_packages::Error> for Error {
    fn from(error: debian_packages::Error) -> Self {
        match error {
            debian_packages::Error::MissingTool { tool } => Error::MissingTool {
                tool,
                hint: "kernels are fetched by Debian's package tools; \
                       elsewhere give an image with --kernel"
                    .to_owned(),
            },
            error => Error::Packages(error),
        }
    }
}

/// What happened in a guest whose run does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The kernel panicked.
    Panic(String),
    /// The kernel reported a fault or a bug of its own.
    Oops(String),
    /// The guest ran out of memory.
    OutOfMemory(String),
    /// The kernel threw a BPF scheduler out with an error.
    SchedExt(String),
    /// The kernel has no sched_ext, which is seen only after it booted.
    NoSchedExt,
    /// The host's time limit passed.
    TimeLimit(Duration),
    /// The guest ended without telling an exit code.
    NoExitCode(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Panic(line) => write!(f, "the guest's kernel panicked: {line}"),
            Failure::Oops(line) => write!(f, "the guest's kernel reported a fault: {line}"),
            Failure::OutOfMemory(line) => {
                write!(
                    f,
                    "the guest ran out of memory (give it more with --memory): {line}"
                )
            }
            Failure::SchedExt(line) => write!(f, "the kernel stopped the scheduler: {line}"),
            Failure::NoSchedExt => write!(f, "the guest's kernel has no sched_ext"),
            Failure::TimeLimit(limit) => {
                write!(
                    f,
                    "the guest passed its time limit of {} s",
                    limit.as_secs_f64()
                )
            }
            Failure::NoExitCode(why) => write!(f, "the guest ended without an exit code{why}"),
        }
    }
}

/// The last console lines, indented below the message they explain.
fn format_tail(tail: &[String]) -> String {
    if tail.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nlast lines of the guest:");
    for line in tail {
        text.push_str("\n  | ");
        text.push_str(line);
    }
    text
}
