// SPDX-License-Identifier: GPL-2.0
//! One run of one guest: from the builder to the outcome.
//!
//! The root image, the console and the report are files without names, which
//! QEMU opens through /proc: nothing is left behind however a run ends, and
//! QEMU dies with the thread that started it.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rustix::process::{Signal, set_parent_process_death_signal};
use sha2::{Digest, Sha256};

use crate::console::{Verdict, Watcher};
use crate::image::NO_OP;
use crate::initramfs::{self, Root};
use crate::plugin::{self, Plugin};
use crate::qemu::{self, Machine, Part};
use crate::qmp::Monitor;
use crate::spans::{Base, Span};
use crate::{
    Caches, Error, Failure, Kernel, Result, Topology, default_cache_dir, progress, steady,
};

const NR_CPUS_DFL: u32 = 4;
const MEMORY_MIB_DFL: u32 = 2048;

/// Enough for minutes of virtual time on a slow host.
const TIME_LIMIT_DFL: Duration = Duration::from_secs(1800);

/// How long a guest that told its exit code may take to power off.
const POWER_OFF_LIMIT: Duration = Duration::from_secs(5);

/// How long a kernel may take to reach its script under KVM. Where hardware
/// virtualisation is itself emulated, some kernels never do.
const KVM_BOOT_LIMIT: Duration = Duration::from_secs(60);

/// How often the console is looked at; the run itself does not wait for it.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The PIT counts at 1193182 Hz; this makes a square wave of about 10 kHz, and the time
/// between two edges is the longest that one virtual CPU can hold up the others: 50 us.
const PIT_DIVISOR: u32 = 120;

/// CPU 0 takes each of its interrupts and passes it on to others, which ends its turn.
/// From about so many CPUs on it would come to nothing else: the next one is there when
/// its turn comes again.
const NR_CPUS_MANY: u32 = 32;

/// A square wave of about 1 kHz, for these.
const PIT_DIVISOR_MANY: u32 = 1200;

/// Seeds spread their starts over one tick of a 250 Hz kernel, which holds
/// whole ticks of faster ones.
const PHASE_RANGE_US: u64 = 4000;

/// Bytes of a digest of the set-up that are told.
const DIGEST_BYTES: usize = 16;

const INIT: &str = include_str!("../guest/init.sh");
const GUEST_CLOCK_SOURCE: &str = include_str!("../guest/clock.c");
const GUEST_CLOCK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-clock"));
const GUEST_HOG: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-hog"));
pub(crate) const GUEST_PAUSE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-pause"));

/// What the guest's time is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Executed instructions, emulated: exact and slow. The seed shifts the
    /// phase at which the script meets the tick, and is `$SEED` in the script. Time
    /// stands still in a guest that is suspended: nothing wakes it.
    Deterministic {
        /// Any number; the same one gives the same run.
        seed: u64,
    },
    /// The host's time, emulated by a thread for each CPU: CPUs really run at the same
    /// time, as far as the host has some, and race. Never repeatable, and no latency
    /// is to be trusted.
    Parallel,
    /// The host's time, with hardware virtualisation: fast, never repeatable.
    Kvm,
}

/// What a guest that told its exit code left behind.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The script's exit status.
    pub exit_code: i32,
    /// The console's lines since the script began.
    pub console: Vec<String>,
    /// What was written to `/dev/report` in the guest, byte for byte.
    pub report: Vec<u8>,
    /// What was counted, span by span in the order of time, if the guest had caches.
    pub caches: Option<Vec<Span>>,
    /// How long it took on the host, boot included.
    pub wall_time: Duration,
}

/// A machine to be booted, and what is put into it.
#[derive(Debug, Clone)]
#[must_use]
pub struct Guest {
    kernel: Kernel,
    topology: Topology,
    nr_empty_sockets: u32,
    memory_mib: u32,
    pub(crate) clock: Clock,
    time_limit: Duration,
    programs: Vec<(PathBuf, Option<String>)>,
    files: Vec<(PathBuf, String)>,
    installed: Vec<PathBuf>,
    bytes: Vec<(String, Vec<u8>)>,
    kernel_words: Vec<String>,
    pub(crate) caches: Option<Caches>,
    is_scx_error_allowed: bool,
    is_quiet: bool,
}

impl Guest {
    /// A guest of 4 CPUs and 2 GiB with a deterministic clock, seed 0.
    pub fn new(kernel: &Kernel) -> Self {
        Self {
            kernel: kernel.clone(),
            topology: Topology::flat(NR_CPUS_DFL),
            nr_empty_sockets: 0,
            memory_mib: MEMORY_MIB_DFL,
            clock: Clock::Deterministic { seed: 0 },
            time_limit: TIME_LIMIT_DFL,
            programs: Vec::new(),
            files: Vec::new(),
            installed: Vec::new(),
            bytes: Vec::new(),
            kernel_words: Vec::new(),
            caches: None,
            is_scx_error_allowed: false,
            is_quiet: false,
        }
    }

    /// The shape of the machine.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = topology;
        self
    }

    /// A flat machine of `nr_cpus`.
    pub fn cpus(self, nr_cpus: u32) -> Self {
        self.topology(Topology::flat(nr_cpus))
    }

    /// Sockets in which there could be another cache with its cores, and is none: a
    /// kernel has its CPUs for possible ones that are not present, as with the tables of
    /// many boards. 0 unless it is said.
    pub fn empty_sockets(mut self, nr_empty_sockets: u32) -> Self {
        self.nr_empty_sockets = nr_empty_sockets;
        self
    }

    /// Memory in MiB; the root image comes out of it.
    pub fn memory_mib(mut self, memory_mib: u32) -> Self {
        self.memory_mib = memory_mib;
        self
    }

    /// The kind of clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// A deterministic clock with `seed`.
    pub fn seed(self, seed: u64) -> Self {
        self.clock(Clock::Deterministic { seed })
    }

    /// Put a host program into /bin under its own name, with its libraries.
    pub fn program(mut self, host_path: impl AsRef<Path>) -> Self {
        self.programs.push((host_path.as_ref().to_owned(), None));
        self
    }

    /// Put a host program into /bin under `guest_name`, with its libraries.
    pub fn program_as(mut self, host_path: impl AsRef<Path>, guest_name: &str) -> Self {
        self.programs
            .push((host_path.as_ref().to_owned(), Some(guest_name.to_owned())));
        self
    }

    /// Put a host file, or a whole directory, at `guest_path` as it is,
    /// without the libraries it may need.
    pub fn file(mut self, host_path: impl AsRef<Path>, guest_path: &str) -> Self {
        self.files
            .push((host_path.as_ref().to_owned(), guest_path.to_owned()));
        self
    }

    /// Put a host file, or a whole directory, at its own path, with the libraries
    /// of all programs in it: plugins that a program loads, programs that it
    /// starts by their path, data that it reads.
    pub fn installed(mut self, host_path: impl AsRef<Path>) -> Self {
        self.installed.push(host_path.as_ref().to_owned());
        self
    }

    /// Put a file with these bytes at `guest_path`; one that begins with `#!`
    /// can be run.
    pub fn bytes(mut self, guest_path: &str, bytes: Vec<u8>) -> Self {
        self.bytes.push((guest_path.to_owned(), bytes));
        self
    }

    /// The host's wall time after which the run has failed; 30 minutes unless
    /// told otherwise.
    pub fn time_limit(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }

    /// One more word on the kernel's command line.
    pub fn kernel_arg(mut self, word: &str) -> Self {
        self.kernel_words.push(word.to_owned());
        self
    }

    /// Count what accesses would meet in such caches, while a span is open: from
    /// `guest-count begin NAME` in the guest to `guest-count end`, or to the next begin.
    /// With the first one the caches begin, empty; from one span to the next they are
    /// what they are. A span without an end is dropped.
    ///
    /// The guest has the program `guest-count` then, and is the same otherwise. What was
    /// counted is in [`Outcome::caches`]. Of a machine that is kept, it counts where a run
    /// goes on: that takes the caches of the guest that it is given.
    pub fn caches(mut self, caches: Caches) -> Self {
        self.caches = Some(caches);
        self
    }

    /// Do not fail when the kernel throws a scheduler out with an error: for
    /// tests that provoke one.
    pub fn allow_scx_error(mut self) -> Self {
        self.is_scx_error_allowed = true;
        self
    }

    /// Draw no progress line: for callers that have one of their own.
    pub fn quiet(mut self) -> Self {
        self.is_quiet = true;
        self
    }

    /// Boot, run `script` with busybox's sh as root, and power off.
    ///
    /// Every console line since the script began goes to `on_line` as it
    /// comes. The script's exit status is in the outcome, whatever it is.
    ///
    /// An error, with the last lines, if the kernel panicked or reported a
    /// fault, ran out of memory or threw a scheduler out with an error (unless
    /// allowed); if the time limit passed; if the guest ended without an exit
    /// code; or if it could not be started.
    pub fn run(self, script: &str, on_line: &mut dyn FnMut(&str)) -> Result<Outcome> {
        self.check()?;
        let mark = format!("@scx_guest:{:016x}", hash(script, self.seed_or_zero()));
        let initrd = initramfs::write_unnamed(&self.build_root(script, &mark)?)?;
        let mut watcher = self.watcher(&mark);
        let followed = self.follow(&Boot::Whole { initrd: &initrd }, &mut watcher, on_line)?;
        self.conclude(followed, watcher.finish())
    }

    /// An error unless there can be such a machine here.
    pub(crate) fn check(&self) -> Result<()> {
        self.topology.check_with(self.nr_empty_sockets)?;
        qemu::check()?;
        self.check_caches()?;
        match self.clock {
            Clock::Kvm => qemu::check_kvm(),
            Clock::Deterministic { .. } | Clock::Parallel => Ok(()),
        }
    }

    /// An error unless it has no caches or can have them.
    pub(crate) fn check_caches(&self) -> Result<()> {
        let Some(caches) = &self.caches else {
            return Ok(());
        };
        caches.check(self.topology)?;
        match self.clock {
            Clock::Deterministic { .. } => qemu::check_plugins(),
            Clock::Parallel | Clock::Kvm => Err(Error::Caches(
                "a guest by the host's clock has none".to_owned(),
            )),
        }
    }

    /// What reads its console.
    pub(crate) fn watcher(&self, mark: &str) -> Watcher {
        Watcher::new(mark, self.is_scx_error_allowed)
    }

    /// The machine of `other`, with the seed, the limits and the caches of this one.
    pub(crate) fn limits_of(&self, other: &Guest) -> Guest {
        Guest {
            clock: self.clock,
            caches: self.caches,
            time_limit: self.time_limit,
            is_scx_error_allowed: self.is_scx_error_allowed,
            is_quiet: self.is_quiet,
            ..other.clone()
        }
    }

    /// What the PIT counts in this guest, 0 if nothing.
    pub(crate) fn pit_divisor(&self) -> u32 {
        match self.clock {
            Clock::Deterministic { .. } => pit_divisor(self.topology),
            Clock::Parallel | Clock::Kvm => 0,
        }
    }

    /// Start QEMU and follow the guest until it is over, or as far as `boot` says.
    pub(crate) fn follow(
        &self,
        boot: &Boot<'_>,
        watcher: &mut Watcher,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<Followed> {
        let mut files = Files::create()?;
        let plugin = self.plugin(boot)?;
        let started = Instant::now();
        let message = format!(
            "booting Linux {} on {} CPUs",
            self.kernel.release(),
            self.nr_cpus()
        );
        let progress = if self.is_quiet {
            ProgressBar::hidden()
        } else {
            progress::spinner(message)
        };

        let core = match self.clock {
            Clock::Deterministic { .. } => steady::Core::claim(&default_cache_dir()?),
            Clock::Parallel | Clock::Kvm => None,
        };
        // When a machine wakes up, QEMU puts such an image back into its memory. Under the
        // instruction clock none does.
        let kernel = match self.clock {
            Clock::Deterministic { .. } => self.kernel.direct_image()?,
            Clock::Parallel | Clock::Kvm => None,
        };
        let mut process = self.start(
            kernel.as_deref(),
            boot,
            &files,
            plugin.as_ref(),
            core.as_ref(),
        )?;
        let mut monitor = match boot {
            Boot::UpTo { .. } => {
                let mut monitor = Monitor::of(&mut process.0)?;
                monitor.start()?;
                Some(monitor)
            }
            Boot::Whole { .. } | Boot::From { .. } => None,
        };
        let end = self.watch(
            &mut process,
            monitor.as_mut(),
            &mut files,
            watcher,
            started,
            &mut |line| {
                progress.finish_and_clear();
                on_line(line);
            },
        );
        progress.finish_and_clear();
        if let (Ok(End::Stopped), Boot::UpTo { state, .. }, Some(monitor)) =
            (&end, boot, &mut monitor)
        {
            steady::hurry_main_thread(process.0.id());
            monitor.keep(&path_of(state))?;
        }
        drop(process);
        Ok(Followed {
            end: end?,
            files,
            plugin,
            wall_time: started.elapsed(),
        })
    }

    /// The plugin for its caches, if it has some.
    fn plugin(&self, boot: &Boot<'_>) -> Result<Option<Plugin>> {
        let usage = match boot {
            Boot::Whole { .. } => plugin::Use::Count(&[]),
            Boot::UpTo { .. } => plugin::Use::Learn,
            Boot::From { bases, .. } => plugin::Use::Count(bases),
        };
        self.caches
            .as_ref()
            .map(|caches| {
                Plugin::create(caches, &self.kernel, self.topology, self.memory_mib, &usage)
            })
            .transpose()
    }

    fn nr_cpus(&self) -> u32 {
        self.topology.nr_cpus()
    }

    pub(crate) fn seed_or_zero(&self) -> u64 {
        match self.clock {
            Clock::Deterministic { seed } => seed,
            Clock::Parallel | Clock::Kvm => 0,
        }
    }

    pub(crate) fn build_root(&self, script: &str, mark: &str) -> Result<Root> {
        let mut root = Root::with_busybox()?;
        for (host_path, name) in &self.programs {
            let name = match name {
                Some(name) => name.clone(),
                None => host_path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
            };
            root.add_program(host_path, &name)?;
        }
        for (host_path, guest_path) in &self.files {
            root.add_file(host_path, guest_path)?;
        }
        for host_path in &self.installed {
            root.add_installed(host_path)?;
        }
        for (guest_path, bytes) in &self.bytes {
            root.add_bytes(guest_path, bytes.clone())?;
        }
        // Loaders look for the configuration there to learn CONFIG_HZ.
        if let Some(config) = self.kernel.config() {
            let path = format!("/boot/config-{}", self.kernel.release());
            root.add_bytes(&path, config.into())?;
        }
        root.add_bytes("/bin/guest-clock", GUEST_CLOCK.to_vec())?;
        root.add_bytes("/bin/guest-hog", GUEST_HOG.to_vec())?;
        if self.caches.is_some() {
            root.add_bytes("/bin/guest-count", plugin::GUEST_COUNT.to_vec())?;
        }
        root.add_bytes("/init", INIT.into())?;
        root.add_bytes("/script", script.into())?;
        let settings = self.settings(mark, &root.library_path());
        root.add_bytes("/etc/scx_guest", settings.into_bytes())?;
        Ok(root)
    }

    /// What /init reads, as assignments of the shell.
    fn settings(&self, mark: &str, library_path: &str) -> String {
        let seed = self.seed_or_zero();
        let delay_us = match self.clock {
            Clock::Deterministic { seed } => phase_us(seed),
            Clock::Parallel | Clock::Kvm => 0,
        };
        format!(
            "MARK={mark}\nSEED={seed}\nPIT_DIVISOR={}\nDELAY_US={delay_us}\n\
             LIBRARY_PATH={}\n",
            self.pit_divisor(),
            crate::quote(library_path)
        )
    }

    fn start(
        &self,
        kernel: Option<&File>,
        boot: &Boot<'_>,
        files: &Files,
        plugin: Option<&Plugin>,
        core: Option<&steady::Core>,
    ) -> Result<Process> {
        let plugin = plugin.map(Plugin::argument);
        let image = self.kernel.image().to_string_lossy();
        let (initrd, state, script) = match boot {
            Boot::Whole { initrd } | Boot::UpTo { initrd, .. } => {
                (initrd, String::new(), String::new())
            }
            Boot::From {
                initrd,
                state,
                script,
                ..
            } => (initrd, path_of(state), path_of(script)),
        };
        let machine = Machine {
            topology: self.topology,
            nr_empty_sockets: self.nr_empty_sockets,
            memory_mib: self.memory_mib,
            clock: &self.clock,
            kernel: &kernel.map_or(image.into_owned(), path_of),
            initrd: &path_of(initrd),
            console: &path_of(&files.console),
            report: &path_of(&files.report),
            kernel_words: &self.kernel_words,
            part: match boot {
                Boot::Whole { .. } => Part::Whole,
                Boot::UpTo { .. } => Part::Before,
                Boot::From { .. } => Part::After {
                    state: &state,
                    script: &script,
                },
            },
            plugin: plugin.as_deref(),
        };
        let stderr = files
            .stderr
            .try_clone()
            .map_err(|e| Error::io("sharing QEMU's messages", e))?;
        let mut command = qemu::command(&machine);
        let orders = || match boot {
            Boot::UpTo { .. } => Stdio::piped(),
            Boot::Whole { .. } | Boot::From { .. } => Stdio::null(),
        };
        command.stdin(orders()).stdout(orders()).stderr(stderr);
        let core = core.map(steady::Core::set);
        // SAFETY: the closure runs between fork and exec and makes system
        // calls; it allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(move || {
                set_parent_process_death_signal(Some(Signal::KILL))?;
                core.as_ref().map_or(Ok(()), steady::Core::enter)
            });
        }
        command
            .spawn()
            .map(Process)
            .map_err(|e| Error::io("starting QEMU", e))
    }

    /// Follow the console until the guest is over or its time is up.
    fn watch(
        &self,
        process: &mut Process,
        mut monitor: Option<&mut Monitor>,
        files: &mut Files,
        watcher: &mut Watcher,
        started: Instant,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<End> {
        let mut over_at: Option<Instant> = None;
        let mut is_quiet = !matches!(self.clock, Clock::Deterministic { .. });
        loop {
            is_quiet = is_quiet || steady::quiet_main_thread(process.0.id());
            let is_stopped = match monitor.as_mut() {
                Some(monitor) => monitor.is_stopped()?,
                None => false,
            };
            // Asked before reading, so that the last lines are read after the
            // last write.
            let status = process.try_wait()?;
            files.read_lines(status.is_some(), &mut |line| {
                if let Some(line) = watcher.push(line) {
                    on_line(&line);
                }
            })?;
            if let Some(status) = status {
                return Ok(End::Exited(status));
            }
            if is_stopped {
                return Ok(End::Stopped);
            }
            if watcher.is_over() {
                let at = *over_at.get_or_insert_with(Instant::now);
                if at.elapsed() > POWER_OFF_LIMIT {
                    return Ok(End::Killed);
                }
            } else if started.elapsed() > self.time_limit {
                return Ok(End::TimeLimit);
            } else if self.clock == Clock::Kvm
                && !watcher.has_begun()
                && started.elapsed() > KVM_BOOT_LIMIT
            {
                return Ok(End::NoBoot);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// The outcome, or why there is none. What the guest said about itself
    /// comes before what the host saw from outside.
    pub(crate) fn conclude(&self, followed: Followed, verdict: Verdict) -> Result<Outcome> {
        let Followed {
            end,
            mut files,
            plugin,
            wall_time,
        } = followed;
        let tail = verdict.tail;
        if let Some(failure) = verdict.failure {
            return Err(Error::Guest { failure, tail });
        }
        if end == End::TimeLimit {
            return Err(Error::Guest {
                failure: Failure::TimeLimit(self.time_limit),
                tail,
            });
        }
        if end == End::NoBoot {
            let limit = KVM_BOOT_LIMIT.as_secs();
            return Err(Error::NoKvm(format!(
                "Linux {} did not boot within {limit} s on this machine",
                self.kernel.release()
            )));
        }
        if let Some(exit_code) = verdict.exit_code {
            let report = files.read_report()?;
            let counted = plugin.map(|mut plugin| plugin.read()).transpose()?;
            return Ok(Outcome {
                exit_code,
                console: verdict.output,
                report,
                caches: counted.map(|(_, spans)| spans),
                wall_time,
            });
        }
        let messages = files.read_stderr();
        if let End::Exited(status) = end
            && !status.success()
        {
            return Err(Error::Qemu(format!("{status}{}", after_colon(&messages))));
        }
        let why = if tail.is_empty() && messages.is_empty() {
            format!(
                ": its kernel said nothing; are {} MiB of memory enough?",
                self.memory_mib
            )
        } else {
            after_colon(&messages)
        };
        let failure = Failure::NoExitCode(why);
        Err(Error::Guest { failure, tail })
    }
}

/// What QEMU begins with, and how far it goes.
pub(crate) enum Boot<'a> {
    /// From a boot to the end.
    Whole { initrd: &'a File },
    /// From a boot to where the guest stops itself, which is kept in `state`.
    UpTo { initrd: &'a File, state: &'a File },
    /// From there to the end, with `script`.
    From {
        initrd: &'a File,
        state: &'a File,
        script: &'a File,
        /// Which CPU is which, if something is to be counted.
        bases: &'a [Base],
    },
}

/// A QEMU that was followed to its end, and what it wrote.
pub(crate) struct Followed {
    pub(crate) end: End,
    pub(crate) files: Files,
    pub(crate) plugin: Option<Plugin>,
    pub(crate) wall_time: Duration,
}

/// How QEMU came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Exited(ExitStatus),
    /// It had told all it had to tell, and did not go.
    Killed,
    TimeLimit,
    NoBoot,
    /// The guest stopped itself, and was kept.
    Stopped,
}

/// A QEMU that is killed, at the latest, when the thread that watches it has gone.
struct Process(Child);

impl Process {
    fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        self.0
            .try_wait()
            .map_err(|e| Error::io("waiting for QEMU", e))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What QEMU writes, in files without names.
pub(crate) struct Files {
    console: File,
    report: File,
    stderr: File,
    /// How much of the console was read.
    console_at: u64,
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
}

impl Files {
    fn create() -> Result<Self> {
        let create = || {
            tempfile::tempfile().map_err(|e| {
                Error::io(
                    format!("writing below {}", std::env::temp_dir().display()),
                    e,
                )
            })
        };
        Ok(Self {
            console: create()?,
            report: create()?,
            stderr: create()?,
            console_at: 0,
            partial: Vec::new(),
        })
    }

    /// Hand every new line to `on_line`; if `is_last`, also one without end.
    fn read_lines(&mut self, is_last: bool, on_line: &mut dyn FnMut(&str)) -> Result<()> {
        let mut buffer = [0; 1 << 16];
        loop {
            let count = match self.console.read_at(&mut buffer, self.console_at) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::io("reading the guest's console", error)),
            };
            self.console_at += count as u64;
            self.partial.extend(&buffer[..count]);
            while let Some(end) = self.partial.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.partial.drain(..=end).collect();
                on_line(&String::from_utf8_lossy(&line));
            }
        }
        if is_last && !self.partial.is_empty() {
            let line = std::mem::take(&mut self.partial);
            on_line(&String::from_utf8_lossy(&line));
        }
        Ok(())
    }

    pub(crate) fn read_report(&mut self) -> Result<Vec<u8>> {
        read_all(&mut self.report).map_err(|e| Error::io("reading the guest's report", e))
    }

    /// QEMU's own messages in one line.
    fn read_stderr(&mut self) -> String {
        let bytes = read_all(&mut self.stderr).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        text.lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join("; ")
    }
}

pub(crate) fn read_all(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A path by which a child process can open a file of ours that has no name.
pub(crate) fn path_of(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

fn after_colon(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(": {text}")
    }
}

/// How long the guest waits before the script, so that seeds meet other phases.
///
/// Steps of the golden ratio keep any number of first seeds far apart.
pub(crate) fn phase_us(seed: u64) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let fraction = seed.wrapping_mul(GOLDEN) >> 32;
    (fraction * PHASE_RANGE_US) >> 32
}

/// What every deterministic guest of this version has in common, in words that are
/// equal where it is: a digest of /init, of the clock and its parameters, of what is
/// changed in a kernel, of QEMU's options and of the kernel's words; and which busybox
/// is its shell.
///
/// # Errors
///
/// If there is no busybox.
pub fn describe_setup() -> Result<String> {
    let clock = Clock::Deterministic { seed: 1 };
    let machine = Machine {
        topology: Topology::new(2, 1, 2, 2),
        nr_empty_sockets: 0,
        memory_mib: MEMORY_MIB_DFL,
        clock: &clock,
        kernel: "kernel",
        initrd: "initrd",
        console: "console",
        report: "report",
        kernel_words: &[],
        part: Part::Whole,
        plugin: None,
    };
    let phases: Vec<u64> = (0..8).map(phase_us).collect();
    let parts = format!(
        "{INIT}\0{GUEST_CLOCK_SOURCE}\0{PIT_DIVISOR} {PIT_DIVISOR_MANY} {phases:?}\0{NO_OP:?}\0{:?}\0{:?}",
        qemu::command(&machine),
        Root::skeleton()
    );
    Ok(format!(
        "{:.*x}, {}",
        2 * DIGEST_BYTES,
        Sha256::digest(parts),
        initramfs::busybox_version()?
    ))
}

/// What the PIT counts on a machine of `topology`.
fn pit_divisor(topology: Topology) -> u32 {
    match topology.nr_cpus() < NR_CPUS_MANY {
        true => PIT_DIVISOR,
        false => PIT_DIVISOR_MANY,
    }
}

/// FNV-1a over what makes one run different from another.
pub(crate) fn hash(script: &str, seed: u64) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let bytes = script.bytes().chain(seed.to_le_bytes());
    bytes.fold(OFFSET, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_spread_over_a_tick_and_start_at_zero() {
        assert_eq!(phase_us(0), 0);
        let mut phases: Vec<u64> = (0..8).map(phase_us).collect();
        phases.sort_unstable();
        assert!(phases.iter().all(|&phase| phase < PHASE_RANGE_US));
        let gaps = phases.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.min().unwrap() > PHASE_RANGE_US / 40, "{phases:?}");
    }

    #[test]
    fn lines_are_whole_however_they_arrive() {
        let mut files = Files::create().unwrap();
        let mut lines = Vec::new();
        for (text, is_last) in [("one\r\ntw", false), ("o\nthr", false), ("ee", true)] {
            let end = files.console.seek(SeekFrom::End(0)).unwrap();
            files.console.write_all_at(text.as_bytes(), end).unwrap();
            files
                .read_lines(is_last, &mut |line| lines.push(line.to_owned()))
                .unwrap();
        }
        assert_eq!(lines, ["one\r\n", "two\n", "three"]);
    }
}
