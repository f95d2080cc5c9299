// SPDX-License-Identifier: GPL-2.0
//! Groups of tasks beside each other, and what each member got and waited.
//!
//! `crowd SECONDS GROUPS`: a group is `KIND*NR`, `KIND*NR@CPUS` to pin it to CPUs such
//! as `1,3` or `KIND*NR@CPUS+CPUS` to pin the second of a pair of pipes elsewhere, and
//! any of these with `^NICE` to give it a nice level, `^idle` for SCHED_IDLE or `^fifo`
//! for SCHED_FIFO.
//!
//! - `hog` never sleeps.
//! - `settled` is a hog whose waits count once it has run for 200 ms by the clock: what
//!   it gets while it is new, others get after that.
//! - `roamer` never sleeps and keeps to CPUs 0 and 1 for 5 ms of CPU time, then to
//!   none for 5 ms, again and again.
//! - `builder` works for 50 ms and sleeps for 5 ms, again and again.
//! - `brief` works for 1 ms and sleeps for 3 ms, again and again.
//! - `worker` works for 100 us and sleeps for 4 ms, as a kworker with something to do.
//! - `wave` sleeps until all of its kind wake at the same moment, works for 20 ms
//!   and is asleep for more than 200 ms before the next.
//! - `pipe` and `futex` are pairs: two tasks that wake each other without a
//!   pause, through pipes or a futex.
//! - `uneven` is a pair with pipes, one of which works for 60 us in each round.
//!
//! The answer is a line for each member. One that works waits from when it is to
//! begin, or looked at the clock last, until it looks again; a pair for as long
//! as a round trip.

use std::fmt;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::work::{
    cpu_time, join, set_affinity, set_idle, set_nice, set_real_time, sleep_until, spawn, work,
};

use super::told::Told;

/// After this all have been started.
const START: Duration = Duration::from_millis(100);

/// CPU time between two looks at the clock.
const LOOK: Duration = Duration::from_micros(50);

/// CPU time in a round of the one that works more.
const UNEVEN_BURST: Duration = Duration::from_micros(60);

/// When a member that has worked goes on.
#[derive(Clone, Copy)]
enum Pause {
    /// After so long.
    For(Duration),
    /// At the next multiple of this time since the start.
    Until(Duration),
}

/// CPU time between two pauses.
#[derive(Clone, Copy)]
struct Habit {
    burst: Duration,
    pause: Pause,
}

const HOG: Habit = Habit {
    burst: Duration::MAX,
    pause: Pause::For(Duration::ZERO),
};
const SETTLED: &str = "settled";
const SETTLED_AFTER: Duration = Duration::from_millis(200);
/// CPU time for which a roamer keeps to [`ROAMER_CPUS`], and then does not.
const ROAMER_STAY: Duration = Duration::from_millis(5);
const ROAMER_CPUS: u64 = 0b11;
const BUILDER: Habit = Habit {
    burst: Duration::from_millis(50),
    pause: Pause::For(Duration::from_millis(5)),
};
const BRIEF: Habit = Habit {
    burst: Duration::from_millis(1),
    pause: Pause::For(Duration::from_millis(3)),
};
const WORKER: Habit = Habit {
    burst: Duration::from_micros(100),
    pause: Pause::For(Duration::from_millis(4)),
};
/// Twelve of them for each CPU use 48% of it; so the last one is done, even
/// beside hogs, in time to sleep for 200 ms.
const WAVE: Habit = Habit {
    burst: Duration::from_millis(20),
    pause: Pause::Until(Duration::from_millis(500)),
};

/// What a member got, as the guest tells it and the host reads it.
pub struct Member {
    pub kind: String,
    /// CPU time; of both of a pair.
    pub cpu: Duration,
    /// Its longest wait, or round trip.
    pub wait_max: Duration,
    /// Bursts, or round trips.
    pub nr_rounds: u64,
}

/// How much a member weighs, or that it goes before all that do.
#[derive(Clone, Copy)]
enum Weight {
    Nice(i32),
    Idle,
    RealTime,
}

impl FromStr for Weight {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> Result<Weight> {
        match word {
            "idle" => Ok(Weight::Idle),
            "fifo" => Ok(Weight::RealTime),
            nice => Ok(Weight::Nice(nice.parse().context("nice level")?)),
        }
    }
}

/// When to begin and to end, and where.
#[derive(Clone, Copy)]
struct Plan {
    starts_at: Instant,
    ends_at: Instant,
    /// A mask of CPUs; none is all.
    cpus: Option<u64>,
    /// Where the second of a pair is, if not there.
    partner_cpus: Option<u64>,
    weight: Weight,
}

/// What the words after `crowd` ask for.
pub fn run(words: &[&str]) -> Result<String> {
    let [seconds, groups @ ..] = words else {
        bail!("crowd SECONDS GROUPS");
    };
    let starts_at = Instant::now() + START;
    let ends_at = starts_at + Duration::from_secs_f64(seconds.parse().context("seconds")?);
    let mut members = Vec::new();
    for group in groups {
        let (kind, rest) = group.split_once('*').context("KIND*NR")?;
        let (rest, weight) = rest.split_once('^').unwrap_or((rest, "0"));
        let (nr, lists) = rest.split_once('@').unwrap_or((rest, ""));
        let mut lists = lists.split('+').filter(|list| !list.is_empty());
        let mut cpus = || lists.next().map(mask_of).transpose();
        let plan = Plan {
            starts_at,
            ends_at,
            cpus: cpus()?,
            partner_cpus: cpus()?,
            weight: weight.parse()?,
        };
        for _ in 0..nr.parse::<usize>().context("number")? {
            members.push(hire(kind, plan)?);
        }
    }
    ensure!(Instant::now() < starts_at, "the start took too long");
    let lines: Result<Vec<String>> = members
        .into_iter()
        .map(|member| Ok(join(member)?.to_string()))
        .collect();
    Ok(lines?.join("\n"))
}

/// The mask of a list of CPUs such as `1,3`.
fn mask_of(list: &str) -> Result<u64> {
    let mut cpus = list.split(',').map(str::parse::<u32>);
    cpus.try_fold(0, |mask, cpu| Ok(mask | 1 << cpu.context("CPU")?))
}

/// Start a member of `kind`.
fn hire(kind: &str, plan: Plan) -> Result<JoinHandle<Result<Member>>> {
    let name = kind.to_owned();
    let habit = match kind {
        "hog" | SETTLED => HOG,
        "roamer" => {
            return spawn("roamer", move || {
                plan.begin()?;
                roam(plan)
            });
        }
        "builder" => BUILDER,
        "brief" => BRIEF,
        "worker" => WORKER,
        "wave" => WAVE,
        "pipe" => return hire_pipe_pair("pipe", Duration::ZERO, plan),
        "uneven" => return hire_pipe_pair("uneven", UNEVEN_BURST, plan),
        "futex" => return hire_futex_pair(plan),
        _ => bail!("no such kind: {kind}"),
    };
    spawn(kind, move || {
        plan.begin()?;
        Ok(live(name, habit, plan))
    })
}

impl Plan {
    /// Go where the member belongs and wait for the start.
    fn begin(&self) -> Result<()> {
        if let Some(cpus) = self.cpus {
            set_affinity(0, cpus)?;
        }
        match self.weight {
            Weight::Nice(nice) => set_nice(nice)?,
            Weight::Idle => set_idle()?,
            Weight::RealTime => set_real_time(true)?,
        }
        sleep_until(self.starts_at);
        Ok(())
    }

    /// The same for the second of a pair.
    fn begin_as_partner(mut self) -> Result<()> {
        self.cpus = self.partner_cpus.or(self.cpus);
        self.begin()
    }
}

/// Work and pause until the end.
fn live(kind: String, habit: Habit, plan: Plan) -> Member {
    let (mut wait_max, mut nr_rounds) = (Duration::ZERO, 0);
    let mut counts_from = plan.starts_at;
    if kind == SETTLED {
        counts_from += SETTLED_AFTER;
    }
    let mut due_at = plan.starts_at;
    while due_at < plan.ends_at {
        sleep_until(due_at);
        let rests_at = cpu_time().saturating_add(habit.burst);
        let mut before = due_at;
        while before < plan.ends_at && cpu_time() < rests_at {
            work(LOOK);
            let now = Instant::now();
            if before >= counts_from {
                wait_max = wait_max.max(now - before);
            }
            before = now;
        }
        nr_rounds += 1;
        match habit.pause {
            Pause::For(pause) => due_at = Instant::now() + pause,
            Pause::Until(period) => {
                while due_at <= before {
                    due_at += period;
                }
            }
        }
    }
    Member {
        kind,
        cpu: cpu_time(),
        wait_max,
        nr_rounds,
    }
}

/// Never sleep until the end, with one affinity after the other.
fn roam(plan: Plan) -> Result<Member> {
    let (mut wait_max, mut nr_rounds) = (Duration::ZERO, 0);
    let mut before = plan.starts_at;
    while before < plan.ends_at {
        for cpus in [ROAMER_CPUS, u64::MAX] {
            set_affinity(0, cpus)?;
            let ends_at = cpu_time() + ROAMER_STAY;
            while cpu_time() < ends_at {
                work(LOOK);
                let now = Instant::now();
                wait_max = wait_max.max(now - before);
                before = now;
            }
        }
        nr_rounds += 1;
    }
    Ok(Member {
        kind: "roamer".to_owned(),
        cpu: cpu_time(),
        wait_max,
        nr_rounds,
    })
}

/// Go round with `partner`, whose thread gives its CPU time, until the end.
/// `round` is given whether it is the last.
fn go_round(
    kind: &str,
    plan: Plan,
    partner: JoinHandle<Result<Duration>>,
    mut round: impl FnMut(bool) -> Result<()>,
) -> Result<Member> {
    plan.begin()?;
    let (mut wait_max, mut nr_rounds) = (Duration::ZERO, 0);
    let mut before = plan.starts_at;
    while before < plan.ends_at {
        round(false)?;
        let now = Instant::now();
        wait_max = wait_max.max(now - before);
        before = now;
        nr_rounds += 1;
    }
    round(true)?;
    Ok(Member {
        kind: kind.to_owned(),
        cpu: cpu_time() + join(partner)?,
        wait_max,
        nr_rounds,
    })
}

/// The byte that ends a pair.
const LAST: u8 = 1;

/// The first of the pair works for `burst` before it passes the byte on.
fn hire_pipe_pair(
    kind: &'static str,
    burst: Duration,
    plan: Plan,
) -> Result<JoinHandle<Result<Member>>> {
    let (mut our_ear, mut their_mouth) = std::io::pipe().context("making a pipe")?;
    let (their_ear, mut our_mouth) = std::io::pipe().context("making a pipe")?;
    let partner = spawn("pipe_b", move || {
        plan.begin_as_partner()?;
        echo(their_ear, &mut their_mouth)?;
        Ok(cpu_time())
    })?;
    spawn("pipe_a", move || {
        go_round(kind, plan, partner, |is_last| {
            work(burst);
            our_mouth.write_all(&[u8::from(is_last)])?;
            Ok(our_ear.read_exact(&mut [0])?)
        })
    })
}

fn echo(mut ear: PipeReader, mouth: &mut PipeWriter) -> Result<()> {
    let mut byte = [0];
    while byte != [LAST] {
        ear.read_exact(&mut byte)?;
        mouth.write_all(&byte)?;
    }
    Ok(())
}

/// Whose turn it is, and whether it is the last.
#[derive(Default)]
struct Turn {
    is_theirs: AtomicBool,
    is_last: AtomicBool,
}

impl Turn {
    /// Give the turn to `other` and wait for it. To park is to wait on a futex.
    fn pass(&self, is_ours: bool, other: &Thread) {
        self.is_theirs.store(is_ours, Ordering::SeqCst);
        other.unpark();
        self.wait(is_ours);
    }

    fn wait(&self, is_ours: bool) {
        while self.is_theirs.load(Ordering::SeqCst) == is_ours {
            thread::park();
        }
    }
}

fn hire_futex_pair(plan: Plan) -> Result<JoinHandle<Result<Member>>> {
    spawn("futex_a", move || {
        let turn = Arc::new(Turn::default());
        let (theirs, us) = (turn.clone(), thread::current());
        let partner = spawn("futex_b", move || {
            plan.begin()?;
            theirs.wait(false);
            while !theirs.is_last.load(Ordering::SeqCst) {
                theirs.pass(false, &us);
            }
            theirs.is_theirs.store(false, Ordering::SeqCst);
            us.unpark();
            Ok(cpu_time())
        })?;
        let them = partner.thread().clone();
        go_round("futex", plan, partner, |is_last| {
            turn.is_last.store(is_last, Ordering::SeqCst);
            turn.pass(true, &them);
            Ok(())
        })
    })
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {} {}",
            self.kind,
            self.cpu.as_micros(),
            self.wait_max.as_micros(),
            self.nr_rounds
        )
    }
}

impl FromStr for Member {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Member> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [kind, cpu_us, wait_max_us, nr_rounds] = words.as_slice() else {
            bail!("not a member: {line}");
        };
        Ok(Member {
            kind: (*kind).to_owned(),
            cpu: Duration::from_micros(cpu_us.parse()?),
            wait_max: Duration::from_micros(wait_max_us.parse()?),
            nr_rounds: nr_rounds.parse()?,
        })
    }
}

/// The members of crowd `name`, checked that none waited longer than `wait_max`.
pub fn check(told: &Told, name: &str, wait_max: Duration) -> Result<Vec<Member>> {
    let members: Vec<Member> = told.all(name)?;
    println!("{name}, in ms: kind, members, CPU least and most, longest wait; rounds least");
    for group in members.chunk_by(|one, other| one.kind == other.kind) {
        let cpu = |member: &Member| member.cpu.as_millis();
        println!(
            "{:<8} {:>2} {:>5} {:>5} {:>6.1} {:>6}",
            group[0].kind,
            group.len(),
            group.iter().map(cpu).min().unwrap_or_default(),
            group.iter().map(cpu).max().unwrap_or_default(),
            longest(group).as_secs_f64() * 1e3,
            group.iter().map(|m| m.nr_rounds).min().unwrap_or_default()
        );
    }
    for member in &members {
        told.check(member.nr_rounds > 0, || {
            format!("a {} of {name} never came round", member.kind)
        })?;
        told.check(member.wait_max <= wait_max, || {
            format!(
                "a {} of {name} waited {:.1?}, more than {wait_max:?}",
                member.kind, member.wait_max
            )
        })?;
    }
    Ok(members)
}

fn longest(members: &[Member]) -> Duration {
    members.iter().map(|m| m.wait_max).max().unwrap_or_default()
}
