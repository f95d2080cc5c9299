// SPDX-License-Identifier: GPL-2.0
//! Benchmarks of other projects, run as they are where they are installed.
//!
//! *Does this bench agree with what everybody knows?* A scenario here is one
//! command line; its figures are those that the program prints. It ends when
//! the program does, so the counters of the machine cover that time.
//!
//! The commands are in `about`, to be typed by hand for comparison. A missing
//! program is an error that names its package.

mod parse;

use std::path::Path;

use anyhow::{Context, Result};

use self::parse::Latencies;
use super::{Scenario, WARMUP_NS, snapshot};
use crate::clock::{self, NSEC_PER_MSEC, NSEC_PER_SEC, now_ns};
use crate::result::{Better, Findings};
use crate::session::Session;
use crate::system::children_usage;
use crate::tool::Tool;

const HACKBENCH_TOOL: Tool = Tool {
    program: "hackbench",
    package: "rt-tests",
};
const CYCLICTEST_TOOL: Tool = Tool {
    program: "cyclictest",
    package: "rt-tests",
};
const JITTERDEBUGGER_TOOL: Tool = Tool {
    program: "jitterdebugger",
    package: "jitterdebugger",
};
const STRESS_TOOL: Tool = Tool {
    program: "stress-ng",
    package: "stress-ng",
};
const SYSBENCH_TOOL: Tool = Tool {
    program: "sysbench",
    package: "sysbench",
};
const PERF_TOOL: Tool = Tool {
    program: "perf",
    package: "linux-perf",
};

/// Messages that a sender of hackbench sends each receiver.
const HACKBENCH_LOOPS: u32 = 50;
/// Messages of perf's, which has as many tasks.
const PERF_MESSAGING_LOOPS: u32 = 50;
/// Round trips through perf's pipe.
const PERF_PIPE_LOOPS: u32 = 20_000;
/// From one wakeup of cyclictest to the next, in nanoseconds.
const CYCLE_NS: u64 = NSEC_PER_MSEC;
/// Longest latency told apart in its histogram, in microseconds.
const CYCLE_RANGE_US: u32 = 20_000;
/// How much longer than the measurement the load may last by itself.
const STRESS_SPARE_S: u64 = 600;

/// hackbench.
pub const HACKBENCH: Scenario = Scenario {
    id: "ext_hackbench",
    about: "`hackbench -g N -l 50`: N groups of 20 sender and 20 receiver processes on sockets. \
            Time: what it prints.",
    seconds: 0.0,
    warmup_ns: 0,
    saturates: false,
    run: run_hackbench,
};

/// cyclictest on an idle machine.
pub const CYCLICTEST: Scenario = Scenario {
    id: "ext_cyclictest",
    about: "`cyclictest --policy=other -q -m -t N -d 0 -i 1000 -l 3000 -h 20000`: N threads of \
            normal policy, which alone is the scheduler's, wake every ms. Latency: what it \
            prints, over all threads; the kernel's timer slack of 50 us is in it.",
    seconds: 3.0,
    warmup_ns: 0,
    saturates: false,
    run: |session| run_cyclictest(session, false),
};

/// cyclictest beside stress-ng.
pub const STRESS: Scenario = Scenario {
    id: "ext_stress",
    about: "cyclictest as in ext_cyclictest beside `stress-ng --cpu N --fork 1`.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: |session| run_cyclictest(session, true),
};

/// jitterdebugger beside stress-ng.
pub const JITTER: Scenario = Scenario {
    id: "ext_jitter",
    about: "`jitterdebugger -i 1000 -l 3000` beside `stress-ng --cpu N --fork 1`. Its threads \
            have real-time priority and are not the scheduler's: what is measured is how long \
            they wait for the kernel to take a CPU from a task that is.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: run_jitter,
};

/// sysbench threads.
pub const SYSBENCH: Scenario = Scenario {
    id: "ext_sysbench",
    about: "`sysbench threads --threads=4N --time=3 run`: 4N threads take and yield 8 locks. \
            Events per second and their time: what it prints.",
    seconds: 3.0,
    warmup_ns: 0,
    saturates: false,
    run: run_sysbench,
};

/// perf bench sched messaging.
pub const PERF_MESSAGING: Scenario = Scenario {
    id: "ext_perf_msg",
    about: "`perf bench sched messaging -g N -l 50`, perf's own hackbench. Time: what it prints.",
    seconds: 0.0,
    warmup_ns: 0,
    saturates: false,
    run: |session| {
        let args = format!(
            "bench sched messaging -g {} -l {PERF_MESSAGING_LOOPS}",
            session.cpus
        );
        let (text, mut findings) = run_tool(session, &PERF_TOOL, &args)?;
        let seconds = parse::perf_seconds(&text).with_context(|| strange(&PERF_TOOL, &text))?;
        findings.headline("time", seconds, "s", Better::Lower);
        Ok(findings)
    },
};

/// perf bench sched pipe.
pub const PERF_PIPE: Scenario = Scenario {
    id: "ext_perf_pipe",
    about: "`perf bench sched pipe -l 20000`: two processes pass a word back and forth on an idle \
            machine. Time of a round trip: what it prints.",
    seconds: 0.0,
    warmup_ns: 0,
    saturates: false,
    run: |session| {
        let args = format!("bench sched pipe -l {PERF_PIPE_LOOPS}");
        let (text, mut findings) = run_tool(session, &PERF_TOOL, &args)?;
        let us = parse::perf_us_per_op(&text).with_context(|| strange(&PERF_TOOL, &text))?;
        findings.headline("trip", us, "us", Better::Lower);
        Ok(findings)
    },
};

/// The programs that the scenario of this id starts; none for those that are
/// complete in themselves.
pub fn tools(id: &str) -> &'static [Tool] {
    match id {
        "ext_hackbench" => &[HACKBENCH_TOOL],
        "ext_cyclictest" => &[CYCLICTEST_TOOL],
        "ext_stress" => &[CYCLICTEST_TOOL, STRESS_TOOL],
        "ext_jitter" => &[JITTERDEBUGGER_TOOL, STRESS_TOOL],
        "ext_sysbench" => &[SYSBENCH_TOOL],
        "ext_perf_msg" | "ext_perf_pipe" => &[PERF_TOOL],
        _ => &[],
    }
}

fn run_hackbench(session: &Session) -> Result<Findings> {
    let args = format!("-g {} -l {HACKBENCH_LOOPS}", session.cpus);
    let (text, mut findings) = run_tool(session, &HACKBENCH_TOOL, &args)?;
    let seconds =
        parse::hackbench_seconds(&text).with_context(|| strange(&HACKBENCH_TOOL, &text))?;
    findings.headline("time", seconds, "s", Better::Lower);
    Ok(findings)
}

fn run_cyclictest(session: &Session, is_loaded: bool) -> Result<Findings> {
    let args = format!(
        "--policy=other -q -m -t {} -d 0 -i {} -l {} -h {CYCLE_RANGE_US}",
        session.cpus,
        CYCLE_NS / 1_000,
        cycles(session),
    );
    let (text, mut findings) = match is_loaded {
        true => run_beside_stress(session, &CYCLICTEST_TOOL, &args)?,
        false => run_tool(session, &CYCLICTEST_TOOL, &args)?,
    };
    let histogram = parse::cyclictest(&text).with_context(|| strange(&CYCLICTEST_TOOL, &text))?;
    let (p50_us, p99_us) = (histogram.percentile_us(50.0), histogram.percentile_us(99.0));
    findings.headline("wake_p99", p99_us, "us", Better::Lower);
    findings.detail("wake_p50", p50_us, "us", Better::Lower);
    add_latencies(&mut findings, &histogram.latencies);
    findings.detail("wakes", histogram.count as f64, "", Better::Neither);
    Ok(findings)
}

fn run_jitter(session: &Session) -> Result<Findings> {
    let args = format!("-i {} -l {}", CYCLE_NS / 1_000, cycles(session));
    let (text, mut findings) = run_beside_stress(session, &JITTERDEBUGGER_TOOL, &args)?;
    let latencies =
        parse::thread_lines(&text).with_context(|| strange(&JITTERDEBUGGER_TOOL, &text))?;
    add_latencies(&mut findings, &latencies);
    Ok(findings)
}

fn run_sysbench(session: &Session) -> Result<Findings> {
    let seconds = session.length_ns().div_ceil(NSEC_PER_SEC).max(1);
    let threads = 4 * session.cpus;
    let args = format!("threads --threads={threads} --time={seconds} run");
    let (text, mut findings) = run_tool(session, &SYSBENCH_TOOL, &args)?;
    let report = parse::sysbench(&text).with_context(|| strange(&SYSBENCH_TOOL, &text))?;
    findings.headline("events", report.events_per_s, "1/s", Better::Higher);
    findings.headline("event_p95", report.p95_ms, "ms", Better::Lower);
    findings.detail("event_mean", report.mean_ms, "ms", Better::Lower);
    findings.detail("event_max", report.max_ms, "ms", Better::Lower);
    Ok(findings)
}

fn add_latencies(findings: &mut Findings, latencies: &Latencies) {
    findings.headline("wake_max", latencies.max_us, "us", Better::Lower);
    findings.detail("wake_mean", latencies.mean_us, "us", Better::Lower);
    findings.detail("wake_min", latencies.min_us, "us", Better::Lower);
}

/// Wakeups in the measurement.
fn cycles(session: &Session) -> u64 {
    (session.length_ns() / CYCLE_NS).max(1)
}

/// Run `tool` from the start of the measurement to its own end; what it
/// printed, and what the machine did meanwhile.
fn run_tool(session: &Session, tool: &Tool, args: &str) -> Result<(String, Findings)> {
    clock::sleep_until_ns(session.from_ns.max(session.next_start_ns()));
    let before = snapshot(session)?;
    let (from_ns, used_before) = (now_ns(), children_usage());
    let running = tool.start(&words(args), Path::new("/tmp"))?;
    let (text, _) = running.join()?;
    let length_ns = now_ns() - from_ns;
    let mut findings = snapshot(session)?.since(&before);
    findings.length_ns = Some(length_ns);
    findings.group("tool", children_usage().since(&used_before));
    findings.detail(
        "took",
        length_ns as f64 / NSEC_PER_SEC as f64,
        "s",
        Better::Neither,
    );
    Ok((text, findings))
}

/// The same beside stress-ng on all CPUs.
fn run_beside_stress(session: &Session, tool: &Tool, args: &str) -> Result<(String, Findings)> {
    let seconds = session.length_ns() / NSEC_PER_SEC + STRESS_SPARE_S;
    let load = format!(
        "--cpu {} --fork 1 --timeout {seconds} --quiet",
        session.cpus
    );
    clock::sleep_until_ns(session.next_start_ns());
    let stress = match session.no_load {
        true => None,
        false => Some(STRESS_TOOL.start(&words(&load), Path::new("/tmp"))?),
    };
    let found = run_tool(session, tool, args)?;
    stress.map_or(Ok(()), |stress| stress.stop())?;
    Ok(found)
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_string).collect()
}

/// Said of an output without the figure that belongs into it.
fn strange(tool: &Tool, text: &str) -> String {
    let head: Vec<&str> = text.lines().take(3).collect();
    format!(
        "{} printed something unexpected: {}",
        tool.program,
        head.join(" | ")
    )
}
