//! What the kernel's log says of sched_ext.
//!
//! Not here: which of it is the reason for a refusal (refusal).

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use nix::libc::O_NONBLOCK;

use crate::text::printable;

/// The kernel's log; one record a read.
const LOG_PATH: &str = "/dev/kmsg";

/// Bytes of a record at most, by the kernel.
const RECORD_LEN_MAX: usize = 8192;

/// What the kernel's words of sched_ext begin with.
const PREFIX: &str = "sched_ext: ";

/// A line of the log that speaks of sched_ext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Since the machine started, by the clock of the log.
    pub at: Duration,
    /// Without the name of sched_ext.
    pub words: String,
}

impl Line {
    /// As dmesg prints it.
    pub fn print(&self) -> String {
        let (seconds, us) = (self.at.as_secs(), self.at.subsec_micros());
        format!("[{seconds:5}.{us:06}] {PREFIX}{}", self.words)
    }
}

/// The log, from its beginning or its end on.
pub struct KernelLog(File);

impl KernelLog {
    /// All that the kernel still has.
    ///
    /// # Errors
    ///
    /// If the log may not be read, or there is none.
    pub fn open() -> Result<KernelLog> {
        KernelLog::open_at(Path::new(LOG_PATH))
    }

    fn open_at(path: &Path) -> Result<KernelLog> {
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(O_NONBLOCK).open(path);
        file.map(KernelLog).map_err(|err| match err.kind() {
            ErrorKind::PermissionDenied => {
                anyhow!("reading the kernel's log needs root: use sudo")
            }
            ErrorKind::NotFound => anyhow!(
                "there is no {} to read the kernel's log from, as in a container",
                path.display()
            ),
            _ => anyhow!("reading {}: {err}", path.display()),
        })
    }

    /// What the kernel says from now on.
    ///
    /// # Errors
    ///
    /// As [`KernelLog::open`].
    pub fn from_now() -> Result<KernelLog> {
        let mut log = KernelLog::open()?;
        log.0.seek(SeekFrom::End(0)).context(LOG_PATH)?;
        Ok(log)
    }

    /// The lines on sched_ext among the next `nr_max` records, fewer if the log ends
    /// before.
    ///
    /// # Errors
    ///
    /// If the log cannot be read.
    pub fn lines(&mut self, nr_max: usize) -> Result<Vec<Line>> {
        let mut record = [0; RECORD_LEN_MAX];
        let mut lines = Vec::new();
        for _ in 0..nr_max {
            match self.0.read(&mut record) {
                Ok(0) => break,
                Ok(len) => lines.extend(line_of(&record[..len])),
                Err(err) if err.kind() == ErrorKind::WouldBlock => break,
                // Older records went away while they were read.
                Err(err) if err.kind() == ErrorKind::BrokenPipe => {}
                Err(err) => return Err(err).context(LOG_PATH),
            }
        }
        Ok(lines)
    }
}

/// What sched_ext said in a record of the log, such as `6,339,5140900,-;sched_ext: ...`:
/// numbers, of which the third is the time in us, the text, and a line for each property.
fn line_of(record: &[u8]) -> Option<Line> {
    let record = String::from_utf8_lossy(record);
    let (head, text) = record.split_once(';')?;
    let words = text.lines().next()?.strip_prefix(PREFIX)?;
    let at_us = head.split(',').nth(2)?.parse().ok()?;
    Some(Line {
        at: Duration::from_micros(at_us),
        words: printable(words.trim()),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fuzz;

    #[test]
    fn a_record_of_the_log_is_read_and_any_other_is_not() {
        let record = b"3,512,5140900,-;sched_ext: Not compatible\n SUBSYSTEM=x\n";
        let line = line_of(record).unwrap();
        assert_eq!(line.words, "Not compatible");
        assert_eq!(line.print(), "[    5.140900] sched_ext: Not compatible");
        for other in [
            &b"6,1,2,-;usb 1-1: new\n"[..],
            b"sched_ext: x",
            b"1,2;sched_ext: x",
            b"1,2,x;sched_ext: x",
            b"",
            b";",
            b"\xff\xfe",
            b"1;\n",
        ] {
            assert_eq!(line_of(other), None);
        }
    }

    #[test]
    fn a_missing_log_is_an_error_and_an_empty_one_is_not() {
        let why = KernelLog::open_at(Path::new("/nonexistent")).err().unwrap();
        assert!(
            why.to_string().contains("there is no /nonexistent"),
            "{why}"
        );
        let mut log = KernelLog::open_at(Path::new("/dev/null")).unwrap();
        assert_eq!(log.lines(10).unwrap(), []);
    }

    proptest! {
        #![proptest_config(fuzz::config(2000))]

        #[test]
        fn fuzz_a_record_of_anything(text in "[0-9,;-]{0,16}(sched_ext: )?\\PC{0,20}") {
            if let Some(line) = line_of(text.as_bytes()) {
                prop_assert!(line.print().contains(&line.words));
            }
        }
    }
}
