// SPDX-License-Identifier: GPL-2.0
//! What is counted in a guest with caches, against known answers.
//!
//! `tests/walk.c` makes accesses of which it is known what they meet; its head says
//! which. Bounds leave room for what the kernel does in between: one in a hundred.

use std::sync::OnceLock;
use std::time::Duration;

use scx_guest::{
    Caches, Clock, Counts, Error, Guest, Kernel, Meeting, Outcome, Prepared, Span, Topology,
};

/// Small, so that a walk over none of them is short.
const CACHES: &str = "l1=32K/8,l2=256K/8,l3=2M/16,top=5";

const GUEST_COUNT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-count"));
const WALK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/test-walk"));

fn caches() -> Caches {
    CACHES.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn plain_guest() -> Guest {
    Guest::new(&Kernel::find(None).unwrap_or_else(|error| panic!("{error}")))
        .time_limit(Duration::from_secs(600))
        .bytes("/bin/walk", WALK.to_vec())
        .quiet()
}

fn guest() -> Guest {
    plain_guest().caches(caches())
}

/// Spans of `script` on a machine of 4 CPUs that was kept.
fn spans(script: &str) -> Vec<Span> {
    static KEPT: OnceLock<Prepared> = OnceLock::new();
    let kept = KEPT.get_or_init(|| {
        let kept = guest().prepare(":", &mut |_| ());
        kept.unwrap_or_else(|error| panic!("{error}"))
    });
    let result = kept.run(&guest(), script, &mut |line| println!("guest: {line}"));
    spans_of(result)
}

fn spans_of(result: Result<Outcome, Error>) -> Vec<Span> {
    match result {
        Ok(Outcome {
            exit_code: 0,
            caches: Some(spans),
            ..
        }) => spans,
        other => panic!("{other:?}"),
    }
}

/// The user code of the last span, which is called `name`.
fn user(spans: &[Span], name: &str) -> Counts {
    match spans {
        [.., span] if span.name == name => {
            println!("{name}: {:?}", span.total.user);
            span.total.user
        }
        _ => panic!("{name} is not the last of {spans:?}"),
    }
}

/// Whether `count` is `expected`, or at most one in a hundred more or less, or 8.
fn is_about(count: u64, expected: u64) -> bool {
    count.abs_diff(expected) <= (expected / 100).max(8)
}

#[test]
fn a_walk_misses_each_cache_that_does_not_hold_its_buffer() {
    // KiB, passes, and which of the levels miss each line.
    for (kib, nr_passes, [is_l1_missed, is_l2_missed, is_from_memory]) in [
        (16, 20, [false, false, false]),
        (24, 20, [false, false, false]),
        (128, 10, [true, false, false]),
        (224, 10, [true, false, false]),
        (1024, 4, [true, true, false]),
        (8192, 2, [true, true, true]),
    ] {
        let counts = user(&spans(&format!("walk pass 1 {kib} {nr_passes}")), "pass");
        let nr_reads = kib * 1024 / 64 * nr_passes;
        for (what, count, is_each) in [
            ("accesses", counts.accesses, true),
            ("L1 misses", counts.l1_misses, is_l1_missed),
            ("L2 misses", counts.l2_misses, is_l2_missed),
            ("from memory", counts.memory, is_from_memory),
        ] {
            let expected = if is_each { nr_reads } else { 0 };
            let is_so = count.abs_diff(expected) <= nr_reads / 100;
            assert!(is_so, "{kib} KiB, {what}: {count}, not {expected}");
        }
        assert_eq!((counts.remote, counts.far), (0, 0));
    }
}

#[test]
fn two_cpus_that_write_a_line_in_turn_take_it_from_each_other_each_time() {
    let spans = spans("walk turns 2 3 1000");
    let counts = user(&spans, "turns");
    // A turn of each: the line comes when it is read, and leaves the other when written.
    assert!(is_about(counts.remote, 2000), "{counts:?}");
    assert!(is_about(counts.invalidations, 2000), "{counts:?}");
    assert!(is_about(counts.l2_misses, 2000), "{counts:?}");

    let line = &spans.last().unwrap().lines[0];
    println!("{line:?}");
    assert!(is_about(line.remote, 2000) && is_about(line.invalidations, 2000));
    // Who asks whose turn it is gets it from who has told so, at the same place.
    let is_same_place = |meeting: &&Meeting| (meeting.offset, meeting.written_offset) == (0, 0);
    let nr_reads: u64 = line
        .meetings
        .iter()
        .filter(is_same_place)
        .map(|of| of.reads)
        .sum();
    assert!(is_about(nr_reads, 2000), "{line:?}");
    assert!(
        spans
            .last()
            .unwrap()
            .sites
            .iter()
            .any(|site| is_about(site.remote, 1000))
    );
}

#[test]
fn a_buffer_is_fetched_once_after_a_move() {
    const NR_LINES: u64 = 128 * 1024 / 64;
    // What was only read comes from the L3.
    let counts = user(&spans("walk move 128 0 2 read"), "move");
    assert!(is_about(counts.l2_misses, NR_LINES), "{counts:?}");
    assert!(is_about(counts.l3_hits(), NR_LINES), "{counts:?}");
    assert!(is_about(counts.remote, 0), "{counts:?}");
    // What was written comes from the other CPU, which loses it.
    let counts = user(&spans("walk move 128 2 0 write"), "move");
    assert!(is_about(counts.l2_misses, NR_LINES), "{counts:?}");
    assert!(is_about(counts.remote, NR_LINES), "{counts:?}");
    assert!(is_about(counts.invalidations, NR_LINES), "{counts:?}");
    // Where it stays nothing is fetched.
    let counts = user(&spans("walk move 128 1 1 write"), "move");
    assert!(is_about(counts.l2_misses, 0), "{counts:?}");
    assert!(is_about(counts.l1_misses, 2 * NR_LINES), "{counts:?}");
}

#[test]
fn cpus_share_as_the_topology_says_and_are_told_apart() {
    const NR_LINES: u64 = 16 * 1024 / 64;
    // Two nodes with two caches each, one core with two threads below each.
    let topology: Topology = "2x2x1x2".parse().unwrap();
    let script = "\
        walk move 16 4 5 write\n\
        walk move 16 4 6 write\n\
        walk visit 8";
    let spans = spans_of(guest().topology(topology).run(script, &mut |_| ()));
    // One core: nothing is fetched.
    let counts = user(&spans[..2], "move");
    assert!(is_about(counts.l2_misses, 0), "{counts:?}");
    // Another core, below another L3.
    let counts = user(&spans[..4], "move");
    assert!(is_about(counts.far, NR_LINES), "{counts:?}");
    assert!(is_about(counts.remote, 0), "{counts:?}");

    check_visit(&spans, 8);
}

#[test]
fn cpus_of_a_kept_guest_are_told_apart_though_they_slept() {
    // The others have done nothing since the machine goes on.
    check_visit(&spans("walk visit 4"), 4);
}

/// CPU 0 has read so often, the next one twice as often, and so on.
fn check_visit(spans: &[Span], nr_cpus: usize) {
    let visit = &spans[spans.len() - 1];
    assert_eq!((visit.name.as_str(), visit.cpus.len()), ("visit", nr_cpus));
    for (cpu, counts) in visit.cpus.iter().enumerate() {
        let nr_reads = 4096 * (cpu as u64 + 1);
        assert!(
            is_about(counts.user.accesses, nr_reads),
            "CPU {cpu}: {counts:?}"
        );
    }
}

#[test]
fn bpf_programs_are_told_from_the_kernel() {
    let nr_instructions = |nr_packets: u64| {
        let spans = spans(&format!("walk filter {nr_packets}"));
        spans.last().unwrap().total.bpf.instructions
    };
    let of_100 = nr_instructions(100);
    println!("{of_100} instructions");
    // Six of BPF are some more of the machine's.
    assert!((600..6000).contains(&of_100), "{of_100}");
    assert_eq!(nr_instructions(200), 2 * of_100);
}

#[test]
fn instructions_are_the_time_of_a_guest_that_does_not_sleep() {
    let spans = spans("walk pass 0 8192 8");
    let span = spans.last().unwrap();
    let nr_instructions =
        span.total.user.instructions + span.total.kernel.instructions + span.total.bpf.instructions;
    println!("{nr_instructions} in {} ns", span.duration_ns);
    assert!(nr_instructions.abs_diff(span.duration_ns) <= span.duration_ns / 1000);
}

/// A load on all CPUs, and all by which two runs could differ.
const SCRIPT_OF_CHANCES: &str = "\
    for i in 1 2 3 4; do\n\
        (n=0; while [ $n -lt 1000 ]; do n=$((n + 1)); done; cat /proc/uptime) &\n\
    done; wait\n\
    guest-count end\n\
    cat /proc/interrupts /proc/stat /proc/schedstat /proc/self/maps /proc/sys/kernel/random/uuid\n\
    date +%s; dmesg; head -c 64 /dev/urandom > /dev/report";

#[test]
fn a_guest_with_caches_is_the_one_without_and_counts_repeat() {
    let script = format!("guest-count begin 'a \"name\"'\n{SCRIPT_OF_CHANCES}");
    let run = |guest: Guest| guest.cpus(2).seed(3).run(&script, &mut |_| ()).unwrap();
    let without = run(plain_guest().bytes("/bin/guest-count", GUEST_COUNT.to_vec()));
    let with = run(guest());
    assert!(without.console.len() > 100 && without.caches.is_none());
    assert_eq!(without.console, with.console);
    assert_eq!(without.report, with.report);
    assert_eq!(with.report.len(), 64);

    let counted = with.caches.as_ref().unwrap();
    assert_eq!((counted.len(), counted[0].name.as_str()), (1, "a ?name?"));
    assert!(
        counted[0].cpus.iter().all(|cpu| cpu.kernel.remote > 0),
        "{counted:?}"
    );
    let again = run(guest());
    assert_eq!(
        serde_json::to_string(&with.caches).unwrap(),
        serde_json::to_string(&again.caches).unwrap()
    );
}

#[test]
fn a_kept_guest_goes_on_the_same_with_caches_of_any_kind_and_without() {
    let kept = guest().cpus(2).prepare("echo first", &mut |_| ()).unwrap();
    let script = format!("guest-count begin\n{SCRIPT_OF_CHANCES}\nguest-count begin open");
    let go_on = |guest: Guest| kept.run(&guest.seed(1), &script, &mut |_| ()).unwrap();
    let without = go_on(plain_guest());
    let small = go_on(guest());
    let large = go_on(plain_guest().caches("xeon".parse().unwrap()));
    assert!(without.caches.is_none());
    assert_eq!(without.console, small.console);
    assert_eq!(without.console, large.console);
    assert_eq!(without.report, large.report);

    // That nobody ends the second one is no harm.
    assert_eq!(small.caches.as_ref().map(Vec::len), Some(1));
    let [small, large] = [small, large].map(|outcome| outcome.caches.unwrap()[0].total.kernel);
    assert_eq!(small.accesses, large.accesses);
    assert!(small.l2_misses > large.l2_misses, "{small:?} {large:?}");
}

#[test]
fn caches_that_a_guest_cannot_have_are_refused_before_it_boots() {
    let refusal = |guest: Guest| match guest.run("true", &mut |_| ()) {
        Err(Error::Caches(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refusal(guest().clock(Clock::Parallel)).contains("host's clock"));
    assert!(refusal(guest().cpus(65)).contains("65 l2 caches"));
    let odd: Caches = "l1=1K/2,l2=1K/2/3,l3=1M/16".parse().unwrap();
    assert!(refusal(plain_guest().caches(odd)).contains("multiple"));
}

#[test]
fn a_guest_that_was_kept_without_caches_cannot_have_some_later() {
    let kept = plain_guest().cpus(1).prepare(":", &mut |_| ()).unwrap();
    let error = kept.run(&guest(), "true", &mut |_| ()).unwrap_err();
    assert!(matches!(error, Error::Caches(_)), "{error}");
}
