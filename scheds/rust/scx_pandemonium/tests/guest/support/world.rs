// SPDX-License-Identifier: GPL-2.0
//! One guest with the scheduler in it, and what it told.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Display;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use scx_guest::{Guest, Kernel, Topology, find_program, quote};

use crate::support::load;

const PRELUDE: &str = include_str!("prelude.sh");

/// The program under test, instead of the one that cargo built.
const SCHEDULER_ENV: &str = "SCX_PANDEMONIUM_BIN";
const SEED_ENV: &str = "SCX_GUEST_SEED";
const SEED_DFL: u64 = 1;

/// Wall time for one guest: many times what the longest one takes on an idle
/// machine.
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// How long a stop may take beside the heaviest loads, by the guest's clock. Most
/// of it is the kernel's own work; stop.rs holds the promise for a usual load.
const STOP_MAX_MS: u64 = 500;

/// Of so many preemptions one may be of an equal, by a race.
const PREEMPTS_FOR_ONE_RACE: u64 = 500;

/// The program under test.
pub fn scheduler() -> PathBuf {
    env::var_os(SCHEDULER_ENV).map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_scx_pandemonium")),
        PathBuf::from,
    )
}

/// A machine to be booted with the scheduler and the agent in it.
pub struct World {
    kernel: Kernel,
    topology: Topology,
    seed: u64,
    programs: Vec<PathBuf>,
    is_scx_error_allowed: bool,
    time_limit: Duration,
}

impl World {
    /// A machine of `topology`, such as `1x1x4x1`.
    pub fn new(kernel: &Kernel, topology: &str) -> Result<World> {
        let seed = match env::var(SEED_ENV) {
            Ok(text) => text.parse().with_context(|| format!("{SEED_ENV}={text}"))?,
            Err(_) => SEED_DFL,
        };
        let agent = env::current_exe().context("finding the test program")?;
        Ok(World {
            kernel: kernel.clone(),
            topology: topology.parse()?,
            seed,
            programs: vec![scheduler(), agent],
            is_scx_error_allowed: false,
            time_limit: TIME_LIMIT,
        })
    }

    /// A flat machine of `nr_cpus`.
    pub fn flat(kernel: &Kernel, nr_cpus: u32) -> Result<World> {
        World::new(kernel, &Topology::flat(nr_cpus).to_string())
    }

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

    /// Let the guest take so much more wall time than usual.
    pub fn with_more_time(mut self, time: Duration) -> World {
        self.time_limit += time;
        self
    }

    /// Let the kernel throw the scheduler out.
    pub fn allow_scx_error(mut self) -> World {
        self.is_scx_error_allowed = true;
        self
    }

    /// Boot and run `script`, which must end with 0.
    pub fn run(&self, script: &str) -> Result<Told> {
        let script = self.whole_script(script)?;
        let repeat = self.command(&script)?;
        let mut guest = Guest::new(&self.kernel)
            .topology(self.topology)
            .seed(self.seed)
            .time_limit(self.time_limit)
            .quiet();
        for path in &self.programs {
            guest = guest.program(path);
        }
        if self.is_scx_error_allowed {
            guest = guest.allow_scx_error();
        }
        let outcome = guest
            .run(&script, &mut |line| println!("guest: {line}"))
            .map_err(|error| anyhow!("{error}\n{repeat}"))?;
        println!(
            "wall time: {:.1} s on Linux {}, {}",
            outcome.wall_time.as_secs_f64(),
            self.kernel.release(),
            self.topology
        );
        let told = Told {
            facts: read_facts(&outcome.report),
            console: outcome.console,
            report: outcome.report,
            repeat,
        };
        if let Some(why) = told.facts.get("gave_up") {
            bail!(told.failure(&format!("the script gave up: {}", why.join(", "))));
        }
        told.check(outcome.exit_code == 0, || {
            format!("the script ended with {}", outcome.exit_code)
        })?;
        Ok(told)
    }

    fn whole_script(&self, script: &str) -> Result<String> {
        let name = |path: &PathBuf| -> Result<String> {
            let name = path.file_name().context("a program without a name")?;
            Ok(quote(&name.to_string_lossy()))
        };
        Ok(format!(
            "SCHEDULER={}\nAGENT={}\nNR_CPUS={}\n{PRELUDE}\n{script}",
            name(&self.programs[0])?,
            name(&self.programs[1])?,
            self.topology.nr_cpus()
        ))
    }

    /// How to run the very same guest from a shell. The script is kept in a
    /// file beside what cargo built, since it is long.
    fn command(&self, script: &str) -> Result<String> {
        let mut hasher = DefaultHasher::new();
        script.hash(&mut hasher);
        let path = format!(
            "{}/guest-{:016x}.sh",
            env!("CARGO_TARGET_TMPDIR"),
            hasher.finish()
        );
        fs::write(&path, script).with_context(|| format!("writing {path}"))?;

        let mut words = vec![
            "scx_guest".to_owned(),
            format!("--kernel {}", quote(&self.kernel.image().to_string_lossy())),
            format!("--topology {}", self.topology),
            format!("--seed {}", self.seed),
            format!("--time-limit {}", self.time_limit.as_secs()),
            "--report /dev/stdout".to_owned(),
        ];
        if self.is_scx_error_allowed {
            words.push("--allow-scx-error".to_owned());
        }
        for path in &self.programs {
            words.push(format!("--program {}", quote(&path.to_string_lossy())));
        }
        Ok(format!(
            "seed {}; to repeat: {} -- \"$(cat {})\"",
            self.seed,
            words.join(" "),
            quote(&path)
        ))
    }
}

/// What a guest told.
pub struct Told {
    /// Values by key, in the order they were told.
    facts: BTreeMap<String, Vec<String>>,
    /// The console's lines.
    pub console: Vec<String>,
    /// All facts as they were told.
    pub report: Vec<u8>,
    repeat: String,
}

impl Told {
    /// Every value told of `key`.
    pub fn all<T>(&self, key: &str) -> Result<Vec<T>>
    where
        T: FromStr,
        T::Err: Display,
    {
        let values = self
            .facts
            .get(key)
            .with_context(|| self.failure(&format!("nothing was told of {key}")))?;
        values
            .iter()
            .map(|value| {
                value
                    .parse()
                    .map_err(|err| anyhow!(self.failure(&format!("{key} is {value:?}: {err}"))))
            })
            .collect()
    }

    /// The only value told of `key`.
    pub fn one<T>(&self, key: &str) -> Result<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        let mut values = self.all(key)?;
        match (values.pop(), values.is_empty()) {
            (Some(value), true) => Ok(value),
            _ => bail!(self.failure(&format!("{key} was told more than once"))),
        }
    }

    /// An error that says `what`, and how to see it again, unless `is_ok`.
    pub fn check(&self, is_ok: bool, what: impl FnOnce() -> String) -> Result<()> {
        ensure!(is_ok, self.failure(&what()));
        Ok(())
    }

    /// A check of equality.
    pub fn check_eq<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        found: T,
        expected: T,
    ) -> Result<()> {
        self.check(found == expected, || {
            format!("{what}: found {found:?}, expected {expected:?}")
        })
    }

    /// Checks that only tasks of a lower tier were preempted, but for the odd
    /// wakeup that found a CPU on offer which was just switching to its equal.
    pub fn check_victims(&self, nr_equal: u64, nr_preempt: u64) -> Result<()> {
        println!("preemptions {nr_preempt}, of equals {nr_equal}");
        self.check(nr_equal <= 1 + nr_preempt / PREEMPTS_FOR_ONE_RACE, || {
            format!("{nr_equal} of {nr_preempt} preemptions were of equals")
        })
    }

    /// Checks that every stop that was told went well, and in time.
    pub fn check_stops(&self) -> Result<()> {
        for stop_ms in self.all::<u64>("stop_ms")? {
            self.check(stop_ms <= STOP_MAX_MS, || {
                format!("a stop took {stop_ms} ms, more than {STOP_MAX_MS}")
            })?;
        }
        for code in self.all::<i32>("stop_code")? {
            self.check_eq("exit code after a stop", code, 0)?;
        }
        for state in self.all::<String>("stop_state")? {
            self.check_eq("sched_ext after a stop", state.as_str(), "disabled")?;
        }
        Ok(())
    }

    /// Checks that no worker of a load was left behind: each went round, and
    /// none waited longer than `gap_max_ms` between two rounds.
    pub fn check_load(&self, gap_max_ms: u64) -> Result<()> {
        let kinds = self.all::<load::Kind>("load")?;
        for kind in &kinds {
            println!("{kind}");
        }
        for kind in kinds {
            self.check(kind.nr_rounds_min > 0, || {
                format!("a {} never ran", kind.name)
            })?;
            self.check(kind.gap_max_ms <= gap_max_ms, || {
                format!(
                    "a {} waited {} ms, more than {gap_max_ms}",
                    kind.name, kind.gap_max_ms
                )
            })?;
        }
        Ok(())
    }

    fn failure(&self, what: &str) -> String {
        format!("{what}\n{}", self.repeat)
    }
}

fn read_facts(report: &[u8]) -> BTreeMap<String, Vec<String>> {
    let mut facts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in String::from_utf8_lossy(report).lines() {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        facts
            .entry(key.to_owned())
            .or_default()
            .push(value.to_owned());
    }
    facts
}
