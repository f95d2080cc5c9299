// SPDX-License-Identifier: GPL-2.0
//! Boots of the guest: one for every scheduler, topology and seed.
//!
//!   1. Each runs all chosen scenarios in their order. What came before a
//!      scenario is part of what it meets, so the list is part of the key of its
//!      result.
//!   2. Boots whose result is kept are not run again.
//!   3. The others run, some at a time; each result is kept when it is there.
//!
//! Not here: what is to be measured and what becomes of it (`guest`).

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use scx_guest::{Guest, Kernel, Topology};

use crate::cache::{Key, Store};
use crate::compact;
use crate::dataset::Sample;
use crate::guest::GuestArgs;
use crate::interrupt;
use crate::kept::{Identity, Kept};
use crate::result::{Failure, RunResult};
use crate::scenario::{self, Scenario};
use crate::spec::{Source, Spec};

/// Memory of a guest in MiB, and more for each CPU: stacks are locked.
const MEMORY_MIB: u32 = 1536;
const MEMORY_PER_CPU_MIB: u32 = 48;

/// Wall time of a boot after which it has failed, for each scenario and on top.
const LIMIT_PER_SCENARIO: Duration = Duration::from_secs(120);
const LIMIT_BOOT: Duration = Duration::from_secs(300);

/// Guests at a time: each is one thread of the host.
const JOBS_MAX_DFL: usize = 2;

/// What the workload program is called, here and in the guest.
const WORKLOAD: &str = "scx_workload";

/// A scheduler with its program, if it is not the kernel's own.
pub struct Candidate {
    /// Which one it is.
    pub spec: Spec,
    /// Its program.
    pub program: Option<PathBuf>,
    /// Arguments of that.
    pub args: Vec<String>,
}

/// One boot to be done.
pub struct Boot<'a> {
    candidate: &'a Candidate,
    topology: Topology,
    seed: u64,
    key: Key,
    identity: Identity,
}

/// What all boots share.
pub struct Bench<'a> {
    /// What they boot.
    pub kernel: Kernel,
    /// The program that runs in them.
    pub workload: PathBuf,
    /// What it runs.
    pub scenarios: Vec<&'static Scenario>,
    /// What the user wants.
    pub args: &'a GuestArgs,
    /// Results of this machine.
    pub store: Store,
    /// Results of everybody.
    pub kept: Option<Kept>,
    /// How far they are.
    pub progress: ProgressBar,
    /// A result could not be kept.
    pub is_unkept: AtomicBool,
}

impl Bench<'_> {
    /// All boots, in order of scheduler, topology and seed. `identities` are what stands for
    /// the programs of some schedulers.
    pub fn plan<'a>(
        &self,
        candidates: &'a [Candidate],
        topologies: &[Topology],
        qemu: &str,
        identities: &[(String, String)],
    ) -> Result<Vec<Boot<'a>>> {
        let common = self.common_key(qemu)?;
        let common_identity = self.common_identity(qemu)?;
        let mut boots = Vec::new();
        for candidate in candidates {
            let mut key = common.clone();
            if let Some(program) = &candidate.program {
                key.add_file("scheduler", program)?;
                key.add("arguments", &candidate.args.join("\n"));
            }
            let stated = identities
                .iter()
                .find(|(name, _)| *name == candidate.spec.name);
            let mut identity = common_identity.clone();
            identity.add("scheduler", &candidate.spec.name);
            match (&candidate.program, stated, &candidate.spec.source) {
                (_, Some((_, text)), _) => identity.add("program", text),
                (Some(program), None, Source::Program { .. }) => {
                    identity.add_file("program", "", program)?;
                }
                _ => identity.add("program", &candidate.spec.describe()),
            }
            identity.add("arguments", &candidate.args.join(" "));
            for &topology in topologies {
                for seed in 1..=self.args.seeds {
                    let mut key = key.clone();
                    key.add("topology", &topology.to_string());
                    key.add("seed", &seed.to_string());
                    boots.push(Boot {
                        candidate,
                        topology,
                        seed,
                        key,
                        identity: identity.of_boot(&topology.to_string(), seed),
                    });
                }
            }
        }
        Ok(boots)
    }

    /// What every boot's result depends on.
    fn common_key(&self, qemu: &str) -> Result<Key> {
        let mut key = Key::new();
        key.add_file("kernel", self.kernel.image())?;
        key.add_file("workload", &self.workload)?;
        key.add("qemu", qemu);
        for scenario in &self.scenarios {
            key.add("scenario", scenario.id);
        }
        key.add("seconds", &format!("{:?}", self.args.seconds));
        for program in scenario::programs(&self.scenarios)? {
            key.add_file("tool", &program)?;
        }
        if self.args.cost {
            key.add("cost", "yes");
        }
        Ok(key)
    }

    /// The same, by what is equal on all machines that build the same sources.
    fn common_identity(&self, qemu: &str) -> Result<Identity> {
        let ids = |scenarios: &[&Scenario]| -> Vec<&str> {
            scenarios.iter().map(|scenario| scenario.id).collect()
        };
        let mut run = ids(&self.scenarios).join(",");
        if let Some(seconds) = self.args.seconds {
            run.push_str(&format!(" {seconds} s"));
        }
        if self.args.cost {
            run.push_str(" cost");
        }
        let everything = ids(&scenario::select("all")?).join(",");
        let part = (run != everything).then_some(run.as_str());
        let mut identity = Identity::new(part);
        identity.add_file("kernel", self.kernel.release(), self.kernel.image())?;
        identity.add("qemu", qemu);
        identity.add("run", &run);
        for program in scenario::programs(&self.scenarios)? {
            let name = program.file_name().unwrap_or_default().to_string_lossy();
            identity.add_file(&format!("tool {name}"), "", &program)?;
        }
        Ok(identity)
    }

    /// The result of `boot`, if it is kept anywhere.
    fn find_kept(&self, boot: &Boot) -> Option<RunResult> {
        if self.args.again {
            return None;
        }
        let committed = self
            .kept
            .as_ref()
            .and_then(|kept| kept.load(&boot.identity));
        committed.or_else(|| self.store.load(&boot.key))
    }

    /// Keep the result of `boot` for others too, where that was asked for, and
    /// return what they will find. Here and there the figures are the same.
    fn keep(&self, boot: &Boot, result: RunResult) -> RunResult {
        let Some(kept) = &self.kept else {
            return result;
        };
        let thinned = compact::thin(result);
        let whole = interrupt::hold();
        self.check_kept(boot, kept.save(&boot.identity, &thinned));
        drop(whole);
        thinned
    }

    /// Say that a result was not kept, if it was not. The figures are there all
    /// the same; whoever measured fails when they have been shown.
    fn check_kept(&self, boot: &Boot, saved: Result<()>) {
        if let Err(error) = saved {
            let title = boot.title();
            self.progress
                .suspend(|| eprintln!("{title}: the result is not kept: {error:#}"));
            self.is_unkept.store(true, Ordering::Relaxed);
        }
    }

    /// Run all boots, some at a time; their samples in the order of `boots`.
    pub fn run_all(&mut self, boots: Vec<Boot>) -> Result<Vec<Sample>> {
        let nr_boots = boots.len();
        let mut samples: Vec<Option<Sample>> = vec![None; nr_boots];
        let mut queue = VecDeque::new();
        for (index, boot) in boots.iter().enumerate() {
            match self.find_kept(boot) {
                Some(result) => {
                    samples[index] = Some(boot.sample(self.keep(boot, result)));
                }
                None => queue.push_back(index),
            }
        }
        self.progress = progress_bar(queue.len() * self.scenarios.len());
        let nr_jobs = self
            .args
            .jobs
            .unwrap_or(JOBS_MAX_DFL)
            .clamp(1, queue.len().max(1));
        let shared = Mutex::new((queue, samples));
        let bench = &*self;
        // A closure, so that the lock is not held while a guest runs.
        let next = || match interrupt::is_pressed() {
            true => None,
            false => lock(&shared).0.pop_front(),
        };
        let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
            let work = || -> Result<()> {
                while let Some(index) = next() {
                    let sample = bench.run_boot(&boots[index])?;
                    lock(&shared).1[index] = Some(sample);
                }
                Ok(())
            };
            let handles: Vec<_> = (0..nr_jobs).map(|_| scope.spawn(work)).collect();
            let joined = handles.into_iter().map(|handle| handle.join());
            joined
                .map(|outcome| outcome.unwrap_or_else(|_| Err(anyhow!("a job panicked"))))
                .collect()
        });
        self.progress.finish_and_clear();
        interrupt::end_here_if_pressed();
        outcomes.into_iter().collect::<Result<()>>()?;
        Ok(std::mem::take(&mut lock(&shared).1)
            .into_iter()
            .flatten()
            .collect())
    }

    fn run_boot(&self, boot: &Boot) -> Result<Sample> {
        let title = boot.title();
        self.progress.set_message(title.clone());
        let mut nr_done = 0;
        let result = self.boot_guest(boot, &mut |line| {
            nr_done += 1;
            self.progress.inc(1);
            // Where no bar can be drawn, in a log, there are lines instead.
            if self.progress.is_hidden() {
                eprintln!("{title}: {line}");
            }
        });
        self.progress
            .inc((self.scenarios.len() - nr_done.min(self.scenarios.len())) as u64);
        let result = match result {
            Ok(result) => result,
            // The guest failed, not the bench: that is a finding, though not
            // one to be kept, since it may have been the time limit.
            Err(error) if error.downcast_ref::<scx_guest::Error>().is_some() => {
                let failure = Failure {
                    scenario: None,
                    message: format!("{error:#}"),
                };
                return Ok(boot.sample(RunResult {
                    failures: vec![failure],
                    ..RunResult::default()
                }));
            }
            Err(error) => return Err(error.context(title)),
        };
        if self.args.again
            && let Some(before) = self.store.load(&boot.key)
            && before != result
        {
            bail!("{title}: the result differs from the one that was kept");
        }
        let whole = interrupt::hold();
        self.check_kept(boot, self.store.save(&boot.key, &result));
        drop(whole);
        Ok(boot.sample(self.keep(boot, result)))
    }

    /// Boot, run the scenarios and read the report.
    fn boot_guest(&self, boot: &Boot, on_scenario: &mut dyn FnMut(&str)) -> Result<RunResult> {
        let nr_cpus = boot.topology.nr_cpus();
        let mut guest = Guest::new(&self.kernel)
            .topology(boot.topology)
            .memory_mib(MEMORY_MIB + MEMORY_PER_CPU_MIB * nr_cpus)
            .seed(boot.seed)
            .time_limit(LIMIT_BOOT + LIMIT_PER_SCENARIO * self.scenarios.len() as u32)
            .program_as(&self.workload, WORKLOAD)
            .allow_scx_error()
            .quiet();
        for program in scenario::programs(&self.scenarios)? {
            guest = guest.program(program);
        }
        if let Some(program) = &boot.candidate.program {
            guest = guest.program(program);
        }
        let mut lines = Vec::new();
        let outcome = guest.run(&self.script(boot), &mut |line| {
            lines.push(line.to_string());
            if self.is_result(line) {
                on_scenario(line);
            }
        })?;
        serde_json::from_slice(&outcome.report)
            .with_context(|| format!("the guest wrote no report; it said: {}", lines.join(" | ")))
    }

    /// Is this the line that a finished scenario prints?
    fn is_result(&self, line: &str) -> bool {
        let id = line.split_whitespace().next();
        self.scenarios
            .iter()
            .any(|scenario| id == Some(scenario.id))
    }

    fn script(&self, boot: &Boot) -> String {
        let ids: Vec<&str> = self.scenarios.iter().map(|scenario| scenario.id).collect();
        let mut words = vec![
            WORKLOAD.to_string(),
            "--settle".to_string(),
            format!("--cpus={}", boot.topology.nr_cpus()),
            format!("--seed={}", boot.seed),
            format!("--scenario={}", ids.join(",")),
            "--json=/dev/report".to_string(),
        ];
        if self.args.cost {
            words.push("--cost".to_string());
        }
        if let Some(seconds) = self.args.seconds {
            words.push(format!("--seconds={seconds}"));
        }
        if let Some(program) = &boot.candidate.program {
            words.push("--".to_string());
            words.push(
                program
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
            );
            words.extend(boot.candidate.args.iter().cloned());
        }
        words
            .iter()
            .map(|word| scx_guest::quote(word))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

impl Boot<'_> {
    fn title(&self) -> String {
        let name = &self.candidate.spec.name;
        let nr_cpus = self.topology.nr_cpus();
        format!("{name}, {nr_cpus} CPUs, seed {}", self.seed)
    }

    fn sample(&self, result: RunResult) -> Sample {
        Sample {
            scheduler: self.candidate.spec.name.clone(),
            topology: self.topology.to_string(),
            cpus: self.topology.nr_cpus(),
            seed: self.seed,
            result,
        }
    }
}

/// The workload program: beside this one, as cargo puts both.
pub fn find_workload() -> Result<PathBuf> {
    let here = std::env::current_exe().context("finding this program")?;
    let dirs = here.ancestors().skip(1).take(2);
    let found = dirs
        .map(|dir| dir.join(WORKLOAD))
        .find(|path| path.is_file());
    found.with_context(|| {
        format!(
            "{WORKLOAD} is not beside {}; build it: cargo build --release -p scx_bench",
            here.display()
        )
    })
}

/// The version of QEMU, as it says it.
pub fn qemu_version() -> Result<String> {
    let output = Command::new("qemu-system-x86_64")
        .arg("--version")
        .output()
        .context("starting qemu-system-x86_64 (package qemu-system-x86)")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_string())
}

fn progress_bar(length: usize) -> ProgressBar {
    let bar = ProgressBar::new(length as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} scenarios, {eta} left  {msg}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
