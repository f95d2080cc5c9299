// SPDX-License-Identifier: GPL-2.0
//! No task that can run waits long, whatever else wants the CPUs.
//!
//! - `kernel-thread SECONDS`: CPU 0 has hogs and receives what all others send over the
//!   loopback device, for longer than batch work runs and more than it can: the rest
//!   is work of its `ksoftirqd`. The answer: how often that woke, how often it had to
//!   wait for long, and its longest wait in us.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::crowd;
use crate::support::trace::WaitTrace;
use crate::support::work::{hog, join, set_affinity, spawn};

const NR_CPUS: u32 = 4;

/// Pinned batch work of two kinds on each CPU, and what all CPUs share.
const PINNED_SCRIPT: &str = "\
begin
groups=
for cpu in $(seq 0 $((NR_CPUS - 1))); do
	groups=\"$groups hog*1@$cpu builder*1@$cpu\"
done
crowd pinned 3 $groups
crowd mixed 3 $groups hog*$((3 * NR_CPUS))
stop INT
";

/// Sleepers that all have the most credit there is, and wake at once.
const FLOOD_SCRIPT: &str = "\
begin
crowd flood 3 wave*$((12 * NR_CPUS)) hog*$NR_CPUS
stop INT
";

/// Weights as far apart as they can be: alone a task of the least would have its
/// turn after minutes.
const STARVED_SCRIPT: &str = "\
begin
crowd starved 3 hog*40^-20 hog*1^idle
stop INT
";

/// The same, and every 0.1 s the one of the least gets another nice level, for which the
/// kernel queues it anew.
const CHANGED_SCRIPT: &str = "\
begin
cat >/tmp/change <<'end'
i=0
while :; do
	i=$((1 - i))
	for task in /proc/[0-9]*/task/[0-9]*; do
		read -r words <$task/stat || continue
		set -- ${words##*) }
		[ ${39} = 5 ] && renice -n $i -p ${task##*/} && echo ${task##*/} >>/tmp/changed
	done
	usleep 100000
done
end
chrt -f 1 sh /tmp/change >/dev/null 2>/tmp/err &
change=$!
crowd starved 4 hog*40^-20 hog*1^idle
kill $change; cat /tmp/err
fact nr_changed $(wc -l </tmp/changed)
stop INT
";

/// Each of them reaches all tasks that wait; without any the test says nothing.
const CHANGED_MIN: u32 = 10;

/// The same where two pairs of the most weight hand the CPUs to each other and no
/// CPU looks at a queue by itself.
const STARVED_BY_PAIRS_SCRIPT: &str = "\
begin
crowd starved 3 pipe*2^-20 hog*2^idle
stop INT
";

/// The network of a guest is down until it is asked for.
const KERNEL_THREAD_SCRIPT: &str = "\
begin
ifconfig lo up
fact waits $(agent kernel-thread 2)
stop INT
";

/// Which CPUs receive what is sent over the loopback device.
const RECEIVING_CPUS: &str = "/sys/class/net/lo/queues/rx-0/rps_cpus";

/// How long the senders send, and how long they pause then.
const WAVE: Duration = Duration::from_millis(25);
const WAVE_PAUSE: Duration = Duration::from_millis(5);

/// Where the kernel thread is.
const NR_HOGS: usize = 2;

/// The kernel thread woke at least so often, or the test says nothing.
const NR_WAITS_MIN: u64 = 50;

/// The end of a least slice of what runs there, 1 ms, may be put off by interrupts of
/// half a millisecond. One in twenty waits may be longer than that: interrupts come
/// again, and other kernel threads have work too.
const LATE_US: u64 = 1_600;
const NR_WAITS_FOR_ONE_LATE: u64 = 20;

/// What is promised to a task whatever its weight.
pub const STARVED_MAX: Duration = Duration::from_secs(2);

/// What is promised to any task that has had less than its share.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The request of that name.
pub fn kernel_thread(words: &[&str]) -> Result<String> {
    let [seconds] = words else {
        bail!("kernel-thread SECONDS");
    };
    fs::write(RECEIVING_CPUS, "1").context("receiving on CPU 0")?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("a socket")?;
    let address = socket.local_addr()?;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for _ in 0..NR_HOGS {
        let until_over = Arc::clone(&is_over);
        threads.push(spawn("hog", move || {
            set_affinity(0, 1)?;
            hog(&until_over);
            Ok(())
        })?);
    }
    for cpu in 1..NR_CPUS {
        let until_over = Arc::clone(&is_over);
        threads.push(spawn("sender", move || {
            set_affinity(0, 1 << cpu)?;
            send_in_waves(address, &until_over)
        })?);
    }
    let trace = WaitTrace::begin("ksoftirqd/0")?;
    sleep(Duration::from_secs_f64(seconds.parse()?));
    let waits_us = trace.end()?;
    is_over.store(true, Ordering::Relaxed);
    threads.into_iter().try_for_each(join)?;
    let nr_late = waits_us.iter().filter(|&&us| us > LATE_US).count();
    let most_us = waits_us.last().copied().unwrap_or_default();
    Ok(format!("{} {nr_late} {most_us}", waits_us.len()))
}

/// Send at the same time as the others, then pause as they do.
fn send_in_waves(address: SocketAddr, is_over: &AtomicBool) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("a socket")?;
    while !is_over.load(Ordering::Relaxed) {
        let ends_at = Instant::now() + WAVE;
        while Instant::now() < ends_at {
            socket.send_to(&[0; 16], address).context("sending")?;
        }
        sleep(WAVE_PAUSE);
    }
    Ok(())
}

fn waits(kernel: &Kernel, script: &str, crowds: &[&str]) -> Result<()> {
    let told = OURS.flat(kernel, NR_CPUS)?.run(script)?;
    for name in crowds {
        crowd::check(&told, name, WAIT_MAX)?;
    }
    told.check_stops()
}

fn no_weight_starves(kernel: &Kernel, nr_cpus: u32, script: &str) -> Result<()> {
    let told = OURS.flat(kernel, nr_cpus)?.run(script)?;
    crowd::check(&told, "starved", STARVED_MAX)?;
    told.check_stops()
}

figure!(no_task_is_starved_by_weights, |kernel| no_weight_starves(
    kernel,
    1,
    STARVED_SCRIPT
));

figure!(no_task_is_starved_while_its_nice_level_changes, |kernel| {
    let told = OURS
        .flat(kernel, 1)?
        .with_program("chrt")?
        .run(CHANGED_SCRIPT)?;
    let nr_changed: u32 = told.one("nr_changed")?;
    println!("changes: {nr_changed}");
    told.check(nr_changed >= CHANGED_MIN, || {
        format!("{nr_changed} changes make no difference")
    })?;
    crowd::check(&told, "starved", STARVED_MAX)?;
    told.check_stops()
});

figure!(
    no_task_is_starved_by_pairs_that_hand_the_cpus_over,
    |kernel| no_weight_starves(kernel, 2, STARVED_BY_PAIRS_SCRIPT)
);

figure!(pinned_batch_work_does_not_wait_long, |kernel| waits(
    kernel,
    PINNED_SCRIPT,
    &["pinned", "mixed"]
));

figure!(
    a_flood_of_credit_does_not_make_batch_work_wait_long,
    [lts, oldest],
    |kernel| waits(kernel, FLOOD_SCRIPT, &["flood"])
);

fn kernel_threads_do_not_wait(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, NR_CPUS)?.run(KERNEL_THREAD_SCRIPT)?;
    let [nr_waits, nr_late, longest_us] = told.numbers("waits")?;
    println!("ksoftirqd: {nr_waits} waits, {nr_late} late, longest {longest_us} us");
    told.check(nr_waits >= NR_WAITS_MIN, || {
        format!("{nr_waits} waits show nothing")
    })?;
    told.check(nr_late * NR_WAITS_FOR_ONE_LATE <= nr_waits, || {
        format!("of {nr_waits} waits of a kernel thread {nr_late} were long")
    })?;
    told.check_stops()
}

figure!(
    a_kernel_thread_does_not_wait_for_batch_work,
    [lts, oldest],
    kernel_threads_do_not_wait
);
