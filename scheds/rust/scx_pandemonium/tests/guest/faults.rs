// SPDX-License-Identifier: GPL-2.0
//! What goes wrong around the scheduler: its program is stopped, its output goes
//! nowhere, the kernel refuses it, it starts beside a heavy load, a distribution
//! brought many rules.

use std::fs::OpenOptions;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scx_guest::Kernel;
use serde_json::Value;

use crate::ours::OURS;
use crate::support::crowd;

/// The program does nothing for 30 s, many times what the kernel's watchdog waits
/// for a task. The load ends before it goes on, and another one comes.
const STOPPED_SCRIPT: &str = "\
begin --adaptive-turns
agent crowd 33 'hog*4' 'brief*2' >/tmp/crowd &
crowd=$!
usleep 3500000
fact metrics \"$(agent stats)\"
kill -STOP $pid
usleep 30000000
wait $crowd || give_up 'the crowd failed'
tell crowd /tmp/crowd
read -r state <$STATE
fact state $state
kill -CONT $pid
usleep 4500000
fact metrics \"$(agent stats)\"
fact metrics \"$(agent sleepers 5 0 12*20000)\"
stop INT
";

/// The longest wait of a hog beside three others and the briefs, and that of a
/// brief, whose program the scheduler needs no word of.
const HOG_WAIT_MAX: Duration = Duration::from_millis(50);
const BRIEF_WAIT_MAX: Duration = Duration::from_millis(20);

/// The profile, and what is set by the load: regime, and the time within which a
/// task gets its turn, which is shorter while tasks wait for long.
const LATENCY_TARGET_US: u64 = 8000;

fn scheduling_goes_on(kernel: &Kernel) -> Result<()> {
    let told = OURS.flat(kernel, 2)?.run(STOPPED_SCRIPT)?;
    told.check_eq("sched_ext", told.one("state")?, "enabled".to_owned())?;
    let members = crowd::check(&told, "crowd", HOG_WAIT_MAX)?;
    for brief in members.iter().filter(|member| member.kind == "brief") {
        told.check(brief.wait_max <= BRIEF_WAIT_MAX, || {
            format!("a brief waited {:?}", brief.wait_max)
        })?;
    }
    let metrics: Vec<Value> = told.all("metrics")?;
    told.check_eq("looks", metrics.len(), 3)?;
    for (metrics, regime) in metrics.iter().zip(["heavy", "light", "heavy"]) {
        let target_us = metrics["latency_target_us"].as_u64().context("no target")?;
        println!("{} {target_us} us", metrics["regime"]);
        told.check_eq("profile", metrics["profile"].as_str(), Some("auto"))?;
        told.check_eq("regime", metrics["regime"].as_str(), Some(regime))?;
        told.check((1..=LATENCY_TARGET_US).contains(&target_us), || {
            format!("the latency target is {target_us} us")
        })?;
    }
    let targets_us = metrics.iter().skip(1).map(|m| &m["latency_target_us"]);
    let targets_us: Vec<u64> = targets_us.filter_map(Value::as_u64).collect();
    told.check(
        targets_us[0] == LATENCY_TARGET_US && targets_us[1] < LATENCY_TARGET_US,
        || format!("latency targets after that: {targets_us:?} us"),
    )?;
    told.check_stops()
}

invariant!(
    scheduling_goes_on_without_the_program_and_adapts_when_it_is_back,
    scheduling_goes_on
);

/// What a program that is asked for something may be asked for.
const REQUESTS: &[&str] = &[
    "--version",
    "--help",
    "--help-stats",
    "--help-knobs",
    "rules check",
];

/// The file that is always full.
const FULL_PATH: &str = "/dev/full";

/// What a program ends with that panics.
const PANICKED: i32 = 101;

#[test]
fn what_cannot_be_printed_is_an_error_and_no_panic() -> Result<()> {
    for request in REQUESTS {
        for is_stderr_full in [false, true] {
            let mut command = Command::new(OURS.program());
            command.args(request.split_whitespace());
            command.stdout(OpenOptions::new().write(true).open(FULL_PATH)?);
            if is_stderr_full {
                command.stderr(OpenOptions::new().write(true).open(FULL_PATH)?);
            }
            let output = command.output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.code() == Some(1), "{request}: {output:?}");
            let nr_lines = usize::from(!is_stderr_full);
            ensure!(said.lines().count() == nr_lines, "{request}: {said}");
        }
    }
    // A wrong command line, and one that is right where nothing can be told.
    for (args, code) in [(&["--nothing"][..], 2), (&["profile"], 1)] {
        let mut command = Command::new(OURS.program());
        command.args(args);
        command.stderr(OpenOptions::new().write(true).open(FULL_PATH)?);
        let output = command.output()?;
        ensure!(output.status.code() == Some(code), "{args:?}: {output:?}");
    }
    Ok(())
}

/// The log is full, or a pipe whose reader has gone, or goes where it should. The
/// scheduler is stopped, is thrown out by a key of the console, and for a stall of a
/// task whose name, which is in the dump, is no UTF-8.
const FULL_SCRIPT: &str = "\
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
export SCX_TIMEOUT_MS=1000
mkfifo /tmp/pipe
usleep 1000 </tmp/pipe &
# begin_into FILE: the scheduler logs there.
begin_into() {
	\"$SCHEDULER\" 2>$1 &
	pid=$!
	wait_state enabled $pid || give_up 'the scheduler did not start'
	usleep 200000
}
# stall: real-time work holds CPU 1, and a task waits there.
stall() {
	chrt -f 50 taskset 2 guest-hog &
	hog=$!
	start_hog $(printf '\\377x')
	victim=$!
	until grep -q x /proc/$victim/comm; do
		usleep 1000
	done
	taskset -p 2 $victim
	wait $pid
	fact thrown_out $?
	kill -KILL $hog $victim
	wait $hog $victim
}
begin_into /dev/full
kill -INT $pid
wait $pid
fact stopped $?
begin_into /dev/full
echo S >/proc/sysrq-trigger
wait $pid
fact thrown_out $?
begin_into /tmp/pipe
stall
begin_into /tmp/dump
stall
fact dumps $(grep -c 'DEBUG DUMP' /tmp/dump)
tell line /tmp/dump
";

invariant!(a_log_that_goes_nowhere_changes_no_exit_code, |kernel| {
    let told = OURS
        .flat(kernel, 2)?
        .with_program("chrt")?
        .allow_scx_error()
        .run(FULL_SCRIPT)?;
    let thrown_out: Vec<i32> = told.all("thrown_out")?;
    println!("thrown out: {thrown_out:?}");
    told.always(!thrown_out.contains(&PANICKED), || "a panic".to_owned())?;
    told.check_eq("exit code after a stop", told.one("stopped")?, 0)?;
    told.check_eq("exit codes after an error", thrown_out, vec![1; 3])?;
    told.check_eq("dumps in the log", told.one("dumps")?, 1)?;
    let lines: Vec<String> = told.all("line")?;
    told.check(lines.iter().any(|line| line.contains("\u{fffd}x[")), || {
        "the task of the odd name is not in the dump".to_owned()
    })
});

/// What a user sees who isolates a CPU.
const REFUSED_SCRIPT: &str = "\
\"$SCHEDULER\" 2>/tmp/refusal
fact code $?
fact refusal $(tail -n 1 /tmp/refusal)
";

fn is_refused(kernel: &Kernel) -> Result<()> {
    let world = OURS.flat(kernel, 2)?.with_kernel_word("isolcpus=1");
    let told = world.run(REFUSED_SCRIPT)?;
    told.check_eq("exit code", told.one("code")?, 1)?;
    let refusal: String = told.one("refusal")?;
    println!("{refusal}");
    for words in ["Not compatible with", "CPUs 1 are isolated", "remove it"] {
        told.check(refusal.contains(words), || {
            format!("{words:?} is not in: {refusal}")
        })?;
    }
    Ok(())
}

invariant!(
    isolated_cpus_are_told_with_the_kernels_words,
    [lts, oldest],
    is_refused
);

/// Two hogs for each CPU, beside which a start takes some seconds.
const SLOW_SCRIPT: &str = "\
start_hogs $((2 * NR_CPUS))
now
began_at=$now_ms
begin
now
fact start_ms $((now_ms - began_at))
kill $hogs
stop INT
tell line $LOG
";

/// From here on a start is explained.
const LONG_START_MS: u64 = 2000;

/// What is said then, before the scheduler schedules.
const WAITING: &str = "not scheduling yet";
const SCHEDULING: &str = "scheduling, profile";

invariant!(a_long_start_says_what_it_waits_for, |kernel| {
    let told = OURS.flat(kernel, 2)?.run(SLOW_SCRIPT)?;
    let start_ms: u64 = told.one("start_ms")?;
    told.check(start_ms > LONG_START_MS, || {
        format!("the start took {start_ms} ms, which tests nothing")
    })?;
    let lines: Vec<String> = told.all("line")?;
    let at = |words: &str| {
        let at = lines.iter().enumerate();
        let at = at.filter(|(_, line)| line.contains(words));
        at.map(|(at, _)| at).collect::<Vec<_>>()
    };
    let (waiting, scheduling) = (at(WAITING), at(SCHEDULING));
    told.check_eq("lines", (waiting.len(), scheduling.len()), (1, 1))?;
    println!("{start_ms} ms: {}", lines[waiting[0]]);
    told.check(
        waiting < scheduling && lines[waiting[0]].contains("the programs"),
        || format!("it says {}", lines[waiting[0]]),
    )?;
    told.check_stops()
});

/// As many rules as the largest collection has, where it is installed, and the
/// first reading of them by a command that does nothing else.
const RULES_SCRIPT: &str = "\
# cpu_ms COMMAND: CPU time of ten runs of it, in $ms.
cpu_ms() {
	begin_ms=$(awk '{ print ($16 + $17) * 10 }' /proc/$$/stat)
	for i in 0 1 2 3 4 5 6 7 8 9; do \"$@\" >/dev/null 2>&1; done
	ms=$(($(awk '{ print ($16 + $17) * 10 }' /proc/$$/stat) - begin_ms))
}
cpu_ms \"$SCHEDULER\" rules check
fact cpu_ms $ms
mkdir -p /etc/ananicy.d/00-default
awk 'BEGIN {
	for (i = 0; i < 15000; i++)
		printf \"{ \\\"name\\\": \\\"a-program-%05d.exe\\\", \\\"type\\\": \\\"%s\\\" }\\n\",
			i, i % 3 ? \"Game\" : \"BG_CPUIO\"
}' >/etc/ananicy.d/00-default/many.rules
cpu_ms \"$SCHEDULER\" rules check
fact cpu_ms $ms
begin
agent stats >/dev/null
agent load 2 $NR_CPUS >/dev/null
fact rules $(grep -c 'rules: 0 of ours, 15000 of ananicy' $LOG)
fact rss_kib $(awk '/^VmRSS/ { print $2 }' /proc/$pid/status)
fact rss_kib $(awk '/^VmHWM/ { print $2 }' /proc/$pid/status)
stop INT
";

const RSS_MAX_KIB: u64 = 20 << 10;

/// CPU time of reading them by the guest's clock, which counts instructions, a million
/// for each ms. A CPU of today takes a tenth of that: 8.5 ms, measured once.
const READ_MAX_MS: u64 = 150;

invariant!(many_rules_take_little_memory_and_time, |kernel| {
    let told = OURS.flat(kernel, 2)?.run(RULES_SCRIPT)?;
    told.check_eq("lines of the log about rules", told.one("rules")?, 1)?;
    let rss_kib: Vec<u64> = told.all("rss_kib")?;
    let ten_ms: Vec<u64> = told.all("cpu_ms")?;
    println!("memory {rss_kib:?} KiB; ten times without and with rules {ten_ms:?} ms");
    told.check(rss_kib.iter().all(|kib| *kib <= RSS_MAX_KIB), || {
        format!("the program has {rss_kib:?} KiB in memory")
    })?;
    let read_ms = ten_ms[1].saturating_sub(ten_ms[0]) / 10;
    told.check(read_ms > 0 && read_ms <= READ_MAX_MS, || {
        format!("reading them took {read_ms} ms")
    })?;
    told.check_stops()
});
