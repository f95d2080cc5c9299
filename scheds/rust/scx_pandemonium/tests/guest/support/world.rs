// SPDX-License-Identifier: GPL-2.0
//! One guest with the scheduler in it.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use scx_guest::{Clock, Guest, Kernel, Prepared, Topology, find_program, quote};

use super::draws::{self, Broken};
use super::number_of_env;
use super::told::Told;

const PRELUDE: &str = include_str!("prelude.sh");

/// Shifts the phases of every run.
const SEED_ENV: &str = "SCX_GUEST_SEED";
const SEED_DFL: u64 = 1;

/// Wall time for one guest: many times what the longest one takes on an idle
/// machine.
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// Where distributions have plugins and programs that are not for PATH.
const LIBRARY_DIRS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/libexec",
];

/// What phases, and what a test draws, go by.
pub fn seed() -> Result<u64> {
    number_of_env(SEED_ENV, SEED_DFL)
}

/// The scheduler under test, and where its tests keep things.
pub struct Subject {
    /// The program that cargo built: `env!("CARGO_BIN_EXE_...")`.
    pub program: &'static str,
    /// Names the environment variable that may hold another program, such as one
    /// that was broken on purpose to see a test fail.
    pub program_env: &'static str,
    /// Where scripts are kept that repeat a run: `env!("CARGO_TARGET_TMPDIR")`.
    pub scratch_dir: &'static str,
    /// How long a stop may take beside the heaviest loads, in ms of the guest's
    /// clock. Most of it is the kernel's own work.
    pub stop_max_ms: u64,
}

impl Subject {
    /// The program under test.
    pub fn program(&self) -> PathBuf {
        env::var_os(self.program_env).map_or_else(|| PathBuf::from(self.program), PathBuf::from)
    }

    /// A machine of `topology`, such as `1x1x4x1`.
    pub fn world(&'static self, kernel: &Kernel, topology: &str) -> Result<World> {
        let agent = env::current_exe().context("finding the test program")?;
        Ok(World {
            subject: self,
            kernel: kernel.clone(),
            topology: topology.parse()?,
            nr_empty_sockets: 0,
            seed: draws::seed(seed()?),
            programs: vec![self.program(), agent],
            installed: Vec::new(),
            files: Vec::new(),
            kernel_words: Vec::new(),
            memory_mib: None,
            is_scx_error_allowed: false,
            is_parallel: false,
            is_whole: false,
            time_limit: TIME_LIMIT,
        })
    }

    /// A flat machine of `nr_cpus`.
    pub fn flat(&'static self, kernel: &Kernel, nr_cpus: u32) -> Result<World> {
        self.world(kernel, &Topology::flat(nr_cpus).to_string())
    }
}

/// A machine to be booted with the scheduler and the agent in it.
pub struct World {
    subject: &'static Subject,
    kernel: Kernel,
    topology: Topology,
    nr_empty_sockets: u32,
    seed: u64,
    programs: Vec<PathBuf>,
    installed: Vec<PathBuf>,
    files: Vec<(PathBuf, String)>,
    kernel_words: Vec<String>,
    memory_mib: Option<u32>,
    is_scx_error_allowed: bool,
    is_parallel: bool,
    is_whole: bool,
    time_limit: Duration,
}

/// Machines that were booted, with the prelude and perhaps the scheduler running, by all
/// that makes one different from another; what was used last is the last.
static PREPARED: Mutex<Vec<(String, Slot)>> = Mutex::new(Vec::new());

/// So many of them: each takes 150 MB of a disk and more.
const NR_PREPARED_MAX: usize = 24;

/// One of these, once it is there; locked while it is made.
type Slot = Arc<Mutex<Option<Arc<Prepared>>>>;

/// Where a script begins so, the scheduler is started once for all of them.
const BEGIN: &str = "begin\n";

impl World {
    /// Bring a program of this machine.
    pub fn with_program(mut self, name: &str) -> Result<World> {
        let path = find_program(name).with_context(|| format!("{name} is not installed"))?;
        self.programs.push(path);
        Ok(self)
    }

    /// Bring a program of another package of this workspace, which stands two
    /// directories above the tests.
    pub fn with_workspace_program(mut self, name: &str) -> Result<World> {
        let test = env::current_exe().context("finding the test program")?;
        let path = test
            .parent()
            .and_then(Path::parent)
            .context("the test program stands in no target directory")?
            .join(name);
        ensure!(
            path.is_file(),
            "{} is missing: cargo build --release --workspace",
            path.display()
        );
        self.programs.push(path);
        Ok(self)
    }

    /// Bring a file or directory of this machine to where it is here, with what
    /// programs and plugins in it need.
    pub fn with_installed(mut self, path: impl Into<PathBuf>) -> Result<World> {
        let path = path.into();
        ensure!(path.exists(), "{} is not installed", path.display());
        self.installed.push(path);
        Ok(self)
    }

    /// Bring a file or directory from where this machine has libraries: plugins
    /// and what programs start by its path.
    pub fn with_library(self, name: &str) -> Result<World> {
        let mut paths = LIBRARY_DIRS.iter().map(|dir| Path::new(dir).join(name));
        let path = paths
            .find(|path| path.exists())
            .with_context(|| format!("{name} is not installed"))?;
        self.with_installed(path)
    }

    /// Put a file or directory of this machine at `guest_path`, as it is.
    pub fn with_file(mut self, host_path: &Path, guest_path: &str) -> World {
        self.files
            .push((host_path.to_owned(), guest_path.to_owned()));
        self
    }

    /// Put one more word on the kernel's command line.
    pub fn with_kernel_word(mut self, word: &str) -> World {
        self.kernel_words.push(word.to_owned());
        self
    }

    /// Leave so many sockets empty beside those of the topology.
    pub fn with_empty_sockets(mut self, nr_empty_sockets: u32) -> World {
        self.nr_empty_sockets = nr_empty_sockets;
        self
    }

    /// Give the guest so much memory, of which its root image takes some, instead of
    /// what guests have.
    pub fn with_memory_mib(mut self, memory_mib: u32) -> World {
        self.memory_mib = Some(memory_mib);
        self
    }

    /// Let the guest take so much more wall time than usual.
    pub fn with_more_time(mut self, time: Duration) -> World {
        self.time_limit += time;
        self
    }

    /// Run the CPUs really at the same time, by the host's clock: nothing repeats, and no
    /// time that is measured says anything.
    pub fn in_parallel(mut self) -> World {
        self.is_parallel = true;
        self
    }

    /// Boot for this run alone, and start the scheduler in it.
    pub fn booted_alone(mut self) -> World {
        self.is_whole = true;
        self
    }

    /// Let the kernel throw the scheduler out.
    pub fn allow_scx_error(mut self) -> World {
        self.is_scx_error_allowed = true;
        self
    }

    /// Boot and run `script`, which must end with 0. An error is [`Broken`].
    pub fn run(&self, script: &str) -> Result<Told> {
        self.run_once(script).map_err(|err| Broken(err).into())
    }

    fn run_once(&self, script: &str) -> Result<Told> {
        let mut guest = Guest::new(&self.kernel)
            .topology(self.topology)
            .empty_sockets(self.nr_empty_sockets)
            .seed(self.seed)
            .time_limit(self.time_limit)
            .quiet();
        for path in &self.programs {
            guest = guest.program(path);
        }
        for path in &self.installed {
            guest = guest.installed(path);
        }
        for (host_path, guest_path) in &self.files {
            guest = guest.file(host_path, guest_path);
        }
        for word in &self.kernel_words {
            guest = guest.kernel_arg(word);
        }
        if let Some(memory_mib) = self.memory_mib {
            guest = guest.memory_mib(memory_mib);
        }
        if self.is_scx_error_allowed {
            guest = guest.allow_scx_error();
        }
        if self.is_parallel {
            guest = guest.clock(Clock::Parallel);
        }
        let prelude = self.prelude()?;
        let mut on_line = |line: &str| println!("guest: {line}");
        let (repeat, outcome) = match self.is_usual() {
            true => {
                let (begin, script) = match script.strip_prefix(BEGIN) {
                    Some(script) => (BEGIN, script),
                    None => ("", script),
                };
                let first = format!("{prelude}\n{begin}");
                let repeat = self.command(Some(&first), script)?;
                let outcome = self
                    .prepared(&guest, &first)
                    .and_then(|prepared| prepared.run(&guest, script, &mut on_line));
                (repeat, outcome)
            }
            false => {
                let script = format!("{prelude}\n{script}");
                let repeat = self.command(None, &script)?;
                (repeat, guest.run(&script, &mut on_line))
            }
        };
        let outcome = outcome.map_err(|error| anyhow!("{error}\n{repeat}"))?;
        println!(
            "wall time: {:.1} s on Linux {}, {}",
            outcome.wall_time.as_secs_f64(),
            self.kernel.release(),
            self.topology
        );
        let told = Told::new(
            outcome.console,
            outcome.report,
            self.subject.stop_max_ms,
            repeat,
        );
        told.check_no_panic()?;
        told.check_not_given_up()?;
        told.check(outcome.exit_code == 0, || {
            format!("the script ended with {}", outcome.exit_code)
        })?;
        Ok(told)
    }

    /// Whether others are likely to begin with the same machine.
    fn is_usual(&self) -> bool {
        let is_as_others = self.kernel_words.is_empty() && self.memory_mib.is_none();
        let has_no_files = self.installed.is_empty() && self.files.is_empty();
        is_as_others && has_no_files && !self.is_parallel && !self.is_whole
    }

    /// Such a machine after the script `first`, made if it is not there yet.
    fn prepared(&self, guest: &Guest, first: &str) -> scx_guest::Result<Arc<Prepared>> {
        let key = format!(
            "{:?} {} {} {:?} {first}",
            self.kernel.image(),
            self.topology,
            self.nr_empty_sockets,
            self.programs
        );
        let slot = {
            let mut all = PREPARED.lock().unwrap_or_else(PoisonError::into_inner);
            let known = all.iter().position(|(other, _)| *other == key);
            let (key, slot) = match known {
                Some(idx) => all.remove(idx),
                None => (key, Slot::default()),
            };
            all.push((key, Arc::clone(&slot)));
            if all.len() > NR_PREPARED_MAX {
                all.remove(0);
            }
            slot
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = &*slot {
            return Ok(Arc::clone(prepared));
        }
        let started = Instant::now();
        let prepared = Arc::new(guest.clone().prepare(first, &mut |_| ())?);
        println!(
            "{:.1} s for a machine to go on from",
            started.elapsed().as_secs_f64()
        );
        *slot = Some(Arc::clone(&prepared));
        Ok(prepared)
    }

    /// What each script begins with.
    fn prelude(&self) -> Result<String> {
        let name = |path: &PathBuf| -> Result<String> {
            let name = path.file_name().context("a program without a name")?;
            Ok(quote(&name.to_string_lossy()))
        };
        Ok(format!(
            "SCHEDULER={}\nAGENT={}\nNR_CPUS={}\n{PRELUDE}",
            name(&self.programs[0])?,
            name(&self.programs[1])?,
            self.topology.nr_cpus()
        ))
    }

    /// Keep a script in a file beside what cargo built, since it is long, and say it in
    /// a shell's words.
    fn keep(&self, script: &str) -> Result<String> {
        let mut hasher = DefaultHasher::new();
        script.hash(&mut hasher);
        let path = format!(
            "{}/guest-{:016x}.sh",
            self.subject.scratch_dir,
            hasher.finish()
        );
        fs::write(&path, script).with_context(|| format!("writing {path}"))?;
        Ok(format!("\"$(cat {})\"", quote(&path)))
    }

    /// How to run the very same guest from a shell.
    fn command(&self, first: Option<&str>, script: &str) -> Result<String> {
        let mut words = vec![
            "scx_guest".to_owned(),
            format!("--kernel {}", quote(&self.kernel.image().to_string_lossy())),
            format!("--topology {}", self.topology),
            match self.is_parallel {
                true => "--parallel".to_owned(),
                false => format!("--seed {}", self.seed),
            },
            format!("--time-limit {}", self.time_limit.as_secs()),
            "--report /dev/stdout".to_owned(),
        ];
        if let Some(first) = first {
            words.push(format!("--prepare {}", self.keep(first)?));
        }
        if self.nr_empty_sockets > 0 {
            words.push(format!("--empty-sockets {}", self.nr_empty_sockets));
        }
        for word in &self.kernel_words {
            words.push(format!("--kernel-arg {}", quote(word)));
        }
        if self.is_scx_error_allowed {
            words.push("--allow-scx-error".to_owned());
        }
        if let Some(memory_mib) = self.memory_mib {
            words.push(format!("--memory {memory_mib}"));
        }
        for path in &self.installed {
            words.push(format!("--installed {}", quote(&path.to_string_lossy())));
        }
        for path in &self.programs {
            words.push(format!("--program {}", quote(&path.to_string_lossy())));
        }
        for (host_path, guest_path) in &self.files {
            let pair = format!("{}:{guest_path}", host_path.display());
            words.push(format!("--file {}", quote(&pair)));
        }
        Ok(format!(
            "seed {}; to repeat: {} -- {}",
            self.seed,
            words.join(" "),
            self.keep(script)?
        ))
    }
}
