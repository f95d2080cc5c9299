// SPDX-License-Identifier: GPL-2.0
//! CPUs that really run at the same time: the callbacks of two of them meet at every
//! instruction, which no clock that counts instructions shows.
//!
//! `SCX_RACES_SECONDS=1800 cargo test --release races::` goes on for half an hour.
//!
//! - `unrest SECONDS NR_CPUS SEED`: every ms one thing happens to a thread of a load: it
//!   gets another nice level, class or affinity, its process another cgroup, or a cgroup
//!   another weight, `cpu.idle` or `cpu.max`, or it is frozen for a moment. The answer:
//!   how often the kernel did each.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use scx_guest::Topology;

use crate::ours::OURS;
use crate::support::number_of_env;
use crate::support::work::{set_affinity, set_policy};
use crate::support::world::seed;

/// How long, by the guest's clock, which is that of the host.
const SECONDS_ENV: &str = "SCX_RACES_SECONDS";
const SECONDS_DFL: u32 = 10;

/// The machine, as `1x2x4x1`.
const TOPOLOGY_ENV: &str = "SCX_RACES_TOPOLOGY";
/// Two LLC domains. More CPUs than small hosts have: one is stopped by the host in the
/// middle of anything.
const TOPOLOGY_DFL: Topology = Topology::new(1, 2, 2, 1);

const ROOT: &str = "/sys/fs/cgroup";
const GROUPS: &[&str] = &["race_a", "race_b", "race_c/d", "race_c/e"];

/// Processes that are left alone: what runs the test.
const SPARED: &[&str] = &["init", "sh", "scx_pandemonium", "stress-ng"];

const STEP: Duration = Duration::from_millis(1);
/// How long a thread is real-time work, and a cgroup frozen.
const MOMENT: Duration = Duration::from_millis(2);

/// What happens in a step.
const KINDS: &[&str] = &[
    "nice",
    "class",
    "real_time",
    "affinity",
    "cgroup",
    "weight",
    "idle",
    "max",
    "freeze",
];

/// How long CPUs of one domain go and come back without a pause after that.
const COMING_SECONDS: u32 = 10;

/// The watchdog goes by the host's time, which other guests have a part of. CPUs go
/// and come back once all workers of the load have begun. Beside less load a domain then
/// does so again and again: the thread that brings up a CPU shares it with nothing. That
/// load is in a cpuset whose CPUs change; in a partition Linux 6.18 would die of that. At
/// last the machine is suspended to memory beside a load, and woken by its clock.
const SCRIPT: &str = "\
export SCX_TIMEOUT_MS=10000
echo +cpu +cpuset >/sys/fs/cgroup/cgroup.subtree_control
begin
agent load $SECONDS $NR_CPUS churn >/tmp/load &
load=$!
stress-ng -t $SECONDS --aggressive -M -c $NR_CPUS --cpu-method int64 -f $NR_CPUS \\
	--affinity 1 --affinity-delay 1 --affinity-pin --futex 2 --switch 2 \\
	--ptrace 1 --vfork 1 >/tmp/stress 2>&1 &
stress=$!
agent unrest $SECONDS $NR_CPUS $SEED >/tmp/unrest &
unrest=$!
nr_workers() {
	grep -l agent:: /proc/[0-9]*/task/*/comm 2>/dev/null | wc -l
}
while is_running $load && [ $(nr_workers) -lt $((8 * NR_CPUS)) ]; do
	usleep 100000
done
nr_cycles=0
while is_running $load; do
	cycle_cpus
	nr_cycles=$((nr_cycles + 1))
done
wait $unrest || give_up 'the unrest failed'
wait $load || give_up 'the load failed'
wait $stress
fact stress_code $?
cpuset=/sys/fs/cgroup/cpuset
mkdir $cpuset
(echo 0 >$cpuset/cgroup.procs; exec stress-ng -t $COMING_SECONDS -f 2 \\
	--affinity 2 --affinity-delay 1 --futex 1 --switch 1) >/tmp/stress 2>&1 &
stress=$!
nr_domain_cycles=0
while is_running $stress; do
	first=$((nr_domain_cycles % 2))
	echo $first-$((NR_CPUS / 2 + first)) >$cpuset/cpuset.cpus ||
		give_up 'the cpuset did not change'
	for is_online in 0 1; do
		for i in $(seq $((NR_CPUS / 2)) $((NR_CPUS - 1))); do
			echo $is_online >/sys/devices/system/cpu/cpu$i/online ||
				give_up 'a CPU of the domain did not come or go'
		done
	done
	nr_domain_cycles=$((nr_domain_cycles + 1))
done
fact nr_domain_cycles $nr_domain_cycles
# It sleeps, with all CPUs but the first off, and is woken.
agent load 5 $NR_CPUS >/tmp/load2 &
load=$!
usleep 1000000
echo +2 >/sys/class/rtc/rtc0/wakealarm
echo mem >/sys/power/state || give_up 'the machine did not sleep'
wait $load || give_up 'the load failed while the machine slept'
fact nr_sleeps $(dmesg | grep -c 'Waking up from system sleep state S3')
tell load /tmp/load2
tell unrest /tmp/unrest
tell load /tmp/load
fact nr_cycles $nr_cycles
fact enabled $(cat /sys/kernel/sched_ext/enable_seq)
stop INT
# What it warned of is seen by scx_guest.
dmesg | grep -E '[Ss]tall|sched_ext: .* disabled' >/tmp/kernel
tell kernel /tmp/kernel
";

/// A generator of numbers that look random, after Marsaglia (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// What the words after `unrest` ask for.
pub fn unrest(words: &[&str]) -> Result<String> {
    let [seconds, nr_cpus, seed] = words else {
        anyhow::bail!("unrest SECONDS NR_CPUS SEED");
    };
    let ends_at = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
    let nr_cpus: usize = nr_cpus.parse().context("CPUs")?;
    let mut random = Random(seed.parse::<u64>()? * 2 + 1);
    for group in GROUPS {
        let path = Path::new(ROOT).join(group);
        fs::create_dir_all(&path).with_context(|| format!("making {group}"))?;
        // The parent's children have weights too.
        let parent = path.parent().context("no parent")?;
        fs::write(parent.join("cgroup.subtree_control"), "+cpu")?;
    }
    // It takes CPUs back from threads that it made real-time work: beside such a hog
    // no task of ours runs on the only CPU that is online.
    set_policy(0, libc::SCHED_FIFO, 2)?;
    let mut counts = BTreeMap::new();
    while Instant::now() < ends_at {
        let threads = threads_of_loads()?;
        for _ in 0..threads.len().min(100) {
            let (pid, tid) = threads[random.below(threads.len())];
            let kind = KINDS[random.below(KINDS.len())];
            if happen(kind, pid, tid, nr_cpus, &mut random) {
                *counts.entry(kind).or_insert(0) += 1;
            }
            thread::sleep(STEP);
        }
    }
    for group in GROUPS {
        write(group, "cgroup.freeze", "0");
    }
    let lines = KINDS
        .iter()
        .map(|kind| format!("{kind} {}", counts.get(kind).copied().unwrap_or(0)));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Process and thread ids of what may be changed.
fn threads_of_loads() -> Result<Vec<(i32, i32)>> {
    let ours = std::process::id();
    let mut threads = Vec::new();
    for entry in fs::read_dir("/proc").context("reading /proc")?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // Kernel threads run no program; a process may end at any time.
        let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if fs::read_link(entry.path().join("exe")).is_err()
            || pid == ours as i32
            || SPARED.contains(&comm.trim_end())
        {
            continue;
        }
        let tasks = fs::read_dir(entry.path().join("task"));
        let tids = tasks.into_iter().flatten().flatten();
        let tids = tids.filter_map(|task| task.file_name().to_str()?.parse().ok());
        threads.extend(tids.map(|tid: i32| (pid, tid)));
    }
    Ok(threads)
}

/// Write `text` into a file of a cgroup. Returns whether the kernel took it.
fn write(group: &str, file: &str, text: &str) -> bool {
    fs::write(Path::new(ROOT).join(group).join(file), text).is_ok()
}

/// Let `kind` happen. Returns whether the kernel did it: the thread may be gone, its
/// affinity on CPUs that are offline.
fn happen(kind: &str, pid: i32, tid: i32, nr_cpus: usize, random: &mut Random) -> bool {
    let group = GROUPS[random.below(GROUPS.len())];
    let set_class = |class, priority| set_policy(tid, class, priority).is_ok();
    match kind {
        "nice" => {
            let nice = random.below(40) as i32 - 20;
            // SAFETY: takes and gives numbers.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, tid as u32, nice) == 0 }
        }
        "class" => {
            let classes = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE];
            set_class(classes[random.below(classes.len())], 0)
        }
        "real_time" => {
            // A child that it makes meanwhile would be real-time work for good: where it
            // keeps to the CPU of a reader of RCU, no CPU can go offline any more.
            let done = set_class(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1);
            thread::sleep(MOMENT);
            done & set_class(libc::SCHED_OTHER, 0)
        }
        "affinity" => {
            let mask = 1 + random.below((1 << nr_cpus) - 1) as u64;
            set_affinity(tid, mask).is_ok()
        }
        "cgroup" => write(group, "cgroup.procs", &pid.to_string()),
        "weight" => write(group, "cpu.weight", &(1 + random.below(10_000)).to_string()),
        "idle" => write(group, "cpu.idle", &random.below(2).to_string()),
        "max" => {
            let maxima = ["max", "20000 100000", "150000 100000"];
            write(group, "cpu.max", maxima[random.below(maxima.len())])
        }
        _ => {
            let done = write(group, "cgroup.freeze", "1");
            thread::sleep(MOMENT);
            done & write(group, "cgroup.freeze", "0")
        }
    }
}

invariant!(callbacks_that_run_at_the_same_time_lose_no_task, |kernel| {
    let seconds = number_of_env(SECONDS_ENV, SECONDS_DFL)?;
    let topology = number_of_env(TOPOLOGY_ENV, TOPOLOGY_DFL)?;
    let seed = seed()?;
    let told = OURS
        .world(kernel, &topology.to_string())?
        .with_program("stress-ng")?
        .with_more_time(Duration::from_secs(1) * (seconds + COMING_SECONDS))
        .in_parallel()
        .run(&format!(
            "SECONDS={seconds}\nCOMING_SECONDS={COMING_SECONDS}\nSEED={seed}\n{SCRIPT}"
        ))?;

    for kind in told.all::<String>("unrest")? {
        println!("unrest: {kind}");
        told.check(!kind.ends_with(" 0"), || format!("no {kind}"))?;
    }
    println!("{} cycles of CPUs", told.one::<u64>("nr_cycles")?);
    let nr_cycles: u64 = told.one("nr_domain_cycles")?;
    println!("{nr_cycles} cycles of a domain");
    told.check(nr_cycles > 0, || "no domain came and went".to_owned())?;
    told.check_eq("exit code of stress-ng", told.one("stress_code")?, 0)?;
    told.check_eq("sleeps of the machine", told.one("nr_sleeps")?, 1)?;
    // Attached once: it did not leave and come back either.
    told.check_eq("schedulers enabled", told.one("enabled")?, 1)?;
    for line in told.all::<String>("load")? {
        println!("load: {line}");
    }
    told.check_kernel_said_no_more()
});
