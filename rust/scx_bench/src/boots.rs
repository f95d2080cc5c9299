// SPDX-License-Identifier: GPL-2.0
//! Boots of the guest: one for every scheduler, topology and seed of a plan.
//!
//!   1. Each runs all chosen scenarios in their order. What came before a
//!      scenario is part of what it meets, so the list is part of the key of its
//!      result.
//!   2. Boots whose result is kept are not run again.
//!   3. The others run, some at a time; each result is kept when it is there.
//!
//! Not here: what the user asks for and what becomes of it (`guest`, `gate`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;
use scx_guest::{Guest, Kernel, Topology};

use crate::candidate::{self, Candidate};
use crate::dataset::{Dataset, Sample};
use crate::interrupt;
use crate::result::RunResult;
use crate::scenario::{self, Scenario};
use crate::spec::{Source, Spec};
use crate::store::{self, Key, Store};

/// Memory of a guest in MiB, and more for each CPU: stacks are locked.
const MEMORY_MIB: u32 = 1536;
const MEMORY_PER_CPU_MIB: u32 = 48;

/// Wall time of a boot after which it has failed, for each scenario and on top.
const LIMIT_PER_SCENARIO: Duration = Duration::from_secs(120);
const LIMIT_BOOT: Duration = Duration::from_secs(300);

/// Guests at a time: each is one thread of the host.
pub(crate) const JOBS_MAX_DFL: usize = 2;

/// What the workload program is called, here and in the guest.
const WORKLOAD: &str = "scx_workload";

/// What is measured.
#[derive(Debug)]
pub struct Plan {
    /// The schedulers.
    pub specs: Vec<Spec>,
    /// The guest's machines.
    pub topologies: Vec<Topology>,
    /// Samples of each figure: seeds 1 to this.
    pub seeds: u64,
    /// What runs in each boot, in this order.
    pub scenarios: Vec<&'static Scenario>,
    /// Length of each measurement in seconds, instead of the scenario's own.
    pub seconds: Option<f64>,
    /// Measure what the scheduler's callbacks cost.
    pub with_cost: bool,
    /// Results to be committed, besides those of this machine.
    pub committed: Option<Store>,
    /// Replace committed results that depend on something else.
    pub renew: bool,
    /// By scheduler, what stands for its program in committed results.
    pub identities: BTreeMap<String, Identity>,
    /// How it is booted.
    pub boot: BootArgs,
}

/// What stands for a program in committed results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Which one it is, such as a digest of its sources.
    pub program: String,
    /// (name, words) of what else it is made of.
    pub parts: Vec<(String, String)>,
}

/// How guests are booted.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct BootArgs {
    /// Kernel image instead of the one that `scx_guest` pins, or `host` for that of this machine.
    #[arg(long, value_name = "PATH")]
    pub kernel: Option<PathBuf>,
    /// Guests that run at the same time.
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Measure again what has been measured already, and fail if it differs.
    #[arg(long)]
    pub again: bool,
}

/// What was measured.
#[derive(Debug)]
pub struct Measured {
    /// All of it.
    pub dataset: Dataset,
    is_unkept: bool,
}

impl Measured {
    /// An error if a result could not be kept. For the end: the figures are there
    /// all the same.
    pub fn check_kept(&self) -> Result<()> {
        if self.is_unkept {
            bail!("not all results could be kept; they would be measured again");
        }
        Ok(())
    }
}

/// Measure what `plan` says, or take it from where it is kept.
pub fn measure(plan: Plan) -> Result<Measured> {
    let measured = measure_all(vec![plan])?;
    measured.into_iter().next().context("nothing was measured")
}

/// The same for several plans. Their guests run side by side, as many at a time as the
/// first plan says.
pub fn measure_all(plans: Vec<Plan>) -> Result<Vec<Measured>> {
    let cache_dir = store::cache_dir()?;
    let jobs = plans.first().and_then(|plan| plan.boot.jobs);
    let progress = ProgressBar::hidden();
    let benches = plans
        .into_iter()
        .map(|plan| Bench::new(plan, &cache_dir, progress.clone()))
        .collect::<Result<Vec<Bench>>>()?;
    let boots = benches
        .iter()
        .map(|bench| bench.boots(&cache_dir))
        .collect::<Result<Vec<Vec<Boot>>>>()?;
    let nr_boots: Vec<usize> = boots.iter().map(Vec::len).collect();
    let boots: Vec<Boot> = boots.into_iter().flatten().collect();
    let mut samples = run_all(&boots, jobs.unwrap_or(JOBS_MAX_DFL), &progress)?.into_iter();
    drop(boots);
    let measured = benches.into_iter().zip(nr_boots);
    let measured =
        measured.map(|(bench, nr_boots)| bench.measured(samples.by_ref().take(nr_boots)));
    Ok(measured.collect())
}

/// One boot to be done.
struct Boot<'a> {
    bench: &'a Bench,
    candidate: &'a Candidate,
    topology: Topology,
    seed: u64,
    key: Key,
}

/// What all boots of a plan share.
struct Bench {
    plan: Plan,
    kernel: Kernel,
    qemu: String,
    /// The program that runs in them.
    workload: PathBuf,
    /// Results of this machine.
    local: Store,
    /// The schedulers that can be measured.
    candidates: Vec<Candidate>,
    /// Why the others cannot.
    unbuilt: Vec<Sample>,
    progress: ProgressBar,
    is_unkept: AtomicBool,
}

impl Bench {
    /// Find all that `plan` names, building published schedulers below `cache`.
    fn new(plan: Plan, cache: &Path, progress: ProgressBar) -> Result<Self> {
        let mut bench = Self {
            kernel: Kernel::find(plan.boot.kernel.as_deref())?,
            qemu: qemu_version()?,
            workload: find_beside(WORKLOAD)?,
            local: Store::local(&cache.join("results"))?,
            candidates: Vec::new(),
            unbuilt: Vec::new(),
            progress,
            is_unkept: AtomicBool::new(false),
            plan,
        };
        let common = bench.common_key()?;
        bench.check_kept(&common, cache)?;
        let is_known = |spec: &Spec| bench.is_committed(&common, spec, cache);
        let release = bench.kernel.release();
        let found = candidate::find_all(&bench.plan.specs, release, cache, is_known)?;
        (bench.candidates, bench.unbuilt) = found;
        Ok(bench)
    }

    /// What was measured, of which `samples` are the boots.
    fn measured(self, samples: impl Iterator<Item = Sample>) -> Measured {
        let specs = self.candidates.iter().map(|candidate| &candidate.spec);
        let dataset = Dataset::new(self.kernel.release(), specs);
        Measured {
            dataset: Dataset {
                qemu: self.qemu,
                seeds: self.plan.seeds,
                samples: self.unbuilt.into_iter().chain(samples).collect(),
                ..dataset
            },
            is_unkept: self.is_unkept.into_inner(),
        }
    }

    /// All boots, in order of scheduler, topology and seed.
    fn boots(&self, cache: &Path) -> Result<Vec<Boot<'_>>> {
        let common = self.common_key()?;
        let mut boots = Vec::new();
        for candidate in &self.candidates {
            let mut key = self.spec_key(&common, &candidate.spec, cache)?;
            if let Some(program) = &candidate.program {
                key.add_bytes("program", &program.path)?;
            }
            boots.extend(self.each_boot().map(|(topology, seed)| Boot {
                bench: self,
                candidate,
                topology,
                seed,
                key: key.of_boot(&topology.to_string(), seed),
            }));
        }
        Ok(boots)
    }

    /// The boots under one scheduler, in order.
    fn each_boot(&self) -> impl Iterator<Item = (Topology, u64)> {
        let topologies = self.plan.topologies.iter();
        topologies.flat_map(|&topology| (1..=self.plan.seeds).map(move |seed| (topology, seed)))
    }

    /// Are all results of this published scheduler committed? Then its program is
    /// not needed.
    fn is_committed(&self, common: &Key, spec: &Spec, cache: &Path) -> bool {
        let (Source::Published(_), Some(store)) = (&spec.source, &self.plan.committed) else {
            return false;
        };
        let Ok(key) = self.spec_key(common, spec, cache) else {
            return false;
        };
        let is_kept = |(topology, seed): (Topology, u64)| {
            store
                .load(&key.of_boot(&topology.to_string(), seed))
                .is_some()
        };
        !self.plan.boot.again && self.each_boot().all(is_kept)
    }

    /// What every boot's result depends on.
    fn common_key(&self) -> Result<Key> {
        let mut run = ids(&self.plan.scenarios);
        if let Some(seconds) = self.plan.seconds {
            run += &format!(" {seconds} s");
        }
        if self.plan.with_cost {
            run += " cost";
        }
        let is_all = run == ids(&scenario::select("all")?);
        let mut key = Key::new(&self.workload, &run, is_all)?;
        key.add_file("kernel", self.kernel.image(), self.kernel.release())?;
        key.add("qemu", &self.qemu);
        key.add("guest", &scx_guest::describe_setup()?);
        key.add("libc", &libc_version());
        for program in scenario::programs(&self.plan.scenarios)? {
            let name = program.file_name().unwrap_or_default().to_string_lossy();
            key.add_file(&format!("tool {name}"), &program, "")?;
        }
        Ok(key)
    }

    /// What the results of one scheduler depend on, but for the bytes of its
    /// program, which may not have been built yet.
    fn spec_key(&self, common: &Key, spec: &Spec, cache: &Path) -> Result<Key> {
        let mut key = common.clone();
        key.add("scheduler", &spec.name);
        let stated = self.plan.identities.get(&spec.name);
        match (stated, &spec.source) {
            (Some(identity), _) => {
                key.add("program", &identity.program);
                let parts = identity.parts.iter();
                parts.for_each(|(name, words)| key.add(&format!("program {name}"), words));
            }
            // What a program is called does not say which one it is.
            (None, Source::Program { path, .. }) => key.add_file("program", path, "")?,
            (None, _) => key.add("program", &spec.describe()),
        }
        match &spec.source {
            Source::Program { args, .. } => key.add("arguments", &args.join(" ")),
            Source::Published(peer) => match peer.built_with(cache) {
                Some(compilers) => key.add("program build", &compilers),
                None => key.add_unknown("program build"),
            },
            Source::Kernel | Source::Limit => {}
        }
        Ok(key)
    }

    /// An error that names each part in which committed results depend on something
    /// else than what would be measured now, unless they are to be renewed.
    fn check_kept(&self, common: &Key, cache: &Path) -> Result<()> {
        let Some(store) = &self.plan.committed else {
            return Ok(());
        };
        let mut keys = Vec::new();
        for spec in &self.plan.specs {
            let key = self.spec_key(common, spec, cache)?;
            let boots = self.each_boot();
            keys.extend(boots.map(|(topology, seed)| key.of_boot(&topology.to_string(), seed)));
        }
        let told = store.differing(keys.into_iter());
        ensure!(
            told.is_empty() || self.plan.renew,
            "what is kept was measured with something else:\n{told}--renew measures it anew, \
             in its place"
        );
        if !told.is_empty() {
            eprint!("measured anew, for what was kept was measured with something else:\n{told}");
        }
        Ok(())
    }

    /// The result of `boot`, if it is kept anywhere.
    fn find_kept(&self, boot: &Boot) -> Option<RunResult> {
        if self.plan.boot.again {
            return None;
        }
        let committed = self.plan.committed.as_ref();
        let found = committed.and_then(|store| store.load(&boot.key));
        found.or_else(|| self.local.load(&boot.key))
    }

    /// Keep the result of `boot` in `store`, if there is one, and return it as it
    /// will be found there. That it cannot be kept is said; the figures are there
    /// all the same, and [`Measured::check_kept`] fails when they have been shown.
    fn keep(&self, store: Option<&Store>, boot: &Boot, result: RunResult) -> RunResult {
        let Some(store) = store else { return result };
        let _whole = interrupt::hold();
        store
            .save(&boot.key, result.clone())
            .unwrap_or_else(|error| {
                let title = boot.title();
                self.progress
                    .suspend(|| eprintln!("{title}: the result is not kept: {error:#}"));
                self.is_unkept.store(true, Ordering::Relaxed);
                result
            })
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
        let nr_scenarios = self.plan.scenarios.len();
        let nr_left = nr_scenarios.saturating_sub(nr_done);
        self.progress.inc(nr_left as u64);
        let result = match result {
            Ok(result) => result,
            // The guest failed, not the bench: that is a finding, though not
            // one to be kept, since it may have been the time limit.
            Err(error) if error.downcast_ref::<scx_guest::Error>().is_some() => {
                return Ok(boot.sample(candidate::failed(&format!("{error:#}"))));
            }
            Err(error) => return Err(error.context(title)),
        };
        if self.plan.boot.again
            && let Some(before) = self.local.load(&boot.key)
            && before != result
        {
            bail!("{title}: the result differs from the one that was kept");
        }
        let result = self.keep(Some(&self.local), boot, result);
        Ok(boot.sample(self.keep(self.plan.committed.as_ref(), boot, result)))
    }

    /// Boot, run the scenarios and read the report.
    fn boot_guest(&self, boot: &Boot, on_scenario: &mut dyn FnMut(&str)) -> Result<RunResult> {
        let mut guest = Guest::new(&self.kernel)
            .topology(boot.topology)
            .memory_mib(memory_mib(boot.topology))
            .seed(boot.seed)
            .time_limit(LIMIT_BOOT + LIMIT_PER_SCENARIO * self.plan.scenarios.len() as u32)
            .program_as(&self.workload, WORKLOAD)
            .allow_scx_error()
            .quiet();
        for program in scenario::programs(&self.plan.scenarios)? {
            guest = guest.program(program);
        }
        match &boot.candidate.program {
            Some(program) => guest = guest.program(&program.path),
            None => ensure!(
                matches!(boot.candidate.spec.source, Source::Kernel | Source::Limit),
                "its program was not built, because its results were there"
            ),
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
        self.plan
            .scenarios
            .iter()
            .any(|scenario| id == Some(scenario.id))
    }

    fn script(&self, boot: &Boot) -> String {
        let mut words = vec![
            WORKLOAD.to_string(),
            "--settle".to_string(),
            format!("--cpus={}", boot.topology.nr_cpus()),
            format!("--seed={}", boot.seed),
            format!("--scenario={}", ids(&self.plan.scenarios)),
            "--json=/dev/report".to_string(),
        ];
        if self.plan.with_cost {
            words.push("--cost".to_string());
        }
        if boot.candidate.spec.source == Source::Limit {
            words.push("--fifo".to_string());
        }
        let seconds = self.plan.seconds;
        words.extend(seconds.map(|seconds| format!("--seconds={seconds}")));
        if let Some(program) = &boot.candidate.program {
            let name = program.path.file_name().unwrap_or_default();
            words.extend(["--".to_string(), name.to_string_lossy().into_owned()]);
            words.extend(program.args.iter().cloned());
        }
        let quoted: Vec<String> = words.iter().map(|word| scx_guest::quote(word)).collect();
        quoted.join(" ")
    }
}

impl Boot<'_> {
    fn title(&self) -> String {
        let name = &self.candidate.spec.name;
        let release = self.bench.kernel.release();
        let nr_cpus = self.topology.nr_cpus();
        format!(
            "{name}, Linux {release}, {nr_cpus} CPUs, seed {}",
            self.seed
        )
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

/// Run all boots, `jobs` at a time; their samples in the order of `boots`.
fn run_all(boots: &[Boot], jobs: usize, progress: &ProgressBar) -> Result<Vec<Sample>> {
    let find_kept = |boot: &Boot| boot.bench.find_kept(boot);
    let kept: Vec<Option<RunResult>> = boots.iter().map(find_kept).collect();
    let missing = boots
        .iter()
        .zip(&kept)
        .filter(|(_, result)| result.is_none());
    let nr_scenarios = missing.map(|(boot, _)| boot.bench.plan.scenarios.len());
    show_progress(progress, nr_scenarios.sum());
    let jobs = rayon::ThreadPoolBuilder::new()
        .num_threads(jobs.max(1))
        .build()
        .context("starting threads for guests")?;
    let sample = |(boot, kept): (&Boot, Option<RunResult>)| {
        ensure!(!interrupt::is_pressed(), "interrupted");
        let bench = boot.bench;
        let Some(result) = kept else {
            return bench.run_boot(boot);
        };
        Ok(boot.sample(bench.keep(bench.plan.committed.as_ref(), boot, result)))
    };
    // One at a time: a boot takes minutes, so no thread may have two left at the end.
    let boots = boots.par_iter().zip(kept).with_max_len(1);
    let samples = jobs.install(|| boots.map(sample).collect());
    progress.finish_and_clear();
    interrupt::end_here_if_pressed();
    samples
}

fn show_progress(bar: &ProgressBar, nr_scenarios: usize) {
    bar.set_length(nr_scenarios as u64);
    let template = "{bar:30} {pos}/{len} scenarios, {eta} left  {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar.enable_steady_tick(Duration::from_secs(1));
}

/// Memory of a guest of this shape, in MiB.
pub(crate) fn memory_mib(topology: Topology) -> u32 {
    MEMORY_MIB + MEMORY_PER_CPU_MIB * topology.nr_cpus()
}

/// The program `name` of this package: beside this one, as cargo puts all of them.
pub(crate) fn find_beside(name: &str) -> Result<PathBuf> {
    let here = std::env::current_exe().context("finding this program")?;
    let dirs = here.ancestors().skip(1).take(2);
    let found = dirs.map(|dir| dir.join(name)).find(|path| path.is_file());
    found.with_context(|| {
        format!(
            "{name} is not beside {}; build it: cargo build --release -p scx_bench",
            here.display()
        )
    })
}

/// The version of QEMU, as it says it.
pub(crate) fn qemu_version() -> Result<String> {
    let output = Command::new("qemu-system-x86_64")
        .arg("--version")
        .output()
        .context("starting qemu-system-x86_64 (package qemu-system-x86)")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_string())
}

/// The C library that programs of this machine run with, in the guest as well.
fn libc_version() -> String {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: it returns a constant C string.
        let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
        format!("glibc {}", version.to_string_lossy())
    }
    #[cfg(not(target_env = "gnu"))]
    String::new()
}

/// Ids of scenarios in their order, as they are named on a command line.
fn ids(scenarios: &[&Scenario]) -> String {
    let ids: Vec<&str> = scenarios.iter().map(|scenario| scenario.id).collect();
    ids.join(",")
}
