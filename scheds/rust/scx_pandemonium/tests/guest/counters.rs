// SPDX-License-Identifier: GPL-2.0
//! A counter counts what it is named after: each of those of the rarer decisions
//! has a load in which it must count and one in which it must not.

use anyhow::{Context, Result};
use scx_guest::Kernel;
use serde_json::Value;

use crate::ours::OURS;

/// Two LLC domains of two CPUs.
const TOPOLOGY: &str = "1x2x2x1";

/// How a counter comes out of a load: at least or at most so many.
#[derive(Clone, Copy)]
enum Wanted {
    AtLeast(u64),
    AtMost(u64),
}
use Wanted::{AtLeast, AtMost};

/// A crowd, see support/crowd.rs, and what it does to the counters.
struct Load {
    name: &'static str,
    groups: &'static str,
    wanted: &'static [(&'static str, Wanted)],
}

/// The counts are of [`INTERVAL_MS`]. The telemetry itself goes through a socket, a
/// kernel thread or the loader may wake and steal: some of a few are none. It takes
/// some ms of a CPU, and a task that waits for that and for the turn of another may
/// have to be rescued: it is kept to CPU 3, where no pinned task waits.
const LOADS: &[Load] = &[
    Load {
        name: "pairs",
        groups: "pipe*2",
        wanted: &[
            ("nr_handoff", AtLeast(1000)),
            ("nr_preempted", AtMost(10)),
            ("nr_serve_deficit", AtMost(0)),
            ("nr_serve_rescued", AtMost(0)),
        ],
    },
    // A futex gives no hint that the waker will sleep.
    Load {
        name: "unasked",
        groups: "futex*4",
        wanted: &[("nr_handoff", AtLeast(1000))],
    },
    // Three hogs that wait near one CPU, and the telemetry with them, come close to the
    // wait after which one is rescued: of 16 draws 14 had none, two had one.
    Load {
        name: "hogs",
        groups: "hog*9",
        wanted: &[
            ("nr_handoff", AtMost(10)),
            ("nr_kick_idle", AtMost(10)),
            ("nr_serve_deficit", AtMost(0)),
            ("nr_serve_rescued", AtMost(9)),
        ],
    },
    Load {
        name: "pinned",
        groups: "hog*2@0 hog*2@1 hog*2@2",
        wanted: &[
            ("nr_handoff", AtMost(10)),
            ("nr_serve_stolen", AtMost(5)),
            ("nr_serve_rescued", AtMost(0)),
        ],
    },
    // A task that only one CPU may run, which is idle, is queued there.
    Load {
        name: "woken",
        groups: "worker*1@0 worker*1@1",
        wanted: &[
            ("nr_kick_idle", AtLeast(200)),
            ("nr_preempted", AtMost(10)),
            ("nr_rt_release", AtMost(10)),
            ("io_pct", AtLeast(90)),
        ],
    },
    Load {
        name: "preempting",
        groups: "worker*4 hog*4",
        wanted: &[
            ("nr_preempted", AtLeast(200)),
            ("nr_rt_release", AtMost(10)),
        ],
    },
    Load {
        name: "real_time",
        groups: "hog*1@0 worker*1@0^fifo",
        wanted: &[("nr_rt_release", AtLeast(100))],
    },
    // It sleeps for longer than tasks do that wait for a device.
    Load {
        name: "rare",
        groups: "wave*4",
        wanted: &[("io_pct", AtMost(50))],
    },
    Load {
        name: "flood",
        groups: "wave*48 hog*4",
        wanted: &[("nr_serve_rescued", AtLeast(10))],
    },
    Load {
        name: "sleepers",
        groups: "brief*48 hog*4",
        wanted: &[("nr_serve_deficit", AtLeast(40))],
    },
    // Two domains share four of them evenly, and one alone has them now and then:
    // the CPUs of the other are idle when they are free to leave.
    Load {
        name: "roamers",
        groups: "roamer*4",
        wanted: &[("nr_serve_stolen", AtLeast(10))],
    },
];

/// Within a load, which goes on for a while before and after it.
const INTERVAL_MS: u32 = 500;

fn counts(kernel: &Kernel) -> Result<()> {
    let mut script = "begin\ntaskset -ap 8 $pid >/dev/null\n".to_owned();
    for load in LOADS {
        script += &format!(
            "agent crowd 0.8 {} >/dev/null &\nload=$!\nusleep 250000\n\
             taskset -p 8 $$ >/dev/null\n\
             fact {} $(agent stats-of-ms {INTERVAL_MS})\n\
             taskset -p f $$ >/dev/null\n\
             wait $load || give_up 'the load failed'\n",
            load.groups, load.name
        );
    }
    script += "stop INT\n";
    let told = OURS.world(kernel, TOPOLOGY)?.run(&script)?;
    let mut wrong = Vec::new();
    for load in LOADS {
        let stats: Value = told.one(load.name)?;
        for counter in [
            "io_pct",
            "nr_handoff",
            "nr_kick_idle",
            "nr_preempted",
            "nr_rt_release",
            "nr_serve_stolen",
            "nr_serve_deficit",
            "nr_serve_rescued",
        ] {
            let count = stats[counter].as_f64().map(|count| count as u64);
            let count = count.with_context(|| format!("no {counter} in {stats}"))?;
            println!("{} {counter} {count}", load.name);
            for (_, wanted) in load.wanted.iter().filter(|(name, _)| *name == counter) {
                let (is_right, than) = match *wanted {
                    AtLeast(least) => (count >= least, format!("at least {least}")),
                    AtMost(most) => (count <= most, format!("at most {most}")),
                };
                if !is_right {
                    wrong.push(format!("{}: {counter} is {count}, not {than}", load.name));
                }
            }
        }
    }
    told.check(wrong.is_empty(), || wrong.join("; "))?;
    told.check_stops()
}

invariant!(
    counters_of_rare_decisions_count_those_and_nothing_else,
    counts
);
