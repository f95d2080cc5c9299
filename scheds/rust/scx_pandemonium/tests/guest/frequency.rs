// SPDX-License-Identifier: GPL-2.0
//! How fast CPUs are asked to be: all they can do within 20 ms of a load, little
//! when nothing runs, and nothing is asked where no governor listens.
//!
//! The guest has no cpufreq driver, so what is seen is what the kernel is asked for,
//! by a probe of its own on `scx_bpf_cpuperf_set()`. Its files may say that there is
//! a governor: the scheduler reads a copy of them.
//!
//! `load-step NR_CPUS NR_STEPS` waits for a second, lets a task begin to use each
//! CPU at the same time, for 200 ms, waits for another second, and so on. The answer:
//! a JSON object for each step, see [`Step`].

use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use scx_guest::Kernel;
use serde_json::{Value, json};

use crate::idle::FAKE;
use crate::ours::OURS;
use crate::support::telemetry::Stats;
use crate::support::told::Told;
use crate::support::trace::TRACING;
use crate::support::work::{join, set_affinity, sleep_until, spawn, spin_until};

const NR_CPUS: u32 = 4;

/// All that a CPU can do.
const FULL: u64 = 1024;

/// What is promised: all within so long of a load, and nothing so long after it.
const FULL_MAX_US: u64 = 20_000;
const NOTHING_MAX_US: u64 = 300_000;

/// How often a CPU says again what it asked for.
const NR_REPEATS: u64 = 8;

/// What a second in which nothing runs may ask for: how often, and on average in the
/// end.
const IDLE_CALLS_MAX: u64 = 4;
const IDLE_TARGET_MAX: u64 = 32;

const IDLE: Duration = Duration::from_secs(1);
const BUSY: Duration = Duration::from_millis(200);
/// How long before a step the trace says so; the CPUs are still idle then.
const NOTICE: Duration = Duration::from_millis(2);

const STEPPER: &str = "stepper";
const PROBE: &str = "p:test/cpuperf scx_bpf_cpuperf_set cpu=%di:s32 perf=%si:u32";

/// A trace of the CPUs' beginnings, of what is asked for, and of our marks.
struct PerfTrace(());

impl PerfTrace {
    fn begin() -> Result<PerfTrace> {
        let trace = PerfTrace(());
        trace.write("kprobe_events", PROBE)?;
        let filter = format!("next_comm ~ \"{STEPPER}*\"");
        trace.write("events/sched/sched_switch/filter", &filter)?;
        trace.enable("1")?;
        Ok(trace)
    }

    fn mark(&self, text: &str) -> Result<()> {
        self.write("trace_marker", text)
    }

    fn enable(&self, text: &str) -> Result<()> {
        self.write("events/sched/sched_switch/enable", text)?;
        self.write("events/test/cpuperf/enable", text)
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        fs::write(format!("{TRACING}/{file}"), text).with_context(|| format!("tracing: {file}"))
    }

    fn end(self) -> Result<Vec<Event>> {
        self.enable("0")?;
        let text = fs::read_to_string(format!("{TRACING}/trace")).context("reading the trace")?;
        self.write("trace", "")?;
        self.write("kprobe_events", "")?;
        events(&text)
    }
}

/// What a line of the trace says.
#[derive(Debug, PartialEq)]
enum Event {
    /// The mark of that name.
    Mark { name: String, at_us: u64 },
    /// The task that uses `cpu` begins to run.
    Run { cpu: u64, at_us: u64 },
    /// `perf` is asked for on `cpu`.
    Ask { cpu: u64, perf: u64, at_us: u64 },
}

/// The events in the lines of a trace, such as
/// `a-8 [000] d.h2. 1.000001: cpuperf: (scx_bpf_cpuperf_set+0x0/0x90) cpu=1 perf=64`.
fn events(trace: &str) -> Result<Vec<Event>> {
    let lines = trace.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| event(line).with_context(|| format!("cannot read {line:?}")))
        .collect()
}

fn event(line: &str) -> Result<Event> {
    let (head, name, text) = ["tracing_mark_write", "sched_switch", "cpuperf"]
        .iter()
        .find_map(|name| {
            let (head, text) = line.split_once(&format!(": {name}: "))?;
            Some((head, *name, text))
        })
        .context("no such event")?;
    let at = head.split_whitespace().next_back().context("no time")?;
    let at_us: u64 = at.replace('.', "").parse()?;
    let number = |key: &str| -> Result<u64> {
        let mut words = text.split_whitespace();
        let number = words.find_map(|word| word.strip_prefix(key));
        Ok(number.with_context(|| key.to_owned())?.parse()?)
    };
    Ok(match name {
        "tracing_mark_write" => Event::Mark {
            name: text.trim().to_owned(),
            at_us,
        },
        "sched_switch" => Event::Run {
            cpu: number(&format!("next_comm={STEPPER}"))?,
            at_us,
        },
        _ => Event::Ask {
            cpu: number("cpu=")?,
            perf: number("perf=")?,
            at_us,
        },
    })
}

/// What became of one step of the load.
#[derive(Debug, Default, PartialEq)]
struct Step {
    /// How often something was asked for in the second before it.
    nr_idle_calls: u64,
    /// How long the CPUs ran, each its task, until they asked for all.
    full_us: BTreeMap<u64, u64>,
    /// How often something was asked for after that, until the load ended.
    nr_busy_calls: u64,
    /// How long after its end they first asked for nothing: what runs later may need more.
    nothing_us: BTreeMap<u64, u64>,
}

/// The steps in a trace, in which the second before each is marked `idle`, its
/// beginning `step`, and its end `end`.
fn steps(events: &[Event]) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut mark, mut marked_at_us) = ("", 0);
    let mut runs_from_us = BTreeMap::new();
    for event in events {
        if let Event::Mark { name, at_us } = event {
            (mark, marked_at_us) = (name.as_str(), *at_us);
            if mark == "idle" {
                steps.push(Step::default());
                runs_from_us.clear();
            }
            continue;
        }
        let Some(step) = steps.last_mut() else {
            continue;
        };
        match (mark, event) {
            ("idle", Event::Ask { .. }) => step.nr_idle_calls += 1,
            ("step", Event::Run { cpu, at_us }) => {
                runs_from_us.entry(*cpu).or_insert(*at_us);
            }
            ("step", Event::Ask { cpu, perf, at_us }) => {
                if step.full_us.contains_key(cpu) {
                    step.nr_busy_calls += 1;
                } else if *perf == FULL {
                    let from_us = runs_from_us.get(cpu).context("all before a run")?;
                    step.full_us.insert(*cpu, at_us - from_us);
                }
            }
            (
                "end",
                Event::Ask {
                    cpu,
                    perf: 0,
                    at_us,
                },
            ) => {
                let nothing_us = step.nothing_us.entry(*cpu);
                nothing_us.or_insert(at_us - marked_at_us);
            }
            _ => {}
        }
    }
    Ok(steps)
}

/// What the words after `load-step` ask for.
pub fn load_step(words: &[&str]) -> Result<String> {
    let [nr_cpus, nr_steps] = words else {
        bail!("load-step NR_CPUS NR_STEPS");
    };
    let (nr_cpus, nr_steps): (u32, u32) = (nr_cpus.parse()?, nr_steps.parse()?);
    let mut stats = Stats::connect()?;
    let trace = PerfTrace::begin()?;
    // Let what the beginning asked for be over.
    let first_at = Instant::now() + IDLE;
    let mut steppers = Vec::new();
    for cpu in 0..nr_cpus {
        steppers.push(spawn(&format!("{STEPPER}{cpu}"), move || {
            set_affinity(0, 1 << cpu)?;
            for step in 0..nr_steps {
                let begins_at = first_at + IDLE + (IDLE * 2 + BUSY) * step;
                sleep_until(begins_at);
                spin_until(begins_at + BUSY);
            }
            Ok(())
        })?);
    }
    let mut idle_targets = Vec::new();
    let mut busy_targets = Vec::new();
    for step in 0..nr_steps {
        let idle_at = first_at + (IDLE * 2 + BUSY) * step;
        sleep_until(idle_at);
        trace.mark("idle")?;
        sleep_until(idle_at + IDLE - NOTICE);
        idle_targets.push(stats.read()?["cpuperf_target"].clone());
        trace.mark("step")?;
        sleep_until(idle_at + IDLE + BUSY / 2);
        busy_targets.push(stats.read()?["cpuperf_target"].clone());
        sleep_until(idle_at + IDLE + BUSY);
        trace.mark("end")?;
    }
    steppers.into_iter().try_for_each(join)?;
    sleep(IDLE);
    let steps = steps(&trace.end()?)?;
    let worst = |times: &BTreeMap<u64, u64>| match times.len() == nr_cpus as usize {
        true => json!(times.values().max()),
        false => Value::Null,
    };
    let steps: Vec<Value> = steps
        .iter()
        .zip(idle_targets.iter().zip(&busy_targets))
        .map(|(step, (idle_target, busy_target))| {
            json!({
                "nr_idle_calls": step.nr_idle_calls,
                "idle_target": idle_target,
                "full_us": worst(&step.full_us),
                "busy_target": busy_target,
                "nr_busy_calls": step.nr_busy_calls,
                "nothing_us": worst(&step.nothing_us),
            })
        })
        .collect();
    Ok(json!(steps).to_string())
}

fn follows_the_load(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, NR_CPUS)?.run(
        "begin --cpufreq on\n\
         fact steps $(agent load-step $NR_CPUS 3)\n\
         stop INT\n",
    )?;
    let steps: Value = told.one("steps")?;
    let steps = steps.as_array().context("no steps")?;
    told.check_eq("steps", steps.len(), 3)?;
    for step in steps {
        println!("{step}");
        let at_most = |key: &str, most: u64| {
            let found = step[key].as_u64();
            told.check(found.is_some_and(|found| found <= most), || {
                format!("{key} is {found:?}, not at most {most}")
            })
        };
        at_most("full_us", FULL_MAX_US)?;
        at_most("nothing_us", NOTHING_MAX_US)?;
        at_most("nr_idle_calls", IDLE_CALLS_MAX)?;
        at_most("idle_target", IDLE_TARGET_MAX)?;
        at_most("nr_busy_calls", NR_REPEATS * u64::from(NR_CPUS))?;
        told.check_eq("busy target", step["busy_target"].as_u64(), Some(FULL))?;
    }
    told.check_stops()
}

figure!(
    cpus_ask_for_all_within_20_ms_and_for_nothing_when_idle,
    follows_the_load
);

/// What stands before the scripts with a governor, after [`FAKE`]: `governor NAME`
/// makes it so.
const GOVERNOR: &str = "\
governor() {
	mkdir -p /tmp/cpus/cpufreq/policy0
	fake cpufreq/policy0/scaling_governor $1
}
# busy KEY: what the scheduler says of 200 ms of a hog, and of 200 without.
busy() {
	awk 'BEGIN { while (1) ; }' &
	hog=$!
	usleep 100000
	fact $1 $(agent stats-of-ms 200)
	kill $hog
	usleep 500000
	fact $1 $(agent stats-of-ms 200)
}
";

/// Calls and target of the two intervals that were told as `key`: of a hog, and
/// after it.
fn calls(told: &Told, key: &str) -> Result<Vec<(u64, u64)>> {
    let found: Vec<Value> = told.all(key)?;
    let calls: Result<Vec<_>> = found
        .iter()
        .map(|metrics| {
            let count = |name: &str| metrics[name].as_u64().context("a counter");
            Ok((count("nr_cpuperf_set")?, count("cpuperf_target")?))
        })
        .collect();
    let calls = calls?;
    println!("{key}: {calls:?}");
    Ok(calls)
}

figure!(nothing_is_asked_where_no_governor_listens, |kernel| {
    let told = OURS.flat(kernel, NR_CPUS)?.run(&format!(
        "{FAKE}{GOVERNOR}\
         begin\n\
         busy none\n\
         stop INT\n\
         begin --cpufreq off\n\
         busy off\n\
         stop INT\n\
         governor performance\n\
         mount --bind /tmp/cpus $CPUS\n\
         begin\n\
         busy performance\n\
         governor schedutil\n\
         sleep 3\n\
         busy schedutil\n\
         governor performance\n\
         sleep 3\n\
         busy changed_back\n\
         stop INT\n"
    ))?;
    for key in ["none", "off", "performance"] {
        let expected = vec![(0, FULL), (0, FULL)];
        told.check_eq(key, calls(&told, key)?, expected)?;
    }
    let [(nr_hog, hog), (_, idle)] = calls(&told, "schedutil")?[..] else {
        bail!("not two intervals");
    };
    told.check(nr_hog > 0 && hog >= FULL / u64::from(NR_CPUS), || {
        format!("a hog asked {nr_hog} times, for {hog}")
    })?;
    told.check(idle <= IDLE_TARGET_MAX, || {
        format!("idle CPUs ask for {idle}")
    })?;
    for (nr_calls, _) in calls(&told, "changed_back")? {
        told.check_eq("calls after the governor was changed back", nr_calls, 0)?;
    }
    told.check_eq("stops", told.all::<u32>("stop_code")?, vec![0, 0, 0])
});

#[test]
fn a_trace_is_told_step_by_step() -> Result<()> {
    let trace = "\
# tracer: nop
agent-8 [000] ..... 1.000000: tracing_mark_write: idle
<idle>-0 [000] ..s.. 1.100000: cpuperf: (scx_bpf_cpuperf_set+0x0/0x90) cpu=1 perf=0
agent-8 [000] ..... 2.000000: tracing_mark_write: step
<idle>-0 [001] d..2. 2.002000: sched_switch: prev_comm=x ==> next_comm=stepper1 next_pid=9 next_prio=120
stepper1-9 [001] d.h2. 2.006000: cpuperf: (scx_bpf_cpuperf_set+0x0/0x90) cpu=1 perf=512
y-7 [001] d..2. 2.007000: sched_switch: prev_comm=y ==> next_comm=stepper1 next_pid=9 next_prio=120
stepper1-9 [001] d.h2. 2.010000: cpuperf: (scx_bpf_cpuperf_set+0x0/0x90) cpu=1 perf=1024
stepper1-9 [001] d.h2. 2.020000: cpuperf: (scx_bpf_cpuperf_set+0x0/0x90) cpu=1 perf=900
agent-8 [000] ..... 2.200000: tracing_mark_write: end
<idle>-0 [000] ..s.. 2.300000: cpuperf: (scx_bpf_cpuperf_set+0x0/0x90) cpu=1 perf=0
";
    let step = Step {
        nr_idle_calls: 1,
        full_us: BTreeMap::from([(1, 8_000)]),
        nr_busy_calls: 1,
        nothing_us: BTreeMap::from([(1, 100_000)]),
    };
    assert_eq!(steps(&events(trace)?)?, [step]);
    assert!(events("a-8 [000] ..... 1.000000: another: x").is_err());
    Ok(())
}
