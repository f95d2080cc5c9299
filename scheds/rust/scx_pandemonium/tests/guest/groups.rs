// SPDX-License-Identifier: GPL-2.0
//! What a cgroup entitles its tasks to, and what becomes of the scheduler when
//! cgroups come and go.
//!
//! - `groups SECONDS`: 2,500 cgroups on two levels; meanwhile 200 a second are
//!   made and removed, and hogs are moved between them, and weights written,
//!   1,000 times a second. Then 500 hogs in them are killed at once, all cgroups are
//!   removed, and as many more are made and removed, one after the other, as the
//!   scheduler can keep at a time. The answer: how many were made, how often a hog
//!   was moved, and how many were killed so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use scx_guest::Kernel;
use serde_json::Value;

use crate::ours::OURS;
use crate::share::{bench, metric};
use crate::support::crowd;
use crate::support::told::Told;

const ROOT: &str = "/sys/fs/cgroup";
const NR_OUTER: usize = 50;
const NR_INNER: usize = 50;
const NR_HOGS: usize = 8;
/// With those that are killed at once.
const NR_HOGS_KILLED: usize = 500;
const MOVE_INTERVAL: Duration = Duration::from_millis(1);
/// One of so many moves makes and removes a cgroup as well.
const MOVES_FOR_ONE_MADE: usize = 5;
/// As many as the scheduler can keep, `MAX_GROUPS`, and some more.
const NR_AFTERWARDS: usize = 8_400;
const REMOVE_ATTEMPTS: usize = 1_000;

const TOPOLOGY: &str = "1x1x4x1";

const WEIGHTS: &str = "cg_weights,cg_nested,cg_live --seconds 4";

/// Two LLC domains: tasks of a cgroup are in both, and move.
const TWO_LLCS: &str = "1x2x2x1";

/// CPU time of two cgroups with as many hogs while one of them is idle, then after
/// that one was written to be no more, and its weight to be as before, of which the
/// kernel says nothing; then while the other is idle, in us. A third has a
/// limit: how often that was said in the log.
const IDLE_SCRIPT: &str = "\
cd /sys/fs/cgroup
echo +cpu > cgroup.subtree_control
mkdir a b c
echo 300 > a/cpu.weight
echo 1 > a/cpu.idle
echo '50000 100000' > c/cpu.max
for group in a a a a b b b b; do
	(echo 0 > $group/cgroup.procs; exec guest-hog) &
	hogs=\"$hogs $!\"
done
used() {
	awk '/^usage_usec/ { print $2 }' $1/cpu.stat
}
look() {
	a=$(used a) b=$(used b)
	usleep 1000000
	fact a $(($(used a) - a))
	fact b $(($(used b) - b))
}
# Before 6.19 the kernel does not tell of it, and the loader looks every two seconds.
case $(uname -r) in
6.1[0-8].*) delay=2300000 ;;
*) delay=50000 ;;
esac
begin
usleep 2300000
look
fact limits $(grep -c 'cpu.max is not honoured: that of /c limits' $LOG)
echo 0 > a/cpu.idle
usleep $delay
echo 300 > a/cpu.weight
usleep 2300000
look
usleep 1000000
echo 1 > b/cpu.idle
usleep $delay
look
kill $hogs
stop INT
";

/// An idle group gets 3 of 1027 parts, as a task of `SCHED_IDLE` does.
const IDLE_RATIO_MIN: f64 = 50.0;

const CHURN: &str = "fact churn $(agent groups 2)\n";

/// Hogs in a group of 300 get three times as much as those in one of 100.
const RATIO: f64 = 3.0;
const RATIO_TOLERANCE: f64 = 0.03;

/// From a write to `cpu.weight` until CPU time is divided accordingly.
const SETTLED_MAX_MS: f64 = 50.0;

/// A cgroup, removed with all that is in it.
struct Group(PathBuf);

impl Group {
    fn new(parent: &Path, name: &str) -> Result<Group> {
        let dir = parent.join(name);
        fs::create_dir(&dir).with_context(|| format!("making {}", dir.display()))?;
        Ok(Group(dir))
    }

    fn give_children_weights(&self) -> Result<()> {
        write(&self.0.join("cgroup.subtree_control"), "+cpu")
    }

    /// A process that just left may keep it for a moment.
    fn remove(self) -> Result<()> {
        for _ in 0..REMOVE_ATTEMPTS {
            if fs::remove_dir(&self.0).is_ok() {
                return Ok(());
            }
            std::thread::sleep(MOVE_INTERVAL);
        }
        fs::remove_dir(&self.0).with_context(|| format!("removing {}", self.0.display()))
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {text} to {}", path.display()))
}

fn hog() -> Result<Child> {
    Command::new("guest-hog").spawn().context("a hog")
}

/// The request of that name.
pub fn churn(words: &[&str]) -> Result<String> {
    let seconds: u64 = words.first().context("groups SECONDS")?.parse()?;
    let root = Path::new(ROOT);
    write(&root.join("cgroup.subtree_control"), "+cpu")?;
    let (mut outer, mut inner) = (Vec::new(), Vec::new());
    for at in 0..NR_OUTER {
        let group = Group::new(root, &format!("outer{at}"))?;
        group.give_children_weights()?;
        for nr in 0..NR_INNER {
            inner.push(Group::new(&group.0, &format!("inner{nr}"))?);
        }
        outer.push(group);
    }

    let mut hogs: Vec<Child> = (0..NR_HOGS).map(|_| hog()).collect::<Result<_>>()?;
    let ends_at = Instant::now() + Duration::from_secs(seconds);
    let mut nr_moves = 0;
    let mut nr_made = inner.len() + outer.len();
    while Instant::now() < ends_at {
        // Steps without a common factor, so that all meet all.
        let group = &inner[nr_moves * 37 % inner.len()];
        let pid = hogs[nr_moves % NR_HOGS].id().to_string();
        write(&group.0.join("cgroup.procs"), &pid)?;
        write(
            &group.0.join("cpu.weight"),
            &(nr_moves % 999 + 1).to_string(),
        )?;
        if nr_moves % MOVES_FOR_ONE_MADE == 0 {
            let parent = &outer[nr_moves % outer.len()];
            Group::new(&parent.0, "brief")?.remove()?;
            nr_made += 1;
        }
        nr_moves += 1;
        std::thread::sleep(MOVE_INTERVAL);
    }
    while hogs.len() < NR_HOGS_KILLED {
        let hog = hog()?;
        let group = &inner[hogs.len() * 37 % inner.len()];
        write(&group.0.join("cgroup.procs"), &hog.id().to_string())?;
        hogs.push(hog);
    }
    for group in &outer {
        write(&group.0.join("cgroup.kill"), "1")?;
    }
    for hog in &mut hogs {
        hog.wait().context("waiting for a hog")?;
    }
    for group in inner.into_iter().chain(outer) {
        group.remove()?;
    }
    for _ in 0..NR_AFTERWARDS {
        Group::new(root, "after")?.remove()?;
        nr_made += 1;
    }
    Ok(format!("{nr_made} {nr_moves} {}", hogs.len()))
}

fn near(told: &Told, scenario: &str, name: &str, due: f64, tolerance: f64) -> Result<()> {
    let value = metric(told, scenario, name)?;
    told.check((value / due - 1.0).abs() <= tolerance, || {
        let bench = told.one::<Value>("bench").unwrap_or_default();
        format!("{scenario} {name} is {value:.3}, not {due:.3} within {tolerance}: {bench}")
    })
}

fn weights(kernel: &Kernel) -> Result<()> {
    let told = bench(kernel, TOPOLOGY, "", WEIGHTS)?;
    near(&told, "cg_weights", "ratio", RATIO, RATIO_TOLERANCE)?;
    near(&told, "cg_nested", "whole", 50.0, RATIO_TOLERANCE)?;
    near(&told, "cg_nested", "lesser", 12.5, RATIO_TOLERANCE)?;
    near(&told, "cg_nested", "greater", 37.5, RATIO_TOLERANCE)?;
    near(&told, "cg_live", "before", 1.0, RATIO_TOLERANCE)?;
    near(&told, "cg_live", "after", RATIO, RATIO_TOLERANCE)?;
    let settled_ms = metric(&told, "cg_live", "settled")?;
    told.check(settled_ms <= SETTLED_MAX_MS, || {
        format!("a weight took {settled_ms} ms to count")
    })?;
    told.check_stops()
}

figure!(cgroups_share_by_weight_through_the_hierarchy, weights);

fn across_domains(kernel: &Kernel) -> Result<()> {
    let told = bench(kernel, TWO_LLCS, "", "cg_weights,cg_nested")?;
    near(&told, "cg_weights", "ratio", RATIO, RATIO_TOLERANCE)?;
    near(&told, "cg_nested", "whole", 50.0, RATIO_TOLERANCE)?;
    near(&told, "cg_nested", "lesser", 12.5, RATIO_TOLERANCE)?;
    near(&told, "cg_nested", "greater", 37.5, RATIO_TOLERANCE)?;
    told.check_stops()
}

figure!(cgroups_share_by_weight_across_two_domains, across_domains);

/// Hogs of which some are due more than a CPU each: of `$NR_HEAVY` in a cgroup of 900, and
/// of twelve in one of 100, the CPU time in two seconds, in ns.
const HEAVY_SCRIPT: &str = "\
cd /sys/fs/cgroup
echo +cpu > cgroup.subtree_control
mkdir heavy light
echo 900 > heavy/cpu.weight
begin
# join GROUP NR: so many hogs in it.
join() {
	for _ in $(seq $2); do
		(echo 0 > $1/cgroup.procs; exec guest-hog) &
		hogs=\"$hogs $!\"
	done
}
join heavy $NR_HEAVY
join light 12
# look: the CPU time of all by now.
look() {
	for hog in $hogs; do
		read -r used _ </proc/$hog/schedstat
		echo $used
	done
}
usleep 2000000
look >/tmp/before
usleep 2000000
look >/tmp/after
kill $hogs
paste /tmp/before /tmp/after | while read -r before after; do
	fact used $((after - before))
done
stop INT
";

/// Of hogs of the same weight the least has this part of the most.
const LIGHT_EVEN: f64 = 0.93;

/// A hog that is due more than a CPU has so much of one; two in one domain are due that.
const HEAVY_MIN_NS: f64 = 0.90 * 2e9;

/// `nr_heavy` tasks that are due more than a CPU each leave the others to all hogs alike,
/// in whichever domain these are.
fn heavy(kernel: &Kernel, nr_heavy: usize) -> Result<()> {
    let told = OURS
        .world(kernel, TWO_LLCS)?
        .run(&format!("NR_HEAVY={nr_heavy}\n{HEAVY_SCRIPT}"))?;
    let used: Vec<f64> = told.all("used")?;
    println!("ns of each in 2 s: {used:?}");
    let (heavy, light) = used.split_at(nr_heavy);
    told.check_eq("hogs", light.len(), 12)?;
    let least = |used: &[f64]| used.iter().copied().fold(f64::MAX, f64::min);
    let most = light.iter().copied().fold(0.0, f64::max);
    told.check(least(heavy) >= HEAVY_MIN_NS, || {
        "a hog that is due more than a CPU has much less".to_owned()
    })?;
    told.check(least(light) >= LIGHT_EVEN * most, || {
        format!("equal hogs got {} to {most} ns", least(light))
    })?;
    told.check_stops()
}

figure!(
    a_task_that_is_due_more_than_a_cpu_makes_its_domain_no_fuller_than_that,
    |kernel| heavy(kernel, 1)
);

figure!(
    two_tasks_that_are_due_more_than_a_cpu_each_do_not_either,
    |kernel| heavy(kernel, 2)
);

/// Hogs in a cgroup beside a task of nice -20 in the root, as a kworker of high priority is.
const WORKER_SCRIPT: &str = "\
cd /sys/fs/cgroup
echo +cpu > cgroup.subtree_control
mkdir hogs
begin
(echo 0 > hogs/cgroup.procs; agent crowd 3 settled*16) >/tmp/hogs &
agent crowd 3 worker*1^-20 >/tmp/worker
wait $!
for name in hogs worker; do
	while read -r member; do
		fact $name $member
	done </tmp/$name
done
stop INT
";

/// The longest wait of a hog: 14 to 20 ms with seeds 1 to 16.
const HOG_WAIT_MAX: Duration = Duration::from_millis(25);

/// The hog with the least CPU time has this part of what the one with the most has.
const HOGS_EVEN: f64 = 0.88;

// A hog is not charged ten times for its run because a task of great weight woke at the
// end of it.
figure!(
    a_moment_of_great_weight_elsewhere_does_not_set_hogs_back,
    |kernel| {
        let told = OURS.flat(kernel, 4)?.run(WORKER_SCRIPT)?;
        crowd::check(&told, "worker", HOG_WAIT_MAX)?;
        let hogs = crowd::check(&told, "hogs", HOG_WAIT_MAX)?;
        let (least, most) = hogs
            .iter()
            .fold((Duration::MAX, Duration::ZERO), |(least, most), hog| {
                (least.min(hog.cpu), most.max(hog.cpu))
            });
        told.check(least >= most.mul_f64(HOGS_EVEN), || {
            format!("equal hogs got {least:?} to {most:?}")
        })?;
        told.check_stops()
    }
);

fn idle(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, 2)?.run(IDLE_SCRIPT)?;
    let (a, b): (Vec<f64>, Vec<f64>) = (told.all("a")?, told.all("b")?);
    println!("us of a and b while a is idle, a weighs 3 times b, b is idle: {a:?} {b:?}");
    told.check_eq("looks", (a.len(), b.len()), (3, 3))?;
    told.check_eq("warnings of limits", told.one::<u32>("limits")?, 1)?;
    told.check(b[0] > a[0] * IDLE_RATIO_MIN, || "a is not idle".to_owned())?;
    told.check((a[1] / b[1] / RATIO - 1.0).abs() < 0.1, || {
        "a does not weigh what was written".to_owned()
    })?;
    told.check(a[2] > b[2] * IDLE_RATIO_MIN, || "b is not idle".to_owned())?;
    told.check_stops()
}

figure!(an_idle_cgroup_gets_what_is_left, idle);

figure!(
    thousands_of_cgroups_come_and_go_and_weights_still_count,
    |kernel| {
        let told = bench(kernel, TOPOLOGY, CHURN, "cg_weights")?;
        let made_and_moves: Vec<String> = told.all("churn")?;
        println!("made, moves, killed: {made_and_moves:?}");
        near(&told, "cg_weights", "ratio", RATIO, RATIO_TOLERANCE)?;
        told.check_stops()
    }
);
