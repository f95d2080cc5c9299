// SPDX-License-Identifier: GPL-2.0
//! `scx_bench guest`: the scenarios under each scheduler, in the deterministic
//! guest.
//!
//!   1. Every scheduler, topology and seed is one boot, which runs all chosen
//!      scenarios in their order. What came before a scenario is part of what
//!      it meets, so the list is part of the key of its result.
//!   2. Boots whose result is kept are not run again.
//!   3. The others run, some at a time; each result is kept when it is there.
//!
//! A scheduler that cannot be built, does not load or fails on the way is
//! reported with its message, never as a result.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use scx_guest::{Guest, Kernel, Topology};

use crate::cache::{self, Key, Store};
use crate::compare;
use crate::result::{Failure, RunResult};
use crate::results::{Results, Sample};
use crate::scenario::{self, Scenario};
use crate::spec::{self, Source, Spec};

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

/// Measure schedulers in the deterministic guest.
#[derive(Debug, Clone, clap::Args)]
pub struct GuestArgs {
    /// Schedulers: `default` (the kernel's), published ones by name, `peers` for all of those,
    /// and `NAME=PATH ARGS` for a program of this machine. Separated by commas; repeatable.
    #[arg(long, value_name = "LIST", default_value = spec::DEFAULT)]
    pub sched: Vec<String>,
    /// Numbers of CPUs, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4")]
    pub cpus: Vec<u32>,
    /// Topologies instead, as NODESxLLCSxCORESxTHREADS, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub topology: Vec<Topology>,
    /// Samples of each figure: seeds 1 to N.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub seeds: u64,
    /// Scenarios, separated by commas; see `scx_bench list`.
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub scenario: String,
    /// Length of each measurement in seconds, instead of the scenario's own.
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// Kernel image instead of the one that the guest chooses.
    #[arg(long, value_name = "PATH")]
    pub kernel: Option<PathBuf>,
    /// Write results.json into this directory.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Guests that run at the same time.
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Measure what the callbacks cost instead, in instructions. Busy CPUs share the clock, so
    /// that is exact with `--cpus 1`, or where the others idle (pipe_idle); else each callback
    /// contains what they did meanwhile. Counting itself costs some: keep the other figures apart.
    #[arg(long)]
    pub cost: bool,
    /// Measure again what has been measured already, and fail if it differs.
    #[arg(long)]
    pub again: bool,
}

/// A scheduler with its program, if it is not the kernel's own.
struct Candidate {
    spec: Spec,
    program: Option<PathBuf>,
    args: Vec<String>,
}

/// One boot to be done.
struct Boot<'a> {
    candidate: &'a Candidate,
    topology: Topology,
    seed: u64,
    key: Key,
}

/// What all boots share.
struct Bench<'a> {
    kernel: Kernel,
    workload: PathBuf,
    scenarios: Vec<&'static Scenario>,
    args: &'a GuestArgs,
    store: Store,
    progress: ProgressBar,
}

/// Measure what `args` say, print the tables and write the results. Returns
/// whether everything has a result.
pub fn run(args: &GuestArgs) -> Result<bool> {
    let specs = spec::parse_all(&args.sched)?;
    let cache_dir = cache::default_dir()?;
    let topologies = topologies(args)?;
    let (candidates, unbuilt) = find_programs(specs, &cache_dir);
    let bench = Bench {
        kernel: Kernel::find(args.kernel.as_deref())?,
        workload: find_workload()?,
        scenarios: scenario::select(&args.scenario)?,
        args,
        store: Store::open(&cache_dir.join("results"))?,
        progress: ProgressBar::hidden(),
    };
    let qemu = qemu_version()?;
    let boots = bench.plan(&candidates, &topologies, &qemu)?;
    let mut results = Results {
        kernel: bench.kernel.release().to_string(),
        qemu,
        seeds: args.seeds,
        command: String::new(),
        schedulers: candidates
            .iter()
            .map(|c| (c.spec.name.clone(), c.spec.describe()))
            .collect(),
        samples: unbuilt,
    };
    results.samples.extend(bench.run_all(boots)?);
    print!("{}", compare::tables(&results));
    print!("{}", compare::costs(&results));
    if let Some(dir) = &args.out {
        results.write(dir)?;
    }
    Ok(results.is_whole())
}

impl Bench<'_> {
    fn plan<'a>(
        &self,
        candidates: &'a [Candidate],
        topologies: &[Topology],
        qemu: &str,
    ) -> Result<Vec<Boot<'a>>> {
        let common = self.common_key(qemu)?;
        let mut boots = Vec::new();
        for candidate in candidates {
            let mut key = common.clone();
            if let Some(program) = &candidate.program {
                key.add_file("scheduler", program)?;
                key.add("arguments", &candidate.args.join("\n"));
            }
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
        if self.args.cost {
            key.add("cost", "yes");
        }
        Ok(key)
    }

    /// Run all boots, some at a time; their samples in the order of `boots`.
    fn run_all(mut self, boots: Vec<Boot>) -> Result<Vec<Sample>> {
        let nr_boots = boots.len();
        let mut samples: Vec<Option<Sample>> = vec![None; nr_boots];
        let mut queue = VecDeque::new();
        for (index, boot) in boots.iter().enumerate() {
            match self.store.load(&boot.key) {
                Some(result) if !self.args.again => samples[index] = Some(boot.sample(result)),
                _ => queue.push_back(index),
            }
        }
        self.progress = progress_bar(queue.len() * self.scenarios.len());
        let nr_jobs = self
            .args
            .jobs
            .unwrap_or(JOBS_MAX_DFL)
            .clamp(1, queue.len().max(1));
        let shared = Mutex::new((queue, samples));
        let bench = &self;
        // A closure, so that the lock is not held while a guest runs.
        let next = || lock(&shared).0.pop_front();
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
        outcomes.into_iter().collect::<Result<()>>()?;
        Ok(std::mem::take(&mut lock(&shared).1)
            .into_iter()
            .flatten()
            .collect())
    }

    fn run_boot(&self, boot: &Boot) -> Result<Sample> {
        let name = &boot.candidate.spec.name;
        let title = format!(
            "{name}, {} CPUs, seed {}",
            boot.topology.nr_cpus(),
            boot.seed
        );
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
        self.store.save(&boot.key, &result)?;
        Ok(boot.sample(result))
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

fn topologies(args: &GuestArgs) -> Result<Vec<Topology>> {
    let topologies = if args.topology.is_empty() {
        args.cpus.iter().map(|&cpus| Topology::flat(cpus)).collect()
    } else {
        args.topology.clone()
    };
    topologies.iter().try_for_each(Topology::check)?;
    if args.seeds == 0 {
        bail!("--seeds must be at least 1");
    }
    Ok(topologies)
}

/// The program of each scheduler, built where necessary; samples that say why
/// for those that have none.
fn find_programs(specs: Vec<Spec>, cache: &Path) -> (Vec<Candidate>, Vec<Sample>) {
    let mut candidates = Vec::new();
    let mut unbuilt = Vec::new();
    for spec in specs {
        let (program, args) = match &spec.source {
            Source::Kernel => (Ok(None), Vec::new()),
            Source::Published(peer) => (peer.program(cache).map(Some), Vec::new()),
            Source::Program { path, args } => (Ok(Some(path.clone())), args.clone()),
        };
        match program {
            Ok(program) => candidates.push(Candidate {
                spec,
                program,
                args,
            }),
            Err(error) => {
                let failure = Failure {
                    scenario: None,
                    message: format!("{error:#}"),
                };
                unbuilt.push(Sample {
                    scheduler: spec.name,
                    topology: String::new(),
                    cpus: 0,
                    seed: 0,
                    result: RunResult {
                        failures: vec![failure],
                        ..RunResult::default()
                    },
                });
            }
        }
    }
    (candidates, unbuilt)
}

/// The workload program: beside this one, as cargo puts both.
fn find_workload() -> Result<PathBuf> {
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

fn qemu_version() -> Result<String> {
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
