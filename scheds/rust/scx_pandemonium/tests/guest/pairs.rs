// SPDX-License-Identifier: GPL-2.0
//! Pairs of tasks that hand a CPU to each other without a pause take no more
//! than their share of it.

use std::time::Duration;

use anyhow::Result;
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::crowd::{self, Member};
use crate::support::told::Told;

const SECONDS: u32 = 3;

/// Half of the pairs use pipes, which come with a sync hint, half a futex.
const SCRIPT: &str = "\
begin
crowd members $SECONDS pipe*$NR_EACH futex*$NR_EACH hog*$NR_HOGS
stop INT
";

/// Pairs beside hogs, how far from its due a hog may be, and the least and the most
/// for a pair, in percent of a fair share: what each gets if a pair, of which one task
/// runs at a time, counts as one.
///
/// The floor says that no pair is starved. The ceiling says that none takes what is due
/// to others: the shares of two tasks are due to a pair at most, and here and there some
/// more.
struct Load {
    nr_cpus: u32,
    nr_pairs: u32,
    nr_hogs: u32,
    seconds: u32,
    hog_tolerance_pct: u32,
    pair_least_pct: u32,
    pair_most_pct: u32,
}

const FEW: Load = Load {
    nr_cpus: 2,
    nr_pairs: 4,
    nr_hogs: 6,
    seconds: SECONDS,
    hog_tolerance_pct: 20,
    pair_least_pct: 50,
    pair_most_pct: 171,
};

/// Longer and with more tolerance for hogs: what a task may be owed and may owe, 40 ms
/// in all, is much of what it is due here. All pairs fare alike, 94 to 111%. A pair that
/// keeps its place for ever gets 900% and leaves the others 13; where a wakee preempts
/// its waker each time, some get 220% and the others 20 to 60.
const CROWD: Load = Load {
    nr_cpus: 1,
    nr_pairs: 10,
    nr_hogs: 20,
    seconds: 6,
    hog_tolerance_pct: 35,
    pair_least_pct: 75,
    pair_most_pct: 135,
};

/// The longest time that a hog waits: 59 ms in the crowd, with seeds 1 to 3.
const WAIT_MAX: Duration = Duration::from_millis(70);
/// The longest round trip, in which each of the two waits once: 82 to 111 ms there.
const ROUND_TRIP_MAX: Duration = WAIT_MAX.saturating_mul(2);

/// The members of the crowd `name`, none of which waited for too long.
fn check_waits(told: &Told, name: &str) -> Result<Vec<Member>> {
    let members = crowd::check(told, name, ROUND_TRIP_MAX)?;
    for hog in members.iter().filter(|member| member.kind == "hog") {
        told.check(hog.wait_max <= WAIT_MAX, || {
            format!("a hog of {name} waited {:.1?}", hog.wait_max)
        })?;
    }
    Ok(members)
}

/// Of a pair one task sleeps while the other runs, and what it is owed for that
/// is bounded. So a pair is due something between what one and what two tasks
/// that always work are due; hogs are not to get less than in the second case,
/// by `hog_tolerance_pct`.
fn share(kernel: &Kernel, load: &Load) -> Result<()> {
    let Load {
        nr_cpus,
        nr_pairs,
        nr_hogs,
        seconds,
        hog_tolerance_pct,
        pair_least_pct,
        pair_most_pct,
    } = *load;
    let script = format!(
        "SECONDS={seconds}\nNR_EACH={}\nNR_HOGS={nr_hogs}\n{SCRIPT}",
        nr_pairs / 2
    );
    let told = OURS.flat(kernel, nr_cpus)?.run(&script)?;
    let all = Duration::from_secs(u64::from(seconds * nr_cpus));
    let due_least = all / (nr_hogs + 2 * nr_pairs);
    let due_most = all / (nr_hogs + nr_pairs);
    println!("due to a hog: {due_least:.1?} to {due_most:.1?}");
    for member in check_waits(&told, "members")? {
        let (least, most) = match member.kind.as_str() {
            "hog" => (
                due_least * (100 - hog_tolerance_pct) / 100,
                due_most * (100 + hog_tolerance_pct) / 100,
            ),
            _ => (
                due_most * pair_least_pct / 100,
                due_most * pair_most_pct / 100,
            ),
        };
        told.check((least..=most).contains(&member.cpu), || {
            format!(
                "a {} got {:.1?}, not {least:.1?} to {most:.1?}",
                member.kind, member.cpu
            )
        })?;
    }
    told.check_stops()
}

/// The one that works less is owed time and takes the CPU from the other whenever
/// that passes the byte on, long before its slice ends.
const UNEVEN_SCRIPT: &str = "\
begin
crowd uneven $SECONDS uneven*1 hog*$NR_HOGS
stop INT
";

const NR_HOGS_BESIDE_UNEVEN: u32 = 4;

figure!(
    a_pair_that_preempts_itself_gets_no_more_than_its_share,
    |kernel| {
        let script = format!("SECONDS={SECONDS}\nNR_HOGS={NR_HOGS_BESIDE_UNEVEN}\n{UNEVEN_SCRIPT}");
        let told = OURS.flat(kernel, 1)?.run(&script)?;
        let due = Duration::from_secs(SECONDS.into()) / (NR_HOGS_BESIDE_UNEVEN + 2);
        let most = due * 2;
        for member in check_waits(&told, "uneven")? {
            told.check(member.cpu <= most, || {
                format!(
                    "a {} got {:.1?}, not up to {most:.1?}",
                    member.kind, member.cpu
                )
            })?;
        }
        told.check_stops()
    }
);

/// CPUs, hogs that come to a pair of each kind there, and for how long, in seconds.
const NR_CPUS_COME: u32 = 2;
const NR_HOGS_COME: u32 = 6;
const SECONDS_COME: f64 = 1.5;

/// Pairs have both CPUs, then hogs come.
const HOGS_COME_SCRIPT: &str = "\
begin
agent crowd 3 pipe*1 futex*1 >/tmp/pairs &
pairs=$!
usleep 1000000
crowd hogs $SECONDS hog*$NR_HOGS
wait $pairs || give_up 'the pairs failed'
tell pairs /tmp/pairs
stop INT
";

/// Hogs that have had nothing yet are owed time, and get it although the pairs never
/// leave the CPUs: two thirds of an equal share at least, of the tasks of pairs and
/// hogs, since pairs begin with all the credit there is.
fn hogs_come(kernel: &Kernel) -> Result<()> {
    let script = format!("SECONDS={SECONDS_COME}\nNR_HOGS={NR_HOGS_COME}\n{HOGS_COME_SCRIPT}");
    let told = OURS.flat(kernel, NR_CPUS_COME)?.run(&script)?;
    let due = Duration::from_secs_f64(SECONDS_COME) * NR_CPUS_COME / (NR_HOGS_COME + 2 * 2);
    let least = due * 2 / 3;
    check_waits(&told, "pairs")?;
    for hog in check_waits(&told, "hogs")? {
        told.check(hog.cpu >= least, || {
            format!("a hog got {:.1?}, not {least:.1?}", hog.cpu)
        })?;
    }
    told.check_stops()
}

figure!(hogs_that_come_get_their_share_from_pairs, hogs_come);

figure!(
    pairs_beside_hogs_on_2_cpus_get_no_more_than_their_share,
    |kernel| share(kernel, &FEW)
);

figure!(
    forty_tasks_on_one_cpu_share_it_with_pairs_among_them,
    |kernel| share(kernel, &CROWD)
);
