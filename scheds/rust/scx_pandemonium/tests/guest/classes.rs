// SPDX-License-Identifier: GPL-2.0
//! What other scheduling classes do to our tasks: they take CPUs from them, and
//! tasks move to them.
//!
//! - `intruded HOW ROUNDS`: a hog has CPU 0. In each round batch work on CPU 1 is
//!   followed by real-time work of 40 ms. That `arrives` when the CPU has gone idle,
//!   `coincides` with a wakeup then, or the batch work `becomes` it. Beside them a task wakes every 2 ms that may run
//!   on both. The answer: the median and the longest of its waits, in us.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::stats::Found;
use crate::support::told::Told;
use crate::support::work::{
    hog, join, set_affinity, set_real_time, sleep_until, spawn, spin_until,
};

/// Tasks that become real-time while they wait behind a hog, and die as such. The
/// kernel calls ops.disable() for each, nothing else. The script stays out of
/// their way.
///
/// The hog has ended before the scheduler is stopped. Linux 6.12 forgets to balance a
/// CPU whose last real-time task blocks, and ignores kicks while it takes a scheduler
/// out: a pinned task that was preempted there waits for the next wakeup on that CPU,
/// half a second here, and the kernel's grace period with it.
const NR_LEAVERS: u32 = 5;

/// How often a hog for which no task waits may go on with another slice in a
/// second: half as often as if each were of 1 ms.
const KEPT_MAX: u64 = 500;

const LEAVERS_SCRIPT: &str = "\
begin
taskset -p 1 $$ >/dev/null
taskset 2 guest-hog &
hog=$!
for i in $(seq $NR_LEAVERS); do
	taskset 2 guest-hog &
	leavers=\"$leavers $!\"
done
usleep 300000
for leaver in $leavers; do
	chrt -f -p 1 $leaver || give_up 'no real-time class'
	usleep 20000
	kill -KILL $leaver
done
usleep 100000
fact stats $(agent stats-of-ms 1000)
kill -KILL $hog
wait $hog
stop INT
";

fn check_leavers(told: &Told) -> Result<()> {
    let found = told.one("stats")?;
    let nr_kept = Found { told, found }.count("nr_keep_running")?;
    println!("the hog went on {nr_kept} times");
    told.check(nr_kept <= KEPT_MAX, || {
        format!("a hog that is alone went on {nr_kept} times in a second, as if a task waited")
    })
}

/// How often real-time work takes the CPU on which a hog runs, for 200 ms.
const NR_INTRUSIONS: u32 = 5;

/// The least CPU time that the hog may use of each 200 ms, in clock ticks of
/// 10 ms: it shares the other CPU with no task.
const TICKS_MIN: u64 = 15;

/// The 14th field of `stat` is the time in user mode, the 39th the CPU. The script
/// stays on the other CPU: it ends the intrusion.
const INTRUSIONS_SCRIPT: &str = "\
look() {
	set -- $(cat /proc/$hog/stat)
	ticks=${14} cpu=${39}
}
begin
taskset -p 3 $$ >/dev/null
guest-hog &
hog=$!
usleep 100000
for i in $(seq $NR_INTRUSIONS); do
	look
	taskset -p $((2 >> cpu)) $$ >/dev/null
	chrt -f 1 taskset $((1 << cpu)) guest-hog &
	intruder=$!
	before=$ticks
	usleep 200000
	look
	fact ticks $((ticks - before))
	kill -KILL $intruder
	usleep 20000
done
kill -KILL $hog
wait $hog
stop INT
";

fn check_interrupted(told: &Told) -> Result<()> {
    let ticks: Vec<u64> = told.all("ticks")?;
    println!("the hog used {ticks:?} ticks of 20");
    told.check_eq("intrusions", ticks.len(), NR_INTRUSIONS as usize)?;
    told.check(ticks.iter().all(|&ticks| ticks >= TICKS_MIN), || {
        format!("a hog whose CPU was taken used {ticks:?} ticks of 20 on the other one")
    })
}

/// A waiting task that leaves its class is waited for no more, and one that loses its
/// CPU to real-time work goes on elsewhere.
fn other_classes_cost_no_task_its_cpu(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, 2)?.with_program("chrt")?.run(&format!(
        "NR_LEAVERS={NR_LEAVERS}\nNR_INTRUSIONS={NR_INTRUSIONS}\n\
         {LEAVERS_SCRIPT}{INTRUSIONS_SCRIPT}"
    ))?;
    check_leavers(&told)?;
    check_interrupted(&told)?;
    told.check_stops()
}

figure!(
    real_time_work_and_tasks_that_become_it_cost_no_other_its_cpu,
    [lts, oldest, newest],
    other_classes_cost_no_task_its_cpu
);

/// A round: batch work, a moment in which the CPU is idle, real-time work.
const ROUND: Duration = Duration::from_millis(100);
const BATCH_WORK: Duration = Duration::from_millis(40);
const IDLE: Duration = Duration::from_micros(200);
const INTRUSION: Duration = Duration::from_millis(40);

/// From one wakeup of the task that is looked at to the next. They fall half a period
/// off all that begins and ends here: before Linux 7.1 real-time work that takes an idle
/// CPU in the same moment as a wakeup does keeps that waiting, and the kernel does not say
/// so.
const PERIOD: Duration = Duration::from_millis(2);

/// Until it is more than a new task.
const NR_FIRST_WAKEUPS: u32 = 4;

/// The longest time that it may wait, in us: it is owed the CPU of the hog.
const INTRUDED_MAX_US: u64 = 4_000;

const INTRUDED_SCRIPT: &str = "\
begin
for how in arrives becomes; do
	fact intruded $how $(agent intruded $how 3)
done
stop INT
";

/// Sleep until `begins_at`, then use a CPU for `length`, by the clock.
fn spin(begins_at: Instant, length: Duration) {
    sleep_until(begins_at);
    spin_until(begins_at + length);
}

/// The request of that name.
pub fn intruded(words: &[&str]) -> Result<String> {
    let [how @ ("arrives" | "coincides" | "becomes"), nr_rounds] = words else {
        bail!("intruded HOW ROUNDS");
    };
    let (becomes, coincides) = (*how == "becomes", *how == "coincides");
    let nr_rounds: u32 = nr_rounds.parse()?;
    // A task that woke fewer than two times is batch work yet, and waits for a turn.
    (0..NR_FIRST_WAKEUPS).for_each(|_| std::thread::sleep(PERIOD));
    let is_over = Arc::new(AtomicBool::new(false));
    let begun = Instant::now() + ROUND;
    let hog_is_over = Arc::clone(&is_over);
    let hog = spawn("hog", move || {
        set_affinity(0, 1)?;
        hog(&hog_is_over);
        Ok(())
    })?;
    let batch = spawn("batch", move || {
        set_affinity(0, 2)?;
        for round in 0..nr_rounds {
            let begins_at = begun + ROUND * round;
            if becomes {
                // Without a pause, so that it is owed nothing.
                spin_until(begins_at + BATCH_WORK);
                set_real_time(true)?;
                spin_until(begins_at + BATCH_WORK + INTRUSION);
                set_real_time(false)?;
            } else {
                spin(begins_at, BATCH_WORK);
            }
        }
        Ok(())
    })?;
    let intruder = spawn("intruder", move || {
        set_affinity(0, 2)?;
        set_real_time(true)?;
        for round in (0..nr_rounds).filter(|_| !becomes) {
            spin(begun + ROUND * round + BATCH_WORK + IDLE, INTRUSION);
        }
        Ok(())
    })?;
    let mut waits_us = Vec::new();
    // Batch work lasts for a number of whole periods.
    let mut wakes_at = begun + if coincides { IDLE } else { PERIOD / 2 };
    for round in 0..nr_rounds {
        let ends_at = begun + ROUND * (round + 1);
        // The CPU that will be taken is the one that it looks at first.
        sleep_until(begun + ROUND * round);
        set_affinity(0, 2)?;
        set_affinity(0, 3)?;
        while wakes_at < ends_at {
            wakes_at += PERIOD;
            if wakes_at < Instant::now() {
                continue;
            }
            sleep_until(wakes_at);
            waits_us.push(wakes_at.elapsed().as_micros() as u64);
        }
    }
    is_over.store(true, Ordering::Relaxed);
    [hog, batch, intruder].into_iter().try_for_each(join)?;
    waits_us.sort_unstable();
    let most = waits_us.last().context("no wait")?;
    Ok(format!("{} {most}", waits_us[waits_us.len() / 2]))
}

fn wakeups_avoid_real_time_work(kernel: &Kernel) -> Result<()> {
    check_intruded(&OURS.flat(kernel, 2)?.run(INTRUDED_SCRIPT)?, 2)
}

/// Checks the waits that were told of `nr` kinds of real-time work.
fn check_intruded(told: &Told, nr: usize) -> Result<()> {
    let all: Vec<String> = told.all("intruded")?;
    println!("waits beside real-time work, median and most in us: {all:?}");
    told.check_eq("kinds of real-time work", all.len(), nr)?;
    for waits in &all {
        let most: u64 = waits.split(' ').nth(2).context("no longest")?.parse()?;
        told.check(most <= INTRUDED_MAX_US, || {
            format!("a wakeup waited {most} us for a CPU that real-time work has: {waits}")
        })?;
    }
    told.check_stops()
}

figure!(
    no_wakeup_is_put_behind_real_time_work,
    [lts, oldest],
    wakeups_avoid_real_time_work
);

/// Where the kernel has SCX_ENQ_IMMED a wakeup in the very moment of real-time work comes
/// back from the CPU that this takes.
const NEWEST_SCRIPT: &str = "\
begin
for how in arrives becomes; do
	fact intruded $how $(agent intruded $how 3)
done
agent stats-of-ms 700 >/tmp/stats &
stats=$!
fact intruded coincides $(agent intruded coincides 3)
wait $stats
fact stats $(cat /tmp/stats)
fact masks $(grep -c 'interrupts set 0x' $LOG)
stop INT
fact deprecated $(dmesg | grep -c deprecated)
";

figure!(no_wakeup_stays_with_real_time_work, [newest], |kernel| {
    let told = OURS.flat(kernel, 2)?.run(NEWEST_SCRIPT)?;
    check_intruded(&told, 3)?;
    told.check_eq("masks of interrupts found", told.one("masks")?, 1)?;
    let found = told.one("stats")?;
    let nr_returned = Found { told: &told, found }.count("nr_enq_return")?;
    println!("{nr_returned} tasks came back");
    told.check(nr_returned > 0, || {
        "no task came back from a CPU that was taken".into()
    })?;
    told.check_eq("warnings of the kernel", told.one("deprecated")?, 0)
});
