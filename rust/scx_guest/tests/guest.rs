// SPDX-License-Identifier: GPL-2.0
//! A real boot for each promise that only a boot can keep.
//!
//! The kernel is the one that `Kernel::find` gives, so `$SCX_GUEST_KERNEL`
//! runs all of this in another. Few CPUs where their number does not matter:
//! the kernel calibrates its timers for longer the more there are. Each guest takes
//! a whole core of the host, as many as the harness runs at a time.

use std::time::Duration;

use scx_guest::{Clock, Error, Failure, Guest, Kernel, Outcome, Topology};

fn guest() -> Guest {
    Guest::new(&Kernel::find(None).unwrap_or_else(|error| panic!("{error}")))
        .time_limit(Duration::from_secs(300))
        .quiet()
}

fn run(guest: Guest, script: &str) -> Result<Outcome, Error> {
    guest.run(script, &mut |line| println!("guest: {line}"))
}

fn failure(result: Result<Outcome, Error>) -> Failure {
    match result {
        Err(Error::Guest { failure, tail }) => {
            assert!(!tail.is_empty(), "{failure} came without the last lines");
            failure
        }
        other => panic!("not a failure of the guest: {other:?}"),
    }
}

#[test]
fn a_guest_by_the_hosts_clock_is_suspended_and_woken() {
    let script = "\
        echo +2 >/sys/class/rtc/rtc0/wakealarm\n\
        echo mem >/sys/power/state && echo woken";
    let outcome = run(guest().cpus(2).clock(Clock::Parallel), script).unwrap();
    assert_eq!(outcome.console, ["woken"]);
}

#[test]
fn exit_code_output_report_programs_and_files_come_through() {
    let guest = guest()
        .cpus(1)
        .seed(5)
        .program_as("/usr/bin/env", "host-env")
        .bytes("/opt/data", b"data\n".to_vec())
        .bytes("/opt/tool", b"#!/bin/sh\necho tool $1\n".to_vec());
    let script = "\
        echo seed $SEED\n\
        host-env NAME=value sh -c 'echo $NAME'\n\
        cat /opt/data; /opt/tool runs\n\
        printf 'a\\n\\000\\377b' > /dev/report\n\
        test -s /boot/config-$(uname -r) || test -s /proc/config.gz || echo no config\n\
        sleep 0.1; awk '$1 == \"0:\" && $2 < 1000 { print \"quanta are long\" }' /proc/interrupts\n\
        printf 'no end of line'\n\
        exit 7";
    let mut streamed = Vec::new();
    let outcome = guest
        .run(script, &mut |line| streamed.push(line.to_owned()))
        .unwrap();
    assert_eq!(outcome.exit_code, 7);
    let expected = ["seed 5", "value", "data", "tool runs", "no end of line"];
    assert_eq!(outcome.console, expected);
    assert_eq!(streamed, expected);
    assert_eq!(outcome.report, b"a\n\0\xffb");
}

/// Everything by which two runs could differ: interrupts, switches, times,
/// random numbers, addresses, and a load on every CPU.
const SCRIPT_OF_CHANCES: &str = "\
    for i in 1 2 3 4; do\n\
        (n=0; while [ $n -lt 3000 ]; do n=$((n + 1)); done; cat /proc/uptime) &\n\
    done; wait\n\
    cat /proc/interrupts /proc/stat /proc/schedstat /proc/self/maps /proc/sys/kernel/random/uuid\n\
    date +%s; dmesg; head -c 64 /dev/urandom > /dev/report";

#[test]
fn two_runs_are_identical_and_another_seed_is_another_run() {
    let run = |seed| {
        guest()
            .cpus(2)
            .seed(seed)
            .run(SCRIPT_OF_CHANCES, &mut |_| {})
            .unwrap()
    };
    let (first, second, other) = (run(1), run(1), run(2));
    assert!(first.console.len() > 100);
    assert_eq!(first.console, second.console);
    assert_eq!(first.report, second.report);
    assert_eq!(first.report.len(), 64);
    assert_ne!(first.console, other.console);
}

#[test]
fn runs_go_on_from_a_guest_that_was_kept_and_are_identical() {
    let guest = guest().cpus(2);
    let first = "echo first; printf one >/dev/report; value=kept; sleep 1000 &";
    let prepared = guest.clone().prepare(first, &mut |_| ()).unwrap();
    let script = "\
        echo $value $SEED; printf two >/dev/report\n\
        for i in 1 2 3; do (for j in $(seq 200); do :; done) & done\n\
        sleep 0.05; cat /proc/stat; kill $! 2>/dev/null; exit 7";
    let go_on = |seed| {
        let outcome = prepared.run(&guest.clone().seed(seed), script, &mut |_| ());
        outcome.unwrap()
    };
    let (one, same, other) = (go_on(1), go_on(1), go_on(2));
    assert_eq!(one.console[..2], ["first", "kept 1"]);
    assert_eq!((one.report.as_slice(), one.exit_code), (&b"onetwo"[..], 7));
    assert_eq!(one.console, same.console);
    assert_ne!(one.console, other.console);
    // Kept once more it is the same.
    let again = guest.clone().prepare(first, &mut |_| ()).unwrap();
    let again = again.run(&guest.clone().seed(1), script, &mut |_| ());
    assert_eq!(again.unwrap().console, one.console);
}

#[test]
fn a_script_that_ends_cannot_be_gone_on_from() {
    let error = guest().cpus(1).prepare("exit 3", &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("ended with 3"), "{error}");
    let panics = guest()
        .cpus(1)
        .prepare("echo c >/proc/sysrq-trigger", &mut |_| ());
    let error = panics.unwrap_err();
    assert!(
        matches!(error.failure(), Some(Failure::Panic(_))),
        "{error}"
    );
}

#[test]
fn the_kernel_sees_the_topology_that_was_asked_for() {
    // Two nodes with two caches each, one core with two threads below each.
    let topology: Topology = "2x2x1x2".parse().unwrap();
    let script = "\
        cd /sys/devices/system/cpu\n\
        for c in 0 1 2 3 4 5 6 7; do\n\
            echo cpu$c smt $(cat cpu$c/topology/thread_siblings_list) \
                 llc $(cat cpu$c/cache/index3/shared_cpu_list) $(cat cpu$c/cache/index3/id)\n\
        done\n\
        for n in 0 1; do echo node$n $(cat ../node/node$n/cpulist); done\n\
        nproc; ls -d ../node/node[0-9]* | wc -l";
    let outcome = run(guest().topology(topology), script).unwrap();
    let mut expected: Vec<String> = (0..8)
        .map(|cpu| {
            let llc = cpu / 2;
            let pair = format!("{}-{}", llc * 2, llc * 2 + 1);
            format!("cpu{cpu} smt {pair} llc {pair} {llc}")
        })
        .collect();
    expected.extend(["node0 0-3", "node1 4-7", "8", "2"].map(str::to_owned));
    assert_eq!(outcome.console, expected);
}

#[test]
fn a_panic_is_reported_with_its_line() {
    let result = run(guest().cpus(1), "echo c > /proc/sysrq-trigger");
    let Failure::Panic(line) = failure(result) else {
        panic!("not told as a panic")
    };
    assert!(line.contains("sysrq triggered crash"), "{line}");
}

#[test]
fn a_scheduler_error_is_found_even_on_a_silent_console() {
    let script = "dmesg -n 1\n\
        echo '<3>sched_ext: BPF scheduler \"x\" disabled (runnable task stall)' > /dev/kmsg\n\
        echo done";
    let Failure::SchedExt(line) = failure(run(guest().cpus(1), script)) else {
        panic!("not told as an error of a scheduler")
    };
    assert!(line.contains("runnable task stall"), "{line}");
}

#[test]
fn a_warning_of_the_kernel_is_a_failure_even_on_a_silent_console() {
    let script = "dmesg -n 1\n\
        echo '<4>WARNING: CPU: 0 PID: 1 at kernel/sched/ext.c:1 x' > /dev/kmsg\n\
        echo done";
    let Failure::Oops(line) = failure(run(guest().cpus(1), script)) else {
        panic!("not told as a fault")
    };
    assert!(line.contains("kernel/sched/ext.c"), "{line}");
}

#[test]
fn running_out_of_memory_is_told_as_that() {
    let result = run(
        guest().cpus(1).memory_mib(256),
        "tail /dev/zero; echo survived",
    );
    assert!(matches!(failure(result), Failure::OutOfMemory(_)));
}

#[test]
fn a_script_without_end_meets_the_time_limit() {
    let limit = Duration::from_secs(3);
    // The limit runs from the start of QEMU, and holds during the boot too.
    let result = guest()
        .cpus(1)
        .time_limit(limit)
        .run("while :; do :; done", &mut |_| {});
    assert_eq!(
        result.unwrap_err().failure(),
        Some(&Failure::TimeLimit(limit))
    );
}

#[test]
fn a_missing_program_is_reported_before_anything_boots() {
    let result = guest().program("/no/such/program").run("true", &mut |_| {});
    let message = result.unwrap_err().to_string();
    assert!(
        message.contains("/no/such/program") && !message.contains('\n'),
        "{message}"
    );
}
