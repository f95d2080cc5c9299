//! Where a program prints: standard output and error, or a file that is replaced.
//!
//! A stream that is full or closed is no reason to panic, as `println!` and
//! `eprintln!` do. `head` ends when it has seen enough, which is no failure of the
//! program before it: main ends quietly on [`ReaderGone`].

use std::fmt;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};

/// Who may read a file that is written for others, as the collectors of a
/// monitoring system are; the umask takes its part of that.
const FILE_MODE: u32 = 0o644;

/// The reader of standard output has closed it.
#[derive(Debug)]
pub struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reader of standard output has closed it")
    }
}

impl std::error::Error for ReaderGone {}

/// Print `text` to standard output, now.
///
/// # Errors
///
/// [`ReaderGone`], or if it cannot be written.
pub fn print(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    finish(out.write_all(text.as_bytes()))
}

/// Flush what was `printed` to standard output.
///
/// # Errors
///
/// As [`print`].
pub fn finish(printed: io::Result<()>) -> Result<()> {
    match printed.and_then(|()| stdout().flush()) {
        Err(err) if err.kind() == ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        result => result.context("printing to standard output"),
    }
}

/// Print a line to standard error, as far as that is possible.
pub fn tell(line: impl fmt::Display) {
    // One write: what others print does not come between.
    let _ = stderr().write_all(format!("{line}\n").as_bytes());
}

/// A file of which there is always a whole one: what is written takes the name of
/// what was there.
#[derive(Clone, Debug)]
pub struct File {
    path: PathBuf,
    dir: PathBuf,
}

impl File {
    /// The file at `path`, which may be one that there is not yet.
    ///
    /// # Errors
    ///
    /// If there is something else than a file, or no directory to put it into.
    pub fn new(path: &Path) -> Result<File> {
        let name = path.display();
        // One does not want to lose /dev/null.
        ensure!(!path.exists() || path.is_file(), "{name} is not a file");
        let Some(dir) = path.parent() else {
            bail!("{name} is not a file");
        };
        let dir = if dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            dir
        };
        ensure!(
            fs::metadata(dir).is_ok_and(|dir| dir.is_dir()),
            "{name} cannot be written: there is no directory {}",
            dir.display()
        );
        Ok(File {
            path: path.to_owned(),
            dir: dir.to_owned(),
        })
    }

    /// Let `text` be what the file holds.
    ///
    /// # Errors
    ///
    /// If it cannot be written. What was there stays then.
    pub fn replace(&self, text: &str) -> Result<()> {
        let written = tempfile::Builder::new()
            .permissions(Permissions::from_mode(FILE_MODE))
            .tempfile_in(&self.dir)
            .and_then(|mut new| new.write_all(text.as_bytes()).map(|()| new));
        written
            .map_err(anyhow::Error::new)
            .and_then(|new| new.persist(&self.path).map_err(|err| anyhow!(err.error)))
            .with_context(|| format!("writing {}", self.path.display()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_others_may_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scx.prom");
        let file = File::new(&path).unwrap();
        for text in ["long and old\n", "new\n"] {
            file.replace(text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o600, 0o600);
        assert_ne!(mode & 0o044, 0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_file_is_refused_before_it_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        for path in [
            Path::new("/dev/null"),
            dir.path(),
            Path::new("/"),
            Path::new(""),
            &dir.path().join("none/scx.prom"),
        ] {
            assert!(File::new(path).is_err(), "{} was accepted", path.display());
        }
        assert!(File::new(Path::new("scx.prom")).is_ok());
    }
}
