//! Properties of the scheduling arithmetic.

use proptest::prelude::*;

use super::*;

const MSEC: u64 = 1_000_000;
const SEC: u64 = 1_000 * MSEC;
const CPU_BOUND_NS: u64 = 16 * MSEC;
const HIGH: u64 = 800;
const LOW: u64 = 20;
const NICE_0: u32 = weight_consts_WEIGHT_NICE_0;
const WEIGHTS: std::ops::RangeInclusive<u32> = weight_consts_WEIGHT_MIN..=weight_consts_WEIGHT_MAX;

/// Classify a task that has woken every `period_us` and run `burst_us` each
/// time, often enough that its averages have settled.
fn settled_tier(period_us: u64, burst_us: u64) -> tier {
    let (mut wake_ns, mut switch_ns) = (50 * MSEC, 50 * MSEC);
    let (mut avg_ns, mut dev_ns) = (MSEC, 0);
    let mut age = 0;
    // SAFETY: pure arithmetic on its arguments.
    unsafe {
        for _ in 0..100 {
            let burst_ns = burst_us * 1000;
            dev_ns = classify_ewma(dev_ns, classify_deviation(burst_ns, avg_ns), age);
            avg_ns = classify_ewma(avg_ns, burst_ns, age);
            wake_ns = classify_ewma(wake_ns, period_us * 1000, age);
            switch_ns = classify_ewma(switch_ns, period_us * 1000, age);
            age = (age + 1).min(classify_consts_AGE_MATURE);
        }
        let score = classify_score(wake_ns, switch_ns, avg_ns, dev_ns);
        let sleep_ns = (period_us - burst_us) * 1000;
        let own = classify_own_score(avg_ns, sleep_ns, dev_ns);
        let most_ns = classify_burst_max(age, avg_ns, sleep_ns, CPU_BOUND_NS);
        classify_tier(age, score, own, avg_ns, wake_ns, 0, most_ns, HIGH, LOW)
    }
}

#[test]
fn the_truth_table_of_tiers_holds() {
    let critical = tier_TIER_LAT_CRITICAL;
    let interactive = tier_TIER_INTERACTIVE;
    let batch = tier_TIER_BATCH;
    let table = [
        ("audio callback", 5_300, 700, critical, critical),
        ("compositor at 144 Hz", 6_900, 1_000, critical, critical),
        ("compositor at 60 Hz", 16_700, 3_000, critical, critical),
        ("futex partner at 2 kHz", 500, 80, critical, critical),
        ("pipe partner at 10 kHz", 100, 20, critical, critical),
        ("game frame", 16_700, 12_000, interactive, critical),
        ("game frame at 30 Hz", 33_300, 20_000, interactive, critical),
        ("terminal", 100_000, 500, interactive, critical),
        ("slow typist", 200_000, 900, interactive, critical),
        ("compiler job", 55_000, 50_000, batch, batch),
        ("backup", 50_000, 30_000, batch, batch),
        ("hog with rare sleeps", 250_000, 240_000, batch, batch),
    ];
    for (name, period_us, burst_us, at_least, at_most) in table {
        let tier = settled_tier(period_us, burst_us);
        assert!(
            (at_least..=at_most).contains(&tier),
            "{name}: tier {tier}, not in {at_least}..={at_most}"
        );
    }
}

#[test]
fn a_task_that_never_sleeps_is_batch_once_its_burst_is_long() {
    // SAFETY: pure arithmetic on its arguments.
    let tier = |burst_ns| unsafe {
        classify_tier(0, 0, 0, MSEC, 50 * MSEC, burst_ns, CPU_BOUND_NS, HIGH, LOW)
    };
    assert_eq!(tier(CPU_BOUND_NS), tier_TIER_INTERACTIVE);
    assert_eq!(tier(CPU_BOUND_NS + 1), tier_TIER_BATCH);
}

#[test]
fn a_task_with_a_rhythm_of_its_own_may_work_for_longer() {
    let most_ms = |age, runtime_ms: u64, sleep_ms: u64| {
        // SAFETY: pure arithmetic on its arguments.
        unsafe { classify_burst_max(age, runtime_ms * MSEC, sleep_ms * MSEC, CPU_BOUND_NS) / MSEC }
    };
    let (young, mature) = (classify_consts_AGE_MATURE - 1, classify_consts_AGE_MATURE);
    assert_eq!(most_ms(mature, 17, 83), 32, "the main thread of a browser");
    assert_eq!(most_ms(mature, 20, 13), 32, "a frame of a game");
    assert_eq!(most_ms(mature, 20, 6), 16, "works for most of its time");
    assert_eq!(most_ms(mature, 50, 5), 16, "a compiler's job");
    assert_eq!(most_ms(young, 17, 83), 16, "may be anything yet");
}

#[test]
fn a_wait_for_a_cpu_does_not_make_a_frame_batch_work() {
    let (interval_ns, age) = (70 * MSEC, classify_consts_AGE_MATURE);
    // SAFETY: pure arithmetic on its arguments.
    let tier = |runtime_ns, sleep_ns| unsafe {
        let score = classify_score(interval_ns, interval_ns, runtime_ns, 0);
        let own = classify_own_score(runtime_ns, sleep_ns, 0);
        assert!(score < LOW, "by its wakeups it is batch work");
        classify_tier(
            age,
            score,
            own,
            runtime_ns,
            interval_ns,
            0,
            CPU_BOUND_NS,
            HIGH,
            LOW,
        )
    };
    assert_eq!(tier(12 * MSEC, 4_700_000), tier_TIER_INTERACTIVE);
    assert_eq!(tier(12 * MSEC, 2 * MSEC), tier_TIER_BATCH, "hardly sleeps");
}

proptest! {
    #[test]
    fn the_own_score_grows_with_the_rate_and_is_that_of_a_task_that_never_waits(
        runtime_us in 1..20_000u64,
        sleep_us in 1..200_000u64,
        more_us in 1..50_000u64,
    ) {
        let own = |sleep_us| {
            // SAFETY: pure arithmetic on its arguments.
            unsafe { classify_own_score(runtime_us * 1000, sleep_us * 1000, 0) }
        };
        let interval_ns = (runtime_us + sleep_us) * 1000;
        // SAFETY: as above.
        let alone = unsafe { classify_score(interval_ns, interval_ns, runtime_us * 1000, 0) };
        if sleep_us * u64::from(classify_consts_OWN_SLEEP_PART) < runtime_us + sleep_us {
            prop_assert_eq!(own(sleep_us), 0);
        } else {
            prop_assert_eq!(own(sleep_us), alone);
            prop_assert!(own(sleep_us + more_us) <= own(sleep_us));
        }
    }
}

#[test]
fn a_slice_is_one_and_a_half_or_two_average_runs() {
    // SAFETY: pure arithmetic on its arguments.
    let slice = |tier| unsafe { slice_for_tier(tier, 2 * MSEC, MSEC, 20 * MSEC, 20 * MSEC) };
    assert_eq!(slice(tier_TIER_LAT_CRITICAL), 3 * MSEC);
    assert_eq!(slice(tier_TIER_INTERACTIVE), 4 * MSEC);
}

#[test]
fn a_compositor_keeps_its_tier_whatever_it_does_and_others_keep_theirs() {
    // SAFETY: pure arithmetic on its arguments.
    let (of_main, of_other) = unsafe { (compositor_floor(true), compositor_floor(false)) };
    assert_eq!(of_main, tier_TIER_LAT_CRITICAL);
    assert_eq!(of_other, tier_TIER_INTERACTIVE);
    for tier in tier_TIER_BATCH..tier_NR_TIERS {
        // SAFETY: pure arithmetic on its arguments.
        let raise = |floor| unsafe { compositor_raise(tier, floor) };
        assert_eq!(raise(tier_TIER_BATCH), tier);
        assert_eq!(raise(of_other), tier.max(of_other));
        assert_eq!(raise(of_main), of_main);
    }
}

#[test]
fn a_name_is_looked_at_when_the_task_is_new_and_once_a_second() {
    let first = compositor_consts_NR_FIRST_LOOKS;
    // SAFETY: pure arithmetic on its arguments.
    let is_due = |age, since_ns| unsafe { compositor_is_due(age, since_ns) };
    assert!((1..=first).all(|age| is_due(age, 0)));
    assert!(!is_due(first + 1, 0));
    assert!(!is_due(classify_consts_AGE_MATURE, 1_000 * MSEC - 1));
    assert!(is_due(classify_consts_AGE_MATURE, 1_000 * MSEC));
}

#[test]
fn sleep_buckets_have_the_documented_edges() {
    // SAFETY: pure arithmetic on its argument.
    let bucket = |ns| unsafe { hist_sleep_bucket(ns) };
    assert_eq!(bucket(0), 0);
    assert_eq!(bucket(MSEC), 0);
    assert_eq!(bucket(MSEC + 1), 1);
    assert_eq!(bucket(10 * MSEC), 1);
    assert_eq!(bucket(10 * MSEC + 1), 2);
    assert_eq!(bucket(100 * MSEC), 2);
    assert_eq!(bucket(u64::MAX), 3);
}

#[test]
fn nice_0_is_charged_wall_time_and_weight_0_does_not_divide() {
    // SAFETY: pure arithmetic on its arguments.
    unsafe {
        assert_eq!(vtime_charge(MSEC, NICE_0), MSEC);
        assert_eq!(vtime_charge(MSEC, 2 * NICE_0), MSEC / 2);
        assert_eq!(vtime_charge(MSEC, 0), vtime_charge(MSEC, *WEIGHTS.start()));
    }
}

#[test]
fn a_storm_gets_one_first_run_for_each_refill_and_a_click_gets_its_own_at_once() {
    const CPUS: u32 = 4;
    let refill_ns = u64::from(gate_consts_GATE_REFILL_NS);
    // SAFETY: pure arithmetic on its arguments.
    let ask = |full_at: &mut u64, now: u64| unsafe {
        let admitted = gate_has_token(*full_at, now, CPUS);
        if admitted {
            *full_at = gate_take_token(*full_at, now, CPUS);
        }
        admitted
    };

    let mut full_at = 0;
    let start = 1_000 * MSEC;
    let admitted = (0..1_000u64)
        .filter(|n| ask(&mut full_at, start + n * MSEC / 10))
        .count();
    let refills = 100 * MSEC * u64::from(CPUS) / refill_ns;
    assert_eq!(admitted as u64, u64::from(CPUS) + refills - 1);
    assert!(ask(&mut full_at, start + 100 * MSEC + refill_ns));
}

#[test]
fn a_full_gate_holds_a_token_for_each_cpu_and_no_cpu_earns_none() {
    // SAFETY: pure arithmetic on its arguments.
    unsafe {
        let (mut full_at, now) = (0, 1_000 * MSEC);
        for _ in 0..8 {
            assert!(gate_has_token(full_at, now, 8));
            full_at = gate_take_token(full_at, now, 8);
        }
        assert!(!gate_has_token(full_at, now, 8));
        assert!(!gate_has_token(0, now, 0));
    }
}

#[test]
fn a_tier_is_worth_a_head_start_and_no_more() {
    // SAFETY: pure arithmetic on its arguments.
    let rank = |vtime, tier| unsafe { vtime_rank(vtime, tier, false) };
    let start = u64::from(vtime_consts_HEAD_START_LAT_CRITICAL_NS);
    let now = 1_000 * MSEC;
    assert!(rank(now, tier_TIER_LAT_CRITICAL) < rank(now, tier_TIER_INTERACTIVE));
    assert!(rank(now, tier_TIER_INTERACTIVE) < rank(now, tier_TIER_BATCH));
    assert!(rank(now + start + 1, tier_TIER_LAT_CRITICAL) > rank(now, tier_TIER_BATCH));
}

#[test]
fn a_niced_down_task_gets_shorter_turns_but_not_below_the_minimum() {
    // SAFETY: pure arithmetic on its arguments.
    unsafe {
        assert_eq!(slice_for_weight(4 * MSEC, NICE_0, MSEC), 4 * MSEC);
        assert_eq!(slice_for_weight(4 * MSEC, 88 * NICE_0, MSEC), 4 * MSEC);
        assert_eq!(slice_for_weight(4 * MSEC, NICE_0 / 2, MSEC), 2 * MSEC);
        assert_eq!(slice_for_weight(4 * MSEC, *WEIGHTS.start(), MSEC), MSEC);
    }
}

/// After so long a rate is the usual, whatever it is.
const SETTLED: u64 = 30 * SEC;

fn settle(surge: &mut surge, cpus: u32, rate_hz: u64) {
    enqueue(surge, cpus, rate_hz, SEC, SETTLED);
}

/// Take samples, each `BURST_SAMPLE` enqueues long, at `rate_hz` from `from` to
/// `to`. The instants at which surges began.
fn enqueue(surge: &mut surge, cpus: u32, rate_hz: u64, from: u64, to: u64) -> Vec<u64> {
    let step = u64::from(surge_consts_SURGE_SAMPLE) * 1_000 * MSEC / rate_hz;
    let mut began = Vec::new();
    let mut now = from + step;
    while now <= to {
        // SAFETY: pure arithmetic on its arguments.
        if unsafe { surge_sample(surge, now, cpus) } {
            began.push(now);
        }
        now += step;
    }
    began
}

#[test]
fn a_storm_is_seen_within_50_ms_and_its_end_within_a_second() {
    for (cpus, usual_hz, storm_hz) in [(2, 2_000, 20_000), (4, 3_000, 30_000), (8, 100, 60_000)] {
        let mut surge = surge::default();
        // SAFETY: pure arithmetic on its arguments.
        let is_on = |surge: &surge, now| unsafe { surge_is_on(surge, now) };
        settle(&mut surge, cpus, usual_hz);
        let storm_at = SETTLED;
        let ends_at = storm_at + 3 * SEC;
        let began = enqueue(&mut surge, cpus, storm_hz, storm_at, ends_at);
        assert_eq!(began.len(), 1, "{cpus} CPUs");
        assert!(began[0] < storm_at + 50 * MSEC, "{cpus} CPUs: {began:?}");
        assert!(is_on(&surge, ends_at), "{cpus} CPUs: over before the storm");
        assert!(
            !is_on(&surge, ends_at + SEC),
            "{cpus} CPUs: no enqueue comes"
        );
        assert!(enqueue(&mut surge, cpus, usual_hz, ends_at, ends_at + 7 * SEC).is_empty());
        assert!(!is_on(&surge, ends_at + SEC), "{cpus} CPUs: as before");
    }
}

#[test]
fn a_pause_and_what_follows_it_are_no_surge() {
    for usual_hz in [500, 5_000, 50_000] {
        let mut surge = surge::default();
        settle(&mut surge, 4, usual_hz);
        let settled = surge.usual_ns;
        for pause in 0..10 {
            let from = SETTLED + (1 + 4 * pause) * SEC;
            let began = enqueue(&mut surge, 4, usual_hz, from, from + SEC);
            assert!(began.is_empty(), "{usual_hz} Hz after a pause: {began:?}");
        }
        assert!(surge.usual_ns <= 2 * settled, "{usual_hz} Hz");
    }
}

#[test]
fn what_lasts_long_is_the_usual_and_no_surge_any_more() {
    let mut surge = surge::default();
    settle(&mut surge, 4, 2_000);
    let began = enqueue(&mut surge, 4, 40_000, SETTLED, SETTLED + 60 * SEC);
    assert_eq!(began.len(), 1);
    // SAFETY: pure arithmetic on its arguments.
    assert!(!unsafe { surge_is_on(&surge, SETTLED + 11 * SEC) });
}

#[test]
fn batch_work_gets_one_service_in_the_budget_and_one() {
    for cpus in [1, 2, 4, 64] {
        // SAFETY: pure arithmetic on its arguments.
        let budget = unsafe { deficit_budget(cpus) };
        assert_eq!(budget, (4 * cpus).max(8));
        let (mut deficit, mut nr_batch) = (0, 0);
        for _ in 0..1_000 * (budget + 1) {
            // SAFETY: pure arithmetic on its arguments.
            unsafe {
                let is_batch = deficit_is_due(deficit, cpus);
                nr_batch += u32::from(is_batch);
                deficit = deficit_next(deficit, is_batch);
            }
        }
        assert_eq!(nr_batch, 1_000);
    }
    // SAFETY: pure arithmetic on its arguments.
    assert_eq!(unsafe { deficit_next(u32::MAX, false) }, u32::MAX);
}

proptest! {
    /// Also by a clock that is a little behind the one that it was given by.
    #[test]
    fn a_grant_is_pending_for_a_while(
        pid in 1..1u32 << claim_consts_CLAIM_PID_BITS,
        is_brief: bool,
        offer in 0..claim_offer_CLAIM_CLOSED,
        given_at in MSEC..1_000_000 * SEC,
        later_ns in -(MSEC as i64)..100_000 * SEC as i64,
    ) {
        // SAFETY: pure arithmetic on their arguments.
        let (word, is_pending) = unsafe {
            let word = claim_grant(pid, is_brief, given_at, offer);
            (word, claim_is_pending(word, given_at.wrapping_add_signed(later_ns)))
        };
        let (max, unit) = (i64::from(claim_consts_GRANT_MAX_NS), 1_024);
        if later_ns.abs() < max - 2 * unit {
            prop_assert!(is_pending);
        } else if later_ns.abs() > max + unit {
            prop_assert!(!is_pending);
        }
        // SAFETY: pure arithmetic on their arguments.
        unsafe {
            prop_assert_eq!((claim_pid(word), claim_offer(word)), (pid, offer));
            prop_assert_eq!(claim_is_brief(word), is_brief);
            prop_assert!(!claim_is_pending(claim_with_offer(0, offer), given_at));
        }
    }

    /// The task that comes ends its grant, another one only once that is over.
    #[test]
    fn a_grant_ends_when_its_task_arrives(
        pid in 1..1u32 << claim_consts_CLAIM_PID_BITS,
        offer in 0..claim_offer_CLAIM_CLOSED,
        given_at in MSEC..1_000_000 * SEC,
    ) {
        // SAFETY: pure arithmetic on their arguments.
        unsafe {
            let word = claim_grant(pid, true, given_at, offer);
            let is_over_at = given_at + 2 * u64::from(claim_consts_GRANT_MAX_NS);
            prop_assert_eq!(claim_arrived(word, pid, given_at), u64::from(offer));
            prop_assert_eq!(claim_arrived(word, pid ^ 1, given_at), word);
            prop_assert_eq!(claim_arrived(word, pid ^ 1, is_over_at), u64::from(offer));
        }
    }
}

/// A queue whose tasks come and go as told, looked at every ms.
#[derive(Default)]
struct Queue {
    waiters: waiters,
    /// When each came, and its group.
    tasks: Vec<(u64, u32)>,
}

impl Queue {
    fn come(&mut self, since: u64) {
        // SAFETY: pure arithmetic on its arguments.
        let group = unsafe { wait_age_group(&self.waiters, since) };
        self.waiters.nr[group as usize] += 1;
        self.tasks.push((since, group));
    }

    fn go(&mut self, index: usize) {
        let (_, group) = self.tasks.remove(index);
        self.waiters.nr[group as usize] -= 1;
    }

    /// A change of its nice level takes a task out and back.
    fn change(&mut self, index: usize) {
        let since = self.tasks[index].0;
        self.go(index);
        self.come(since);
    }

    /// As rescue.bpf.c does: a task of the older group if that waits too long.
    fn rescue(&mut self, now: u64, thresh: u64) -> Option<usize> {
        // SAFETY: pure arithmetic on its arguments.
        unsafe {
            if wait_age_must_advance(&self.waiters) {
                self.waiters.generation += 1;
                self.waiters.closed_at = now;
                return None;
            }
            if !wait_age_is_over(&self.waiters, now, thresh) {
                return None;
            }
            let old = wait_age_old(&self.waiters);
            let place = self.tasks.iter().position(|(_, group)| *group == old);
            Some(place.expect("a group that is not empty has a task in it"))
        }
    }
}

proptest! {
    /// With the newest always served first, as by a rank that favours it, no task
    /// waits for more than twice the threshold and what the rescue itself takes, and
    /// none is rescued that did not wait that long; whatever changes meanwhile.
    #[test]
    fn no_task_waits_much_longer_than_twice_the_threshold(
        arrivals in proptest::collection::vec((0u32..3, 0usize..8), 200..600),
        thresh in 3u64..20,
    ) {
        let mut queue = Queue::default();
        for (now, (nr, changed)) in (1_000u64..).zip(&arrivals) {
            if *changed < queue.tasks.len() {
                queue.change(*changed);
            }
            for _ in 0..*nr {
                // More than three at a time is overload, which no order mends.
                if queue.tasks.len() < 4 {
                    queue.come(now);
                }
            }
            match queue.rescue(now, thresh) {
                Some(index) => {
                    prop_assert!(now - queue.tasks[index].0 >= thresh);
                    queue.go(index);
                }
                None if !queue.tasks.is_empty() => queue.go(queue.tasks.len() - 1),
                None => (),
            }
            for (came, _) in &queue.tasks {
                prop_assert!(now - came <= 2 * thresh + 8, "{} ms", now - came);
            }
        }
    }
}

proptest! {
    /// Whatever tasks do, the clock shows their average to the last ns: what is
    /// owed by all and to all is zero.
    #[test]
    fn the_clock_is_the_exact_average_whatever_tasks_do(
        start in any::<u64>(),
        moves in proptest::collection::vec((0usize..8, WEIGHTS, 0u64..100 * MSEC), 1..400),
    ) {
        let mut clock = vtime_clock { avg_vruntime: start, remainder: 0, weight_sum: 0, served: 0 };
        let mut tasks: [Option<(i128, u32)>; 8] = [None; 8];
        let vtime = |offset: i128| start.wrapping_add(offset as u64);
        for (who, weight, amount) in moves {
            // SAFETY: pure arithmetic on its arguments.
            tasks[who] = unsafe {
                match tasks[who] {
                    None => {
                        let offset = i128::from(amount) - 50_000_000;
                        clock_join(&mut clock, vtime(offset), weight);
                        Some((offset, weight))
                    }
                    Some((offset, weight)) if amount % 3 == 0 => {
                        clock_leave(&mut clock, vtime(offset), weight);
                        None
                    }
                    Some((offset, weight)) => {
                        clock_advance(&mut clock, amount, weight);
                        Some((offset + i128::from(amount), weight))
                    }
                }
            };
            let there: Vec<(i128, u32)> = tasks.iter().flatten().copied().collect();
            let sum: i128 = there.iter().map(|(_, weight)| i128::from(*weight)).sum();
            prop_assert_eq!(i128::from(clock.weight_sum), sum);
            if sum > 0 {
                let total: i128 = there.iter().map(|(offset, w)| offset * i128::from(*w)).sum();
                let at = i128::from(clock.avg_vruntime.wrapping_sub(start) as i64);
                prop_assert_eq!(at * sum + i128::from(clock.remainder), total);
            }
        }
    }

    /// Tasks that wake with credit and sleep before it is used change nothing
    /// for those that stay; one that used it up joins without a jump.
    #[test]
    fn sleepers_with_credit_do_not_move_the_clock(
        at: u64, rest in 0u64..100, credit in 1u64..100 * MSEC, weight in WEIGHTS,
    ) {
        let mut clock = vtime_clock { avg_vruntime: at, remainder: rest, weight_sum: NICE_0.into(), served: 0 };
        // SAFETY: pure arithmetic on its arguments.
        unsafe {
            prop_assert!(!clock_counts(&clock, at.wrapping_sub(credit)));
            prop_assert!(clock_counts(&clock, at));
            clock_join(&mut clock, at, weight);
            prop_assert_eq!(clock.avg_vruntime, at);
            clock_leave(&mut clock, at, weight);
            prop_assert_eq!(clock.avg_vruntime, at);
        }
    }

    /// One that sleeps while no task runs comes back to where it was: to sleep
    /// often is no way to stay near the clock.
    #[test]
    fn a_sleep_in_which_nothing_is_served_gives_nothing(
        at in 1u64 << 40..1 << 50, ahead in 0u64..100 * MSEC, weight in WEIGHTS,
        others in u64::from(NICE_0)..u64::from(1_000 * NICE_0),
    ) {
        let mut clock = vtime_clock { avg_vruntime: at, remainder: 0, weight_sum: others, served: 7 };
        // SAFETY: pure arithmetic on its arguments.
        unsafe {
            clock_join(&mut clock, at + ahead, weight);
            let joined_at = clock.avg_vruntime;
            clock_leave(&mut clock, at + ahead, weight);
            let lag = clock.avg_vruntime.wrapping_sub(at + ahead).cast_signed();
            prop_assert_eq!(clock_return(&clock, lag, clock.served), at + ahead);
            clock_join(&mut clock, at + ahead, weight);
            prop_assert_eq!(clock.avg_vruntime, joined_at);
        }
    }

    #[test]
    fn a_feasible_weight_is_no_more_than_a_cpu_can_serve(
        weight in WEIGHTS, others in 0u64..10_000 * u64::from(NICE_0), nr_cpus in 1u32..512,
    ) {
        // SAFETY: pure arithmetic on its arguments.
        let counted = unsafe { clock_feasible_weight(weight, others, nr_cpus) };
        prop_assert!(counted >= weight.min(NICE_0) && counted <= weight);
        if nr_cpus > 1 && counted > NICE_0 {
            // It gets at most one of the CPUs: weight / (weight + others) <= 1 / CPUs.
            prop_assert!(u64::from(counted) * u64::from(nr_cpus - 1) <= others);
        }
    }

    #[test]
    fn every_wait_falls_between_the_edges_of_its_bucket(ns in 0u64..4_000_000_000) {
        let bucket = bucket(ns);
        prop_assert!(bucket_low_ns(bucket) <= ns);
        prop_assert!(ns < bucket_low_ns(bucket + 1));
    }

    #[test]
    fn no_wait_is_outside_the_histogram(ns: u64) {
        prop_assert!(bucket(ns) < intf_consts_NR_HIST_BUCKETS);
    }

    #[test]
    fn a_capped_vtime_never_lags_more_than_allowed(
        clock: u64,
        behind in 0u64..1_000_000 * MSEC,
        lag_max in 1u64..100 * MSEC,
        weight in WEIGHTS,
    ) {
        // SAFETY: pure arithmetic on its arguments.
        unsafe {
            let allowed = vtime_charge(lag_max, weight);
            let capped = vtime_cap_lag(clock.wrapping_sub(behind), clock, lag_max, weight);
            prop_assert_eq!(clock.wrapping_sub(capped), behind.min(allowed));
        }
    }

    #[test]
    fn a_capped_debt_never_exceeds_its_bound(
        clock: u64, ahead in 0u64..1_000_000 * MSEC, debt_max in 1u64..100 * MSEC,
        weight in WEIGHTS,
    ) {
        // SAFETY: pure arithmetic on its arguments.
        let (bounded, turn) = unsafe {
            (vtime_cap_debt(clock.wrapping_add(ahead), clock, debt_max, weight),
             vtime_charge(4 * MSEC, weight))
        };
        let most = turn.min(200 * MSEC).max(debt_max);
        prop_assert_eq!(bounded.wrapping_sub(clock), ahead.min(most));
    }

    #[test]
    fn a_heavier_task_is_never_charged_more(
        wall_ns in 0u64..1_000_000 * MSEC, light in WEIGHTS, more in 0u32..=100 * NICE_0,
    ) {
        // SAFETY: pure arithmetic on its arguments.
        unsafe {
            prop_assert!(vtime_charge(wall_ns, light + more) <= vtime_charge(wall_ns, light));
        }
    }

    #[test]
    fn a_rebased_vtime_is_owed_what_it_was(old: u64, new: u64, lag in 0u64..1000 * MSEC) {
        // SAFETY: pure arithmetic on its arguments.
        let rebased = unsafe { vtime_rebase(old.wrapping_sub(lag), old, new) };
        prop_assert_eq!(new.wrapping_sub(rebased), lag);
    }

    #[test]
    fn an_average_stays_between_where_it_was_and_its_sample(
        avg in 0u64..1 << 60, sample in 0u64..1 << 60, age in 0u32..20,
    ) {
        // SAFETY: pure arithmetic on its arguments.
        let next = unsafe { classify_ewma(avg, sample, age) };
        prop_assert!((avg.min(sample)..=avg.max(sample)).contains(&next));
    }

    #[test]
    fn a_score_is_bounded_whatever_the_history(
        wake: u64, switch: u64, runtime in 0u64..1 << 60, dev in 0u64..1 << 60,
    ) {
        // SAFETY: pure arithmetic on its arguments.
        let score = unsafe { classify_score(wake, switch, runtime, dev) };
        prop_assert!(score <= u64::from(classify_consts_SCORE_MAX));
    }

    #[test]
    fn a_longer_burst_never_raises_the_score(
        period in 1_000u64..1_000 * MSEC, burst in 0u64..1_000 * MSEC, more in 0u64..1_000 * MSEC,
    ) {
        // SAFETY: pure arithmetic on its arguments.
        unsafe {
            prop_assert!(
                classify_score(period, period, burst + more, 0)
                    <= classify_score(period, period, burst, 0)
            );
        }
    }

    #[test]
    fn a_slice_stays_between_its_bounds(
        avg in 0u64..10_000 * MSEC, min in MSEC / 4..MSEC, slice in MSEC..20 * MSEC,
    ) {
        // SAFETY: pure arithmetic on its arguments.
        unsafe {
            for tier in [tier_TIER_INTERACTIVE, tier_TIER_LAT_CRITICAL] {
                let granted = slice_for_tier(tier, avg, min, slice, 20 * MSEC);
                prop_assert!((min..=slice).contains(&granted));
            }
            prop_assert_eq!(slice_for_tier(tier_TIER_BATCH, avg, min, slice, 20 * MSEC), 20 * MSEC);
        }
    }

    #[test]
    fn the_deviation_of_a_burst_counts_half(
        period in 1_000u64..1_000 * MSEC, burst in 0u64..1_000 * MSEC, dev in 0u64..1_000 * MSEC,
    ) {
        // SAFETY: pure arithmetic on its arguments.
        unsafe {
            prop_assert_eq!(
                classify_score(period, period, burst, dev),
                classify_score(period, period, burst + dev / 2, 0)
            );
        }
    }

    #[test]
    fn waiters_shorten_a_slice_until_they_are_a_crowd(
        waiting in 0u64..10_000, more in 0u64..10_000, cpus in 1u32..1024,
        min in MSEC / 4..4 * MSEC,
    ) {
        // SAFETY: pure arithmetic on its arguments.
        let slice = |nr| unsafe { slice_contended(nr, cpus, 8 * MSEC, min, min) };
        prop_assert!(slice(waiting) >= min);
        if (waiting + more + u64::from(cpus)) * min <= 8 * MSEC * u64::from(cpus) {
            prop_assert!(slice(waiting + more) <= slice(waiting));
        } else {
            prop_assert!(slice(waiting + more) <= 2 * min);
        }
    }

    #[test]
    fn a_crowd_lengthens_a_slice_again(cpus in 1u32..1024) {
        // SAFETY: pure arithmetic on its arguments.
        let slice = |nr| unsafe { slice_contended(nr, cpus, 8 * MSEC, MSEC, MSEC) };
        let cpus = u64::from(cpus);
        prop_assert!(slice(7 * cpus) < slice(15 * cpus) && slice(15 * cpus) < slice(39 * cpus));
    }

    /// Turns that the load made shorter are no shorter for a crowd.
    #[test]
    fn a_crowd_has_the_slices_of_before_turns_were_shortened(
        waiting in 0u64..10_000, cpus in 1u32..1024, parts in 1u64..=4,
    ) {
        // SAFETY: pure arithmetic on its arguments.
        let slice = |target, min, crowd| unsafe {
            slice_contended(waiting, cpus, target, min, crowd)
        };
        let whole = slice(8 * MSEC, MSEC, MSEC);
        let part = slice(8 * MSEC / parts, MSEC / parts, MSEC);
        let is_crowd = (waiting + u64::from(cpus)) > 8 * u64::from(cpus);
        let due = if is_crowd { whole } else { whole / parts };
        prop_assert!(part.abs_diff(due) <= 2 * parts, "{part} {due}");
    }
}
