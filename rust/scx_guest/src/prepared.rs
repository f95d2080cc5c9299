// SPDX-License-Identifier: GPL-2.0
//! A guest that has booted and run a script, kept: any number of runs go on from there.
//!
//! A boot, and the start of a scheduler, are most of a short run. Here they are done
//! once: the guest stops itself between two instructions, QEMU writes what the machine
//! is then to a file, and each run is a QEMU that begins with it. A run from there is as
//! repeatable as a whole one, and is another sample than that, since it is another
//! script.

use std::fs::File;
use std::io::Write;

use crate::guest::{Boot, End, hash, phase_us};
use crate::initramfs;
use crate::spans::Base;
use crate::{Clock, Error, Guest, Outcome, Result, default_cache_dir};

/// Ends the first script: the shell goes on with what it is given then.
const PAUSE: &str = "guest-pause >/run/script && . /run/script";

/// What is kept of a guest; see [`Guest::prepare`]. It takes as much of a disk, below the
/// directory for caches, as the guest has used of its memory: 150 MB and more.
#[derive(Debug)]
pub struct Prepared {
    /// What was booted.
    guest: Guest,
    mark: String,
    initrd: File,
    state: File,
    console: Vec<String>,
    report: Vec<u8>,
    bases: Vec<Base>,
}

impl Guest {
    /// Boot, run `script`, and keep the machine at its end, with the shell that runs
    /// it: its variables and its children.
    ///
    /// The seed does not count yet. Errors are those of [`Guest::run`], and one if the
    /// script ends by itself, or if the clock is not the deterministic one.
    pub fn prepare(self, script: &str, on_line: &mut dyn FnMut(&str)) -> Result<Prepared> {
        if !matches!(self.clock, Clock::Deterministic { .. }) {
            return Err(Error::Qemu(
                "a guest by the host's clock cannot be kept".to_owned(),
            ));
        }
        let guest = self.seed(0);
        guest.check()?;
        let mark = format!("@scx_guest:{:016x}", hash(script, 0));
        let mut root = guest.build_root(&format!("{script}\n{PAUSE}"), &mark)?;
        root.add_bytes("/bin/guest-pause", crate::guest::GUEST_PAUSE.to_vec())?;
        let initrd = initramfs::write_unnamed(&root)?;
        let state = state_file().map_err(|e| Error::io("keeping a machine", e))?;
        let mut watcher = guest.watcher(&mark);
        let boot = Boot::UpTo {
            initrd: &initrd,
            state: &state,
        };
        let mut followed = guest.follow(&boot, &mut watcher, on_line)?;
        if followed.end != End::Stopped {
            let outcome = guest.conclude(followed, watcher.finish())?;
            return Err(Error::Qemu(format!(
                "the script ended with {} before the machine could be kept",
                outcome.exit_code
            )));
        }
        let verdict = watcher.finish();
        if let Some(failure) = verdict.failure {
            return Err(Error::Guest {
                failure,
                tail: verdict.tail,
            });
        }
        let learned = followed
            .plugin
            .map(|mut plugin| plugin.read())
            .transpose()?;
        Ok(Prepared {
            bases: learned.map(|(bases, _)| bases).unwrap_or_default(),
            console: verdict.output,
            report: followed.files.read_report()?,
            guest,
            mark,
            initrd,
            state,
        })
    }
}

/// A file without a name, on a disk: of those for temporary files some are memory.
fn state_file() -> std::io::Result<File> {
    let dir = default_cache_dir().map_err(std::io::Error::other)?;
    std::fs::create_dir_all(&dir)?;
    tempfile::tempfile_in(dir)
}

impl Prepared {
    /// Go on with `script` by a clock with the seed of `guest`, whose time limit, caches
    /// and whether it allows errors count as well; what else it is made of, is known.
    ///
    /// The outcome has what the guest said from its boot on. Errors are those of
    /// [`Guest::run`], and one if it has caches and the guest that was kept had none.
    pub fn run(
        &self,
        guest: &Guest,
        script: &str,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<Outcome> {
        let as_asked = guest.limits_of(&self.guest);
        as_asked.check_caches()?;
        if as_asked.caches.is_some() && self.guest.caches.is_none() {
            return Err(Error::Caches(
                "the machine was kept without caches, and cannot have some now".to_owned(),
            ));
        }
        let seed = guest.seed_or_zero();
        let script = format!(
            "SEED={seed}\nguest-clock {} {}\n{script}",
            self.guest.pit_divisor(),
            phase_us(seed)
        );
        let mut file = tempfile::tempfile().map_err(|e| Error::io("writing a script", e))?;
        // QEMU opens it for itself, and reads from its beginning.
        file.write_all(script.as_bytes())
            .map_err(|e| Error::io("writing a script", e))?;
        let boot = Boot::From {
            initrd: &self.initrd,
            state: &self.state,
            script: &file,
            bases: &self.bases,
        };
        let mut watcher = as_asked.watcher(&self.mark);
        watcher.go_on();
        self.console.iter().for_each(|line| on_line(line));
        let followed = as_asked.follow(&boot, &mut watcher, on_line)?;
        let mut outcome = as_asked.conclude(followed, watcher.finish())?;
        outcome.console.splice(0..0, self.console.iter().cloned());
        outcome.report.splice(0..0, self.report.iter().copied());
        Ok(outcome)
    }
}
