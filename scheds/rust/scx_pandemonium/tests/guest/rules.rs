// SPDX-License-Identifier: GPL-2.0
//! A program that a rule names is what the rule says from its first wakeup on,
//! whatever it does, and no other program is.
//!
//! - `as NAME WORDS`: this process becomes the program NAME, by the first word of
//!   its command line and nothing else, and does what the other words ask for.
//! - `after MS WORDS`: does that so much later.
//! - `calls-itself NAME WORDS`: a process that it makes, without a program of its
//!   own, takes that name and does the same.
//! - `joins CGROUP WORDS`: the same in a cgroup that it makes.
//! - `lowered NICE WORDS`, `lowered idle WORDS`: this process takes that nice level, or
//!   SCHED_IDLE, and does what the other words ask for.
//! - `lives NAME SECONDS PERIOD_US BURST_US`: a thread of that name wakes so often
//!   and works for so long.
//! - `starts`: threads that sleep once. The answer: how many of them woke once
//!   only, and how many of these and of all were served before batch work; median
//!   and longest time from when one was due until it ran, in us.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use scx_guest::Kernel;
use serde_json::Value;

use crate::agent;
use crate::ours::{OURS, tasks_of};
use crate::support::crowd;
use crate::support::telemetry::Stats;
use crate::support::told::Told;
use crate::support::work::{
    act, fork, join, set_idle, set_name, set_nice, sleep_until, spawn, wait_for,
};

/// The agent's request; see support/agent.rs.
const REQUEST_ENV: &str = "GUEST_AGENT";

/// What the words behind `as` ask for.
pub fn run_as(words: &[&str]) -> Result<String> {
    let [name, words @ ..] = words else {
        bail!("as NAME WORDS");
    };
    let error = Command::new("/proc/self/exe")
        .arg0(name)
        .args(std::env::args_os().skip(1))
        .env(REQUEST_ENV, words.join(" "))
        .exec();
    Err(error).with_context(|| format!("becoming {name}"))
}

/// Do what `words` ask for.
fn go_on(words: &[&str]) -> Result<String> {
    agent::answer(words).with_context(|| format!("no such request: {words:?}"))?
}

/// What the words behind `after` ask for.
pub fn after(words: &[&str]) -> Result<String> {
    let [ms, words @ ..] = words else {
        bail!("after MS WORDS");
    };
    thread::sleep(Duration::from_millis(ms.parse()?));
    go_on(words)
}

/// What the words behind `calls-itself` ask for.
pub fn calls_itself(words: &[&str]) -> Result<String> {
    let [name, words @ ..] = words else {
        bail!("calls-itself NAME WORDS");
    };
    // The test harness has taken the main thread of this one.
    wait_for(fork(|| {
        set_name(name)?;
        go_on(words).map(|_| ())
    })?)?;
    Ok(String::new())
}

/// What the words behind `joins` ask for.
pub fn joins(words: &[&str]) -> Result<String> {
    let [cgroup, words @ ..] = words else {
        bail!("joins CGROUP WORDS");
    };
    let dir = format!("/sys/fs/cgroup/{cgroup}");
    fs::create_dir_all(&dir).with_context(|| format!("making {dir}"))?;
    let procs = format!("{dir}/cgroup.procs");
    fs::write(&procs, "0").with_context(|| format!("writing to {procs}"))?;
    go_on(words)
}

/// What the words behind `lowered` ask for. Threads and programs inherit it.
pub fn lowered(words: &[&str]) -> Result<String> {
    match words {
        ["idle", words @ ..] => {
            set_idle()?;
            go_on(words)
        }
        [nice, words @ ..] => {
            set_nice(nice.parse()?)?;
            go_on(words)
        }
        [] => bail!("lowered NICE WORDS"),
    }
}

/// What the words behind `lives` ask for.
pub fn lives(words: &[&str]) -> Result<String> {
    let [name, seconds, period_us, burst_us] = words else {
        bail!("lives NAME SECONDS PERIOD_US BURST_US");
    };
    let ends_at = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
    let period = Duration::from_micros(period_us.parse()?);
    let burst = Duration::from_micros(burst_us.parse()?);
    join(spawn(name, move || act(period, burst, ends_at))?)?;
    Ok(String::new())
}

/// Threads that sleep once: more than the gate lets through at a time. They start
/// one after the other, or most would wait for each other and wake for that.
pub const NR_STARTERS: usize = 32;
const STARTER_INTERVAL: Duration = Duration::from_micros(500);
const STARTER: &str = "starter";
const STARTER_SLEEP: Duration = Duration::from_millis(10);
/// From the start of the program to that of its threads: a rule is known by then.
const START: Duration = Duration::from_millis(200);

/// What `starts` asks for.
pub fn starts() -> Result<String> {
    let mut stats = Stats::connect()?;
    // The first answer takes longer.
    stats.ask("tasks")?;
    thread::sleep(START);
    let is_over = Arc::new(AtomicBool::new(false));
    let threads: Result<Vec<_>> = (0..NR_STARTERS)
        .map(|_| {
            let is_over = is_over.clone();
            thread::sleep(STARTER_INTERVAL);
            spawn(STARTER, move || {
                let due_at = Instant::now() + STARTER_SLEEP;
                thread::sleep(STARTER_SLEEP);
                let late = Instant::now() - due_at;
                while !is_over.load(Ordering::Relaxed) {
                    thread::park();
                }
                Ok(late)
            })
        })
        .collect();
    let threads = threads?;
    // All of them are parked by then, whatever else runs.
    thread::sleep(STARTER_SLEEP * 20);

    let list = stats.ask("tasks")?;
    let starters: Vec<&Value> = tasks_of(&list)?
        .iter()
        .filter(|task| task["comm"] == STARTER)
        .collect();
    let is_new = |task: &Value| task["age"] == 1;
    let is_ahead = |task: &Value| task["served_tier"] != "batch";
    let count = |is: &dyn Fn(&Value) -> bool| starters.iter().filter(|task| is(task)).count();
    let counts = format!(
        "{} {} {}",
        count(&is_new),
        count(&|task| is_new(task) && is_ahead(task)),
        count(&is_ahead)
    );

    is_over.store(true, Ordering::Relaxed);
    let mut late = Vec::new();
    for thread in threads {
        thread.thread().unpark();
        late.push(join(thread)?.as_micros());
    }
    late.sort_unstable();
    let longest = late.last().context("no threads")?;
    Ok(format!("{counts} {} {longest}", late[late.len() / 2]))
}

/// A game of the user's, one of ananicy's whose name a kernel does not keep, and
/// what no rule knows.
const STARTS_SCRIPT: &str = r#"
mkdir -p /tmp/rules
cat >/tmp/rules/own.toml <<EOF
[[rule]]
name = "own-game"
least_tier = "interactive"
EOF
echo '{ "name": "Some-Game-Of-Mine-Win64-Shipping.exe", "type": "Game" }' \
	>/tmp/rules/games.rules
begin --rules /tmp/rules
agent crowd 4 'hog*8' >/dev/null &
crowd=$!
sleep 0.5
fact stranger $(agent as stranger starts)
fact own $(agent as own-game starts)
fact wine $(agent as 'Z:\games\Some-Game-Of-Mine-Win64-Shipping.exe' starts)
wait $crowd || give_up 'the crowd failed'
stop INT
"#;

/// What became of the threads of `starts`.
pub struct Starters {
    pub nr_new: u64,
    pub nr_new_ahead: u64,
    pub nr_ahead: u64,
    pub longest_us: u64,
}

/// What `starts` told under `key`.
pub fn starters(told: &Told, key: &str) -> Result<Starters> {
    let numbers: [u64; 5] = told.numbers(key)?;
    println!(
        "{key}: new threads, these and all ahead, median and longest delay in us: {numbers:?}"
    );
    let [nr_new, nr_new_ahead, nr_ahead, _, longest_us] = numbers;
    Ok(Starters {
        nr_new,
        nr_new_ahead,
        nr_ahead,
        longest_us,
    })
}

figure!(
    a_game_that_a_rule_knows_is_in_its_tier_at_its_first_wakeup,
    |kernel| {
        let told = OURS.flat(kernel, 4)?.run(STARTS_SCRIPT)?;
        let nr = NR_STARTERS as u64;
        let stranger = starters(&told, "stranger")?;
        let games = [starters(&told, "own")?, starters(&told, "wine")?];
        // Those of a stranger that go ahead have a token of the gate: there are four,
        // and four more in 20 ms.
        told.check(
            stranger.nr_new >= nr / 2 && stranger.nr_new_ahead <= nr / 2,
            || "a stranger's threads went before batch work".to_owned(),
        )?;
        for game in games {
            told.check_eq("threads of a game that are ahead", game.nr_ahead, nr)?;
            told.check(game.nr_new >= nr / 2, || {
                format!("only {} threads of a game woke once", game.nr_new)
            })?;
            told.check(game.longest_us * 2 < stranger.longest_us, || {
                "a game's threads waited as long as a stranger's".to_owned()
            })?;
        }
        told.check_stops()
    }
);

/// Two hogs on one CPU, one of a program whose weight a rule halves.
const WEIGHTS_SCRIPT: &str = r#"
mkdir -p /tmp/rules
cat >/tmp/rules/1.toml <<EOF
[[rule]]
name = "modest"
weight_pct = 50
EOF
begin --rules /tmp/rules
agent as modest crowd 3 'hog*1@0' >/tmp/modest &
modest=$!
crowd plain 3 'hog*1@0'
wait $modest || give_up 'the modest hog failed'
tell modest /tmp/modest
stop INT
"#;

/// The ratio that is due, and by how much of it what is found may differ: the hogs
/// do not start at the same moment.
const WEIGHTS_RATIO: f64 = 2.0;
const WEIGHTS_TOLERANCE: f64 = 0.1;

figure!(a_program_of_half_the_weight_gets_half_the_time, |kernel| {
    let told = OURS.flat(kernel, 2)?.run(WEIGHTS_SCRIPT)?;
    let cpu = |key: &str| -> Result<f64> {
        let members = crowd::check(&told, key, Duration::from_secs(1))?;
        let cpu: Duration = members.iter().map(|member| member.cpu).sum();
        println!("{key}: {cpu:?}");
        Ok(cpu.as_secs_f64())
    };
    let ratio = cpu("plain")? / cpu("modest")?;
    told.check(
        (ratio / WEIGHTS_RATIO - 1.0).abs() <= WEIGHTS_TOLERANCE,
        || format!("the ratio is {ratio:.2}, due are {WEIGHTS_RATIO}"),
    )?;
    told.check_stops()
});

const MESSAGE_PERIOD: Duration = Duration::from_millis(1);
/// Messages until both threads are known.
const NR_FIRST_MESSAGES: usize = 200;

/// What the words behind `messages` ask for.
pub fn messages(words: &[&str]) -> Result<String> {
    let [seconds] = words else {
        bail!("messages SECONDS");
    };
    let began_at = Instant::now();
    let ends_at = began_at + Duration::from_secs_f64(seconds.parse()?);
    let (mut our_ear, mut their_mouth) = std::io::pipe()?;
    let (mut their_ear, mut our_mouth) = std::io::pipe()?;
    let sent_at_ns = Arc::new(AtomicU64::new(0));
    let now_ns = move || began_at.elapsed().as_nanos() as u64;
    // The pipe says that it is there, so the time of its sending is as well.
    let sent = sent_at_ns.clone();
    let partner = spawn("receiver", move || {
        let mut took_ns = Vec::new();
        while their_ear.read(&mut [0])? > 0 {
            took_ns.push(now_ns() - sent.load(Ordering::SeqCst));
            sent.store(now_ns(), Ordering::SeqCst);
            their_mouth.write_all(&[0])?;
        }
        Ok(took_ns)
    })?;
    let sender = spawn("sender", move || {
        let mut took_ns = Vec::new();
        let mut due_at = began_at;
        while due_at < ends_at {
            sleep_until(due_at);
            sent_at_ns.store(now_ns(), Ordering::SeqCst);
            our_mouth.write_all(&[0])?;
            our_ear.read_exact(&mut [0])?;
            took_ns.push(now_ns() - sent_at_ns.load(Ordering::SeqCst));
            due_at = Instant::now().max(due_at + MESSAGE_PERIOD);
        }
        drop(our_mouth);
        Ok(took_ns)
    })?;
    let known = |took_ns: Vec<u64>| {
        let nr_first = NR_FIRST_MESSAGES.min(took_ns.len() / 2);
        took_ns.into_iter().skip(nr_first)
    };
    let mut took_ns: Vec<u64> = known(join(sender)?).collect();
    took_ns.extend(known(join(partner)?));
    took_ns.sort_unstable();
    let longest_ns = took_ns.last().context("no messages")?;
    let p99_ns = took_ns[took_ns.len() * 99 / 100];
    Ok(format!(
        "{} {} {}",
        took_ns.len(),
        p99_ns / 1000,
        longest_ns / 1000
    ))
}

/// Rules in the form in which a distribution installs them, as the unit tests have.
const INSTALLED: [(&str, &str); 2] = [
    (
        "00-types.types",
        include_str!("../../src/rules/testdata/ananicy.d/00-types.types"),
    ),
    (
        "session.rules",
        include_str!("../../src/rules/testdata/ananicy.d/rules/session.rules"),
    ),
];

/// The same program beside the same hogs, without those rules and with them.
const MESSAGES_SCRIPT: &str = r#"
for key in without with; do
	rules=
	[ $key = without ] || rules='--rules /tmp/installed'
	begin --no-rules --no-procdb $rules
	agent crowd 3 'hog*16' >/dev/null &
	crowd=$!
	sleep 0.5
	fact $key $(agent as dbus-broker messages 2)
	wait $crowd || give_up 'the crowd failed'
	stop INT
done
"#;

/// Messages in each direction, fewer where one is late.
const NR_MESSAGES_MIN: u64 = 2_000;
const MESSAGE_P99_MAX_US: u64 = 200;

figure!(
    messages_of_a_service_are_as_fast_with_the_rules_of_a_distribution,
    |kernel| {
        let mut script = "mkdir -p /tmp/installed\n".to_owned();
        for (name, text) in INSTALLED {
            script += &format!("cat >/tmp/installed/{name} <<'EOF'\n{text}EOF\n");
        }
        script += MESSAGES_SCRIPT;
        let told = OURS.flat(kernel, 4)?.run(&script)?;
        for key in ["without", "with"] {
            let [nr, p99_us, longest_us] = told.numbers(key)?;
            println!("{key} rules: {nr} messages, p99 {p99_us} us, longest {longest_us} us");
            told.check(nr >= NR_MESSAGES_MIN, || {
                format!("{nr} messages {key} rules")
            })?;
            told.check(p99_us <= MESSAGE_P99_MAX_US, || {
                format!("{p99_us} us {key} rules (p99), more than {MESSAGE_P99_MAX_US}")
            })?;
        }
        told.check_stops()
    }
);

/// Programs that are known to be more than batch work and were niced down, or whose
/// cgroup is idle. A rule of the user's own is in the directory of the machine's owner.
const HELD_SCRIPT: &str = r#"
mkdir -p /etc/ananicy.d /etc/scx_pandemonium/rules.d
echo '{ "name": "their-game", "type": "Game" }' >/etc/ananicy.d/1.rules
cat >/etc/scx_pandemonium/rules.d/1.toml <<EOF
[[rule]]
name = "own-*"
least_tier = "interactive"
EOF
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/idle
echo 1 >/sys/fs/cgroup/idle/cpu.idle
begin --no-procdb
agent as x calls-itself sway lives plain 9 10000 500 >/dev/null &
agent lowered idle as x calls-itself weston lives weston_idle 9 10000 500 >/dev/null &
agent lowered 1 as their-game lives their_nice 9 10000 500 >/dev/null &
agent lowered 5 as own-nice lives own_nice 9 10000 500 >/dev/null &
agent lowered idle as own-idle lives own_idle 9 10000 500 >/dev/null &
agent as own-cgroup joins idle lives own_cgroup 9 10000 500 >/dev/null &
# Beside hogs those in SCHED_IDLE would not get to start.
sleep 1
agent crowd 3 'hog*16' >/dev/null &
crowd=$!
sleep 1
fact list "$("$SCHEDULER" tasks --json)"
"$SCHEDULER" tasks | grep '^note: ' >/tmp/notes
tell note /tmp/notes
"$SCHEDULER" check | grep priority >/tmp/check
tell check /tmp/check
wait $crowd || give_up 'the crowd failed'
stop INT
"#;

/// Threads of these programs: what holds them in batch, and what `tasks` and
/// `check` say of it.
const HELD: [(&str, &str, Option<&str>); 6] = [
    ("plain", NONE, None),
    ("weston_idle", "sched_idle", Some("runs in SCHED_IDLE")),
    ("their_nice", "nice", Some("runs at a nice level above 0")),
    ("own_nice", NONE, None),
    ("own_idle", NONE, None),
    ("own_cgroup", "cgroup", Some("is in a cgroup with cpu.idle")),
];

figure!(
    what_is_held_in_batch_is_named_unless_a_rule_of_the_users_own_goes_before,
    |kernel| {
        let told = OURS.flat(kernel, 4)?.run(HELD_SCRIPT)?;
        let list: Value = told.one("list")?;
        let lines: [Vec<String>; 2] = [told.all("note")?, told.all("check")?];
        println!("{lines:#?}");
        let mut wrong = Vec::new();
        for (name, held_by, note) in HELD {
            let mut found = tasks_of(&list)?.iter().filter(|task| task["comm"] == name);
            let task = found.next().with_context(|| format!("no task {name}"))?;
            println!("{task}");
            let is_served = task["served_tier"] != "batch";
            if task["held_by"] != held_by
                || task["tier_floor"] == "batch"
                || is_served != (held_by == NONE)
            {
                wrong.push(format!("{name}: {task}"));
            }
            for lines in &lines {
                if note.is_some_and(|note| !lines.iter().any(|line| line.contains(note))) {
                    wrong.push(format!("{name} is not named: {lines:#?}"));
                }
            }
        }
        let nr_named = HELD.iter().filter(|(.., note)| note.is_some()).count();
        told.check(wrong.is_empty(), || format!("wrong: {wrong:#?}"))?;
        for lines in &lines {
            told.check_eq("programs that are named", lines.len(), nr_named)?;
        }
        told.check_stops()
    }
);

/// A program of a guest, and what it must be found to be.
struct Row {
    /// Name of the thread that works.
    name: &'static str,
    /// How the program comes to be what its rule asks for.
    way: &'static str,
    /// Period and CPU time of each wakeup, in us.
    habit: (u32, u32),
    tier: &'static str,
    /// What it is known by.
    hint: &'static str,
}

const fn row(
    name: &'static str,
    way: &'static str,
    habit: (u32, u32),
    tier: &'static str,
    hint: &'static str,
) -> Row {
    Row {
        name,
        way,
        habit,
        tier,
        hint,
    }
}

/// Batch work and latency critical by what they do, and what never sleeps.
const LONG: (u32, u32) = (100_000, 20_000);
const BRIEF: (u32, u32) = (5_000, 500);
const HOG: (u32, u32) = (0, 0);

/// Interactive by what it does.
const CALM: (u32, u32) = (100_000, 1_000);

/// Said of a program that no rule knows.
const NONE: &str = "none";

const ROWS: &[Row] = &[
    row("plain_long", "as plain", LONG, "batch", NONE),
    row("plain_brief", "as plain", BRIEF, "lat_critical", NONE),
    row("plain_calm", "as plain", CALM, "interactive", NONE),
    row("game", "as game", LONG, "interactive", "rule"),
    row("indexer", "as indexer", BRIEF, "batch", "rule"),
    row("modest", "as modest", BRIEF, "interactive", "rule"),
    row("sound", "as sound-server", CALM, "lat_critical", "rule"),
    row("sound_hog", "as sound-server", HOG, "interactive", "rule"),
    row(
        "renamed",
        "as x calls-itself kiosk",
        LONG,
        "interactive",
        "rule",
    ),
    row(
        "moved",
        "as x after 1500 joins background/a",
        BRIEF,
        "batch",
        "rule",
    ),
    row(
        "heir",
        "as indexer after 1500 as plain",
        BRIEF,
        "lat_critical",
        NONE,
    ),
];

/// The programs start before the scheduler does, and while it runs.
const TIERS_SCRIPT: &str = r#"
mkdir -p /tmp/rules
cat >/tmp/rules/1.toml <<EOF
[[rule]]
name = ["game", "kiosk"]
least_tier = "interactive"
[[rule]]
name = "mod*"
greatest_tier = "interactive"
[[rule]]
cgroup = "/background"
user = 0
greatest_tier = "batch"
[[rule]]
nothing = "of use"
EOF
cat >/tmp/rules/2.rules <<EOF
{ "name": "indexer", "type": "BG_CPUIO" }
{ "name": "sound-server", "type": "LowLatency_RT" }
EOF
# All of them are programs of /proc/self/exe, and one has another name.
end() {
	killall exe kiosk
	wait $lives
}
live
begin --rules /tmp/rules
usleep 3000000
fact early "$("$SCHEDULER" tasks --json)"
end
live
usleep 3000000
fact late "$("$SCHEDULER" tasks --json)"
end
fact explained "$("$SCHEDULER" rules explain $pid --rules /tmp/rules | tail -n 1)"
"$SCHEDULER" rules check /tmp/rules >/tmp/check 2>&1
fact check_code $?
fact nr_warnings $(cat $LOG /tmp/check | grep -c '1.toml:12: unknown field `nothing`')
stop INT
"#;

fn programs_are_what_rules_say(kernel: &Kernel) -> Result<()> {
    let mut script = "live() {\n\tlives=\n".to_owned();
    for row in ROWS {
        let (period_us, burst_us) = row.habit;
        let (way, name) = (row.way, row.name);
        script += &format!("\tagent {way} lives {name} 20 {period_us} {burst_us} >/dev/null &\n");
        script += "\tlives=\"$lives $!\"\n";
    }
    script += "}\n";
    script += TIERS_SCRIPT;
    let told = OURS.flat(kernel, 4)?.run(&script)?;
    let mut wrong = Vec::new();
    for key in ["early", "late"] {
        let list: Value = told.one(key)?;
        for row in ROWS {
            let mut found = tasks_of(&list)?
                .iter()
                .filter(|task| task["comm"] == row.name);
            let (Some(task), None) = (found.next(), found.next()) else {
                wrong.push(format!("{key}: not one task {}", row.name));
                continue;
            };
            println!("{key}: {task}");
            // What no rule says may be remembered from the first time.
            let is_remembered = key == "late" && row.hint == NONE && task["hint"] == "memory";
            let is_by_rule = task["tier_by"] == "rule";
            if is_by_rule != (row.hint == "rule") {
                wrong.push(format!("{key}: its tier is by {}: {task}", task["tier_by"]));
            }
            if task["tier"] != row.tier || (task["hint"] != row.hint && !is_remembered) {
                wrong.push(format!("{key}: {task}"));
            }
        }
    }
    told.check(wrong.is_empty(), || format!("wrong: {wrong:#?}"))?;
    told.check_eq("warnings", told.one("nr_warnings")?, 2)?;
    told.check_eq("exit code of check", told.one("check_code")?, 1)?;
    let explained: String = told.one("explained")?;
    told.check_eq("of the scheduler", explained.as_str(), "no rule matches")?;
    told.check_stops()
}

figure!(
    a_program_is_what_a_rule_says_whatever_it_does,
    programs_are_what_rules_say
);
