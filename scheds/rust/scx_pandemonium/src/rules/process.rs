//! What rules may ask about a process, read from /proc.

use std::fmt;
use std::io::Read;

use nix::errno::Errno;
use procfs::process::Process;
use procfs::{ProcError, ProcResult};

use super::{basename, text_of};
use crate::text::printable;

/// Bytes of a command line that are read: its first word is what counts.
const CMDLINE_LEN_MAX: u64 = 4096;

/// What the kernel appends to the path of a program whose file is gone.
const DELETED: &str = " (deleted)";

/// A process, as rules see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Name of its program by the first word of its command line.
    pub argv0: Option<String>,
    /// Path of its program.
    pub exe: Option<String>,
    /// Name of its main thread, 15 bytes at most.
    pub comm: String,
    /// Path of its cgroup, below the root of cgroup v2.
    pub cgroup: Option<String>,
    /// Its effective user.
    pub uid: u32,
    /// Nice level of its main thread.
    pub nice: i32,
}

impl Facts {
    /// Look at process `pid`. What cannot be read of it is left out.
    ///
    /// # Errors
    ///
    /// If there is no such process, or it has ended meanwhile.
    pub fn read(pid: i32) -> ProcResult<Facts> {
        let process = Process::new(pid)?;
        let stat = process.stat()?;
        let exe = process.exe().ok().as_deref().and_then(text_of);
        Ok(Facts {
            argv0: argv0(&process),
            exe: exe.map(|exe| exe.trim_end_matches(DELETED).to_owned()),
            comm: stat.comm,
            cgroup: cgroup(&process),
            uid: process.uid()?,
            nice: i32::try_from(stat.nice).unwrap_or_default(),
        })
    }

    /// The names of its program, the one that says most first: a game under
    /// Wine is the program that its command line begins with, in a process of
    /// Wine's.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let exe = self.exe.as_deref().and_then(basename);
        [self.argv0.as_deref(), exe, Some(self.comm.as_str())]
            .into_iter()
            .flatten()
    }
}

/// The program's name in the first word of the command line.
fn argv0(process: &Process) -> Option<String> {
    let mut bytes = Vec::new();
    let file = process.open_relative("cmdline").ok()?;
    file.take(CMDLINE_LEN_MAX).read_to_end(&mut bytes).ok()?;
    let word = bytes.split(|byte| *byte == 0).next()?;
    basename(std::str::from_utf8(word).ok()?).map(str::to_owned)
}

fn cgroup(process: &Process) -> Option<String> {
    let mut groups = process.cgroups().ok()?.into_iter();
    // That of version 2 has no number of a hierarchy.
    let group = groups.find(|group| group.hierarchy == 0)?;
    Some(group.pathname)
}

/// Whether a process could not be read because there is none (any more).
pub fn is_gone(err: &ProcError) -> bool {
    match err {
        ProcError::NotFound(_) => true,
        // Gone between the opening of a file and its reading.
        ProcError::Io(err, _) => err.raw_os_error() == Some(Errno::ESRCH as i32),
        _ => false,
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = || "-".to_owned();
        let lines = [
            ("argv[0]", self.argv0.clone().unwrap_or_else(unknown)),
            ("exe", self.exe.clone().unwrap_or_else(unknown)),
            ("comm", self.comm.clone()),
            ("cgroup", self.cgroup.clone().unwrap_or_else(unknown)),
            ("user", self.uid.to_string()),
            ("nice", self.nice.to_string()),
        ];
        for (name, value) in lines {
            writeln!(out, "{name:>8}  {}", printable(&value))?;
        }
        Ok(())
    }
}
