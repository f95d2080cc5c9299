// SPDX-License-Identifier: GPL-2.0
//! Which idle CPU a task gets: a big core, one of its L2 domain, one of its LLC,
//! and what `--affinity` makes of it.
//!
//! The guest has neither big cores nor L2 caches of several cores, but its root
//! may say so: the scheduler reads them from files, which are replaced by a copy.
//!
//! - `wander FROM ROUNDS`: a task that sleeps and works, on CPU FROM at first,
//!   then wherever it is put. The answer: how many rounds it ended on each CPU.
//! - `displaced FROM ROUNDS`: the same, but each round begins on CPU FROM.
//! - `sleepers SECONDS NICE NR*WORK_US ...`: so many tasks of that priority that work
//!   so long each time and sleep for longer, and the telemetry meanwhile.
//! - `leavers ROUNDS CPUS`: a hog on each of the first CPUs, and a task of a
//!   low priority that wakes on the first of them in each round. The answer:
//!   median and most time, in us, until it ran.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use scx_guest::Kernel;
use serde_json::Value;

use crate::ours::OURS;
use crate::support::telemetry::Stats;
use crate::support::told::Told;
use crate::support::work::{hog, set_affinity, set_nice, spin_until};

/// More than any of these machines has.
pub const ALL_CPUS: u64 = 0xff;

/// What such a task does in a round. Long enough to be worth a CPU, short enough
/// not to become batch work.
const WORK: Duration = Duration::from_micros(700);
const SLEEP: Duration = Duration::from_micros(1_000);

/// Niced down, a task preempts no other.
const LOW_NICE: i32 = 5;

/// What stands before every script: `fake FILE TEXT` changes a file of what the
/// scheduler believes to be `/sys/devices/system/cpu`.
pub const FAKE: &str = "\
CPUS=/sys/devices/system/cpu
mkdir /tmp/cpus
cp -r $CPUS/. /tmp/cpus 2>/dev/null
fake() {
	rm -f /tmp/cpus/$1
	echo $2 >/tmp/cpus/$1
}
# again ARGS: the scheduler anew.
again() {
	stop INT
	begin \"$@\"
}
";

/// The CPU that the caller runs on.
pub fn this_cpu() -> Result<usize> {
    // SAFETY: takes nothing.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).context("on no CPU")
}

/// Sleep on CPU `cpu`, and may leave it from then on.
fn sleep_on(cpu: usize) -> Result<()> {
    set_affinity(0, 1 << cpu)?;
    sleep(SLEEP);
    set_affinity(0, ALL_CPUS)
}

/// Sleep and work so often, with `before` each time. The answer: how many rounds
/// ended on each CPU.
fn rounds_on_each_cpu(nr: u64, mut before: impl FnMut() -> Result<()>) -> Result<String> {
    let mut rounds = [0u64; ALL_CPUS.count_ones() as usize];
    for _ in 0..nr {
        before()?;
        sleep(SLEEP);
        spin_until(Instant::now() + WORK);
        rounds[this_cpu()?] += 1;
    }
    let words: Vec<String> = rounds.iter().map(u64::to_string).collect();
    Ok(words.join(" "))
}

/// The two numbers after `wander` and `displaced`.
fn from_and_rounds(words: &[&str]) -> Result<(usize, u64)> {
    let [from, nr_rounds] = words else {
        bail!("wander|displaced FROM ROUNDS");
    };
    Ok((from.parse()?, nr_rounds.parse()?))
}

/// What the words after `wander` ask for.
pub fn wander(words: &[&str]) -> Result<String> {
    let (from, nr_rounds) = from_and_rounds(words)?;
    sleep_on(from)?;
    rounds_on_each_cpu(nr_rounds, || Ok(()))
}

/// What the words after `displaced` ask for.
pub fn displaced(words: &[&str]) -> Result<String> {
    let (from, nr_rounds) = from_and_rounds(words)?;
    rounds_on_each_cpu(nr_rounds, || sleep_on(from))
}

/// What the words after `sleepers` ask for.
pub fn sleepers(words: &[&str]) -> Result<String> {
    let [seconds, nice, groups @ ..] = words else {
        bail!("sleepers SECONDS NICE NR*WORK_US ...");
    };
    set_nice(nice.parse()?)?;
    let ends_at = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
    let mut stats = Stats::connect()?;
    let mut tasks = Vec::new();
    for group in groups {
        let (nr_tasks, work_us) = group.split_once('*').context("NR*WORK_US")?;
        let work = Duration::from_micros(work_us.parse()?);
        for nr in 0..nr_tasks.parse()? {
            // No two of the same period, so that all phases meet.
            let pause = work * (10 + nr) / 7;
            tasks.push(thread::spawn(move || {
                while Instant::now() < ends_at {
                    sleep(pause);
                    spin_until(Instant::now() + work);
                }
            }));
        }
    }
    for task in tasks {
        ensure!(task.join().is_ok(), "a sleeper panicked");
    }
    Ok(stats.ask("top")?.to_string())
}

/// What the words after `leavers` ask for.
pub fn leavers(words: &[&str]) -> Result<String> {
    let [nr_rounds, nr_cpus] = words else {
        bail!("leavers ROUNDS CPUS");
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let mut hogs = Vec::new();
    for cpu in 0..nr_cpus.parse::<u32>()? {
        let is_over = is_over.clone();
        hogs.push(thread::spawn(move || {
            set_affinity(0, 1 << cpu)?;
            hog(&is_over);
            anyhow::Ok(())
        }));
    }
    set_nice(LOW_NICE)?;
    let mut waits = Vec::new();
    for _ in 0..nr_rounds.parse()? {
        set_affinity(0, 1)?;
        spin_until(Instant::now() + Duration::from_micros(100));
        set_affinity(0, ALL_CPUS)?;
        ensure!(this_cpu()? == 0, "it left before it slept");
        let started = Instant::now();
        sleep(SLEEP);
        waits.push(started.elapsed().saturating_sub(SLEEP));
    }
    is_over.store(true, Ordering::Relaxed);
    for hog in hogs {
        ensure!(matches!(hog.join(), Ok(Ok(()))), "a hog failed");
    }
    waits.sort_unstable();
    let median = waits.get(waits.len() / 2).context("no rounds")?;
    let most = waits.last().context("no rounds")?;
    Ok(format!("{} {}", median.as_micros(), most.as_micros()))
}

/// One half of the CPUs is big, then the other; the load begins on a small one.
/// The shell is the hog, one for each CPU.
const SIZES: &str = "\
mount --bind /tmp/cpus $CPUS
# sizes CAPACITIES: those of CPUs 0 to 3.
sizes() {
	for cpu in 0 1 2 3; do
		fake cpu$cpu/cpu_capacity $1
		shift
	done
}
sizes 1024 1024 400 400
begin
fact low $(agent wander 3 200)
sizes 400 400 1024 1024
again
fact high $(agent wander 0 200)
start_hogs 4
tell_busy_ticks
stop INT
";

/// The ticks of user time that each of four CPUs has of the next second; the hogs end
/// with it.
pub const BUSY_TICKS: &str = "\
tell_busy_ticks() {
	grep '^cpu[0-9]' /proc/stat >/tmp/before
	usleep 1000000
	grep '^cpu[0-9]' /proc/stat >/tmp/after
	kill $hogs
	for cpu in 0 1 2 3; do
		set -- $(grep -h ^cpu$cpu /tmp/before /tmp/after)
		fact busy_ticks $((${13} - $2))
	done
}
";

/// A second has so many ticks of user time, all CPUs together: they share it.
const BUSY_TICKS_MIN: u64 = 10;

/// Check what `tell_busy_ticks` told: each of the four CPUs was used.
pub fn check_busy(told: &Told) -> Result<()> {
    let ticks: Vec<u64> = told.all("busy_ticks")?;
    println!("ticks of a hog for each CPU: {ticks:?}");
    told.check_eq("CPUs", ticks.len(), 4)?;
    told.check(ticks.iter().all(|ticks| *ticks >= BUSY_TICKS_MIN), || {
        format!("with four hogs a CPU was not used: {ticks:?}")
    })
}

/// Least share of rounds on the cores of a size, in percent: something else may be there
/// for a moment.
const BIG_PCT_MIN: u64 = 90;

/// Check that the answer told as `key` is of a task that was on CPUs `of`.
pub fn check_share(told: &Told, key: &str, of: &[usize]) -> Result<()> {
    let answer: String = told.one(key)?;
    let rounds: Result<Vec<u64>, _> = answer.split(' ').map(str::parse).collect();
    let rounds = rounds?;
    println!("{key} {of:?}: rounds on each CPU {rounds:?}");
    let nr_there: u64 = of.iter().map(|cpu| rounds[*cpu]).sum();
    let nr: u64 = rounds.iter().sum();
    told.check(nr_there * 100 >= nr * BIG_PCT_MIN, || {
        format!("{nr_there} of {nr} rounds were on CPUs {of:?}")
    })
}

fn sizes(kernel: &Kernel) -> Result<()> {
    let told = OURS
        .flat(kernel, 4)?
        .run(&format!("{FAKE}{BUSY_TICKS}{SIZES}"))?;
    check_share(&told, "low", &[0, 1])?;
    check_share(&told, "high", &[2, 3])?;
    check_busy(&told)?;
    told.check_stops()
}

figure!(a_light_load_runs_on_the_big_cores, sizes);

/// A hog on one CPU, and a task that slept there, or beside it, when it could go elsewhere.
/// Each round begins there: another task that is elsewhere once would keep it away.
const DISPLACED: &str = "\
begin
taskset $HOG guest-hog &
hogs=$!
fact rounds $(agent displaced $FROM 200)
kill $hogs
stop INT
";

/// Run `DISPLACED` on `topology`: the hog on the CPU of mask `hog`, the task from CPU
/// `from` on, which then is on CPUs `of`.
fn goes_elsewhere(
    kernel: &Kernel,
    topology: &str,
    hog: &str,
    from: usize,
    of: &[usize],
) -> Result<()> {
    let told = OURS
        .world(kernel, topology)?
        .with_program("taskset")?
        .run(&format!("HOG={hog}\nFROM={from}\n{DISPLACED}"))?;
    check_share(&told, "rounds", of)?;
    told.check_stops()
}

// Two cores of two threads.
figure!(
    a_whole_core_is_better_than_the_last_cpu_beside_a_busy_thread,
    |kernel| goes_elsewhere(kernel, "1x1x2x2", "2", 0, &[2, 3])
);

// Two nodes of two domains of one CPU each.
figure!(a_cpu_of_the_node_is_better_than_one_of_another, |kernel| {
    goes_elsewhere(kernel, "2x2x1x1", "8", 3, &[2])
});

/// Two L2 domains of four CPUs each. Eight of the sleepers are latency critical, the
/// others, that work for longer, interactive.
const L2_DOMAINS: &str = "\
for cpu in 0 1 2 3 4 5 6 7; do
	fake cpu$cpu/cache/index2/id $((cpu / 4))
	fake cpu$cpu/cache/index2/shared_cpu_list $((cpu / 4 * 4))-$((cpu / 4 * 4 + 3))
done
mount --bind /tmp/cpus $CPUS
begin --affinity off
fact off \"$(agent sleepers 1 0 8*700 4*6000)\"
again --affinity weak
fact weak \"$(agent sleepers 1 0 8*700 4*6000)\"
stop INT
";

/// The shares of hits. With the choice half of the misses are gone at least. The
/// sleepers are of these two tiers; of batch work there are a few wakeups at most.
const L2_HITS: &[&str] = &["lat_critical_l2_hit_pct", "interactive_l2_hit_pct"];

fn l2_hits(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, 8)?.run(&format!("{FAKE}{L2_DOMAINS}"))?;
    let (off, weak): (Value, Value) = (told.one("off")?, told.one("weak")?);
    for key in L2_HITS {
        let pct = |mode: &Value| mode[key].as_f64().with_context(|| format!("no {key}"));
        let (off, weak) = (pct(&off)?, pct(&weak)?);
        println!("{key}: off {off:.1}, weak {weak:.1}");
        // 0 stands for no wakeups at all.
        told.check(off > 0.0 && weak <= 100.0, || {
            format!("{key} is {off} and {weak}")
        })?;
        told.check((100.0 - weak) * 2.0 <= 100.0 - off, || {
            format!("a better choice gained {:.1}% of {key}", weak - off)
        })?;
    }
    told.check_stops()
}

figure!(a_task_stays_in_its_l2_domain, l2_hits);

/// The sleepers are niced down: what is latency critical goes anywhere in any mode.
/// Two LLC domains, of CPUs 0 and 1 and of 2 and 3.
const LLC_TOPOLOGY: &str = "1x2x2x1";

const LLCS: &str = "\
for mode in weak strong; do
	begin --affinity $mode
	fact sleepers_$mode \"$(agent sleepers 1 5 6*700)\"
	fact leavers_$mode $(agent leavers 50 2)
	stop INT
done
";

/// The least number of moves of the sleepers with `weak`; fewer could not be halved.
const NR_MOVES_MIN: u64 = 20;

/// How long a task keeps to its LLC, in us; what else may pass until it runs: it
/// is woken by a timer, another CPU by an interrupt, and looks.
const LLC_WAIT_US: u64 = 500;
const SLACK_US: u64 = 500;

fn llcs(kernel: &Kernel) -> Result<()> {
    let told = OURS.world(kernel, LLC_TOPOLOGY)?.run(LLCS)?;
    let mut nr_moves = Vec::new();
    let mut waits = Vec::new();
    for mode in ["weak", "strong"] {
        let sleepers: Value = told.one(&format!("sleepers_{mode}"))?;
        let nr = sleepers["nr_migrate_llc"].as_u64().context("no moves")?;
        println!(
            "{mode}: moves to another LLC {nr}, in all {}, worst wait {} us",
            sleepers["nr_migrate"], sleepers["max_wait_us"]
        );
        nr_moves.push(nr);
        let [median, most] = told.numbers(&format!("leavers_{mode}"))?;
        println!("{mode}: a task that has to leave waits {median}, at most {most} us");
        waits.push((median, most));
    }
    told.check(nr_moves[0] >= NR_MOVES_MIN, || {
        format!(
            "only {} moves to another LLC without a reason to stay",
            nr_moves[0]
        )
    })?;
    told.check(nr_moves[1] * 2 <= nr_moves[0], || {
        format!("moves to another LLC: weak and strong {nr_moves:?}")
    })?;
    told.check(waits[0].1 < LLC_WAIT_US, || {
        format!("weak, and yet a task waited {} us", waits[0].1)
    })?;
    // Now and then a CPU of its own takes it before that.
    told.check(waits[1].0 >= LLC_WAIT_US, || {
        format!("strong, and yet a task left after {} us", waits[1].0)
    })?;
    told.check(waits[1].1 <= LLC_WAIT_US + SLACK_US, || {
        format!("a task waited {} us for its LLC", waits[1].1)
    })?;
    told.check_stops()
}

figure!(strong_affinity_is_a_bounded_wait_for_the_llc, llcs);

#[test]
fn an_unknown_affinity_is_refused_with_the_choices() -> Result<()> {
    let output = Command::new(OURS.program())
        .args(["--affinity", "sideways"])
        .output()?;
    ensure!(output.status.code() == Some(2), "{}", output.status);
    let why = String::from_utf8(output.stderr)?;
    for choice in ["off", "weak", "strong"] {
        ensure!(why.contains(choice), "{choice} is not named: {why}");
    }
    Ok(())
}
