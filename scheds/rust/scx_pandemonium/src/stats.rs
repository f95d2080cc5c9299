//! What happened since the scheduler started, and what is reported of an
//! interval of it.
//!
//! A [`Sample`] holds the counters since the start. [`Metrics`] say what
//! happened between two of them; each field has its meaning in its description.
//!
//! Not here: what a counter counts (`enum stat_id` in `src/bpf/intf.h`), how
//! clients get at them (server), how they are printed (monitor).

use scx_stats_derive::{Stats, stat_doc};
use serde::{Deserialize, Serialize};

use crate::bpf_intf::*;
use crate::control::profile::Profile;
use crate::control::regime::Regime;
use crate::hist;

/// Counters of all CPUs, added up, since the scheduler started.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The profile in use.
    pub profile: Profile,
    /// The regime, unless nothing is adapted.
    pub regime: Option<Regime>,
    /// The knob of that name.
    pub latency_target_ns: u64,
    /// How many CPUs confined tasks keep to; 0: all.
    pub nr_confined_cpus: u64,
    /// Number of CPUs that are online.
    pub nr_online_cpus: u64,
    /// Indexed by `stat_id`.
    pub nr: [u64; stat_id_NR_STAT_IDS as usize],
    /// Waits from wakeup to run, by tier.
    pub wake_lat: [hist::Counts; tier_NR_TIERS as usize],
    /// Voluntary sleeps, by length.
    pub sleeps: [u64; intf_consts_NR_SLEEP_BUCKETS as usize],
    /// Wakeups that ran in the L2 domain of the run before, by tier.
    pub l2_hits: [u64; tier_NR_TIERS as usize],
    /// Those that did not.
    pub l2_misses: [u64; tier_NR_TIERS as usize],
    /// Longest wait of any runnable task, in ns.
    pub max_wait_ns: u64,
    /// What CPUs ask for at present, of 1024 each, added up.
    pub cpuperf_target_sum: u64,
    /// Programs' threads that are remembered at present.
    pub nr_procdb: u64,
    /// Those of them that something is expected of.
    pub nr_procdb_known: u64,
}

impl Default for Sample {
    fn default() -> Self {
        Sample {
            profile: Profile::default(),
            regime: None,
            latency_target_ns: 0,
            nr_confined_cpus: 0,
            nr_online_cpus: 0,
            nr: [0; stat_id_NR_STAT_IDS as usize],
            wake_lat: [[0; hist::NR_BUCKETS]; tier_NR_TIERS as usize],
            sleeps: [0; intf_consts_NR_SLEEP_BUCKETS as usize],
            l2_hits: [0; tier_NR_TIERS as usize],
            l2_misses: [0; tier_NR_TIERS as usize],
            max_wait_ns: 0,
            cpuperf_target_sum: 0,
            nr_procdb: 0,
            nr_procdb_known: 0,
        }
    }
}

impl Sample {
    /// Add what one CPU counted.
    pub fn add_cpu(&mut self, cpuc: &cpu_ctx) {
        add(&mut self.nr, &cpuc.stats.nr);
        add(&mut self.sleeps, &cpuc.stats.sleeps);
        add(&mut self.l2_hits, &cpuc.stats.l2_hits);
        add(&mut self.l2_misses, &cpuc.stats.l2_misses);
        let rows = cpuc.stats.wake_lat.chunks_exact(hist::NR_BUCKETS);
        for (sums, counts) in self.wake_lat.iter_mut().zip(rows) {
            add(sums, counts);
        }
        self.max_wait_ns = self.max_wait_ns.max(cpuc.stats.max_wait_ns);
        self.cpuperf_target_sum += u64::from(cpuc.frequency.target);
    }

    /// What happened between `earlier` and now. The longest wait stays that
    /// since the start: it is a record, not a rate. What CPUs ask for is that of
    /// now. A counter that went back, since the scheduler was restarted in
    /// between, gives 0.
    pub fn since(&self, earlier: &Sample) -> Sample {
        let mut delta = self.clone();
        subtract(&mut delta.nr, &earlier.nr);
        subtract(&mut delta.sleeps, &earlier.sleeps);
        subtract(&mut delta.l2_hits, &earlier.l2_hits);
        subtract(&mut delta.l2_misses, &earlier.l2_misses);
        for (counts, before) in delta.wake_lat.iter_mut().zip(&earlier.wake_lat) {
            subtract(counts, before);
        }
        delta
    }

    fn count(&self, id: stat_id) -> u64 {
        self.nr[id as usize]
    }

    /// CPU time that confined tasks used, in ns.
    pub fn confined_ns(&self) -> u64 {
        self.count(stat_id_STAT_CONFINED_NS)
    }

    /// Tasks placed, on whatever path.
    fn nr_placed(&self) -> u64 {
        (stat_id_STAT_PLACE_IDLE..=stat_id_STAT_PLACE_BATCH)
            .map(|id| self.count(id))
            .sum()
    }

    fn wake_percentile_us(&self, tier: tier, percentile: f64) -> u64 {
        hist::percentile_ns(&self.wake_lat[tier as usize], percentile).unwrap_or(0) / 1000
    }

    /// Share of wakeups that ran where their L2 cache is, in percent.
    fn l2_hit_pct(&self, tier: tier) -> f64 {
        let nr_hits = self.l2_hits[tier as usize];
        percent(nr_hits, nr_hits + self.l2_misses[tier as usize])
    }

    /// What no tier's wakeups waited longer than, but for one in a hundred. A tier
    /// with fewer than `nr_least` of them says nothing.
    pub fn longest_wake_p99_ns(&self, nr_least: u64) -> Option<u64> {
        let tiers = self.wake_lat.iter();
        let known = tiers.filter(|counts| counts.iter().sum::<u64>() >= nr_least);
        known
            .filter_map(|counts| hist::percentile_ns(counts, 99.0))
            .max()
    }

    fn wake_mean_us(&self, tier: tier) -> u64 {
        hist::mean_ns(&self.wake_lat[tier as usize]).unwrap_or(0) / 1000
    }
}

fn add(sums: &mut [u64], values: &[u64]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += value;
    }
}

fn subtract(values: &mut [u64], earlier: &[u64]) {
    for (value, before) in values.iter_mut().zip(earlier) {
        *value = value.saturating_sub(*before);
    }
}

/// What happened in one interval. A field that begins with `nr_` counts events,
/// unless it is marked `_gauge`: then it is a number of now.
#[stat_doc]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stats)]
#[stat(top)]
pub struct Metrics {
    #[stat(desc = "Profile at the end of the interval")]
    pub profile: String,
    #[stat(
        desc = "How busy the machine is: light, mixed or heavy; off if nothing is adapted to the load"
    )]
    pub regime: String,
    #[stat(
        desc = "Time within which a task that waits should get its turn, at the end of the interval, in us"
    )]
    pub latency_target_us: u64,
    #[stat(desc = "Number of online CPUs", _gauge)]
    pub nr_cpus: u64,
    #[stat(desc = "Tasks made ready to run and inserted somewhere")]
    pub nr_placed: u64,
    #[stat(desc = "Share of placed tasks that found an idle CPU, in percent")]
    pub idle_pct: f64,
    #[stat(desc = "Placed on an idle CPU")]
    pub nr_idle: u64,
    #[stat(desc = "Placed on the waker's CPU, which the waker hands over")]
    pub nr_handoff: u64,
    #[stat(desc = "Placed on a CPU that ran something of a lower tier")]
    pub nr_preempt: u64,
    #[stat(desc = "Per-CPU kernel threads placed on their CPU")]
    pub nr_kthread: u64,
    #[stat(desc = "Pinned and confined tasks placed in a CPU's own queue")]
    pub nr_own: u64,
    #[stat(desc = "Placed in the interactive queue of an LLC domain")]
    pub nr_interactive: u64,
    #[stat(desc = "Batch tasks placed near the CPU where they were")]
    pub nr_batch: u64,
    #[stat(desc = "Enqueued because of a wakeup")]
    pub nr_enq_wakeup: u64,
    #[stat(desc = "Enqueued for another reason, such as the end of a slice")]
    pub nr_enq_requeue: u64,
    #[stat(desc = "Of these, since a higher scheduling class took the CPU")]
    pub nr_enq_return: u64,
    #[stat(desc = "Tasks taken from a CPU's own queue")]
    pub nr_serve_own: u64,
    #[stat(desc = "Tasks taken from the interactive queue of the domain")]
    pub nr_serve_interactive: u64,
    #[stat(desc = "Batch tasks taken that waited near the CPU")]
    pub nr_serve_batch: u64,
    #[stat(desc = "Batch tasks taken that waited near another CPU of the domain")]
    pub nr_serve_pulled: u64,
    #[stat(desc = "Tasks taken from the queues of another domain")]
    pub nr_serve_stolen: u64,
    #[stat(desc = "Batch tasks served after enough turns of others")]
    pub nr_serve_deficit: u64,
    #[stat(desc = "Tasks served since they had waited too long")]
    pub nr_serve_rescued: u64,
    #[stat(desc = "Slices renewed without a switch")]
    pub nr_keep_running: u64,
    #[stat(desc = "Times a CPU looked for work and found none")]
    pub nr_dispatch_empty: u64,
    #[stat(desc = "Idle CPUs woken by a kick")]
    pub nr_kick_idle: u64,
    #[stat(desc = "Slices ended by a timer, between two ticks")]
    pub nr_slice_timer: u64,
    #[stat(desc = "Runs cut short with slice left")]
    pub nr_preempted: u64,
    #[stat(desc = "Runs that began on another CPU than the last one")]
    pub nr_migrate: u64,
    #[stat(desc = "Runs that began below another last-level cache than the last one")]
    pub nr_migrate_llc: u64,
    #[stat(desc = "Times a CPU was taken by a higher scheduling class")]
    pub nr_rt_release: u64,
    #[stat(desc = "Surges of enqueues that began")]
    pub nr_surges: u64,
    #[stat(desc = "Wakeups of latency-critical tasks: mean wait, in us")]
    pub lat_critical_mean_us: u64,
    #[stat(desc = "Wakeups of latency-critical tasks: p99 of the wait, in us")]
    pub lat_critical_p99_us: u64,
    #[stat(desc = "Wakeups of interactive tasks: mean wait, in us")]
    pub interactive_mean_us: u64,
    #[stat(desc = "Wakeups of interactive tasks: p99 of the wait, in us")]
    pub interactive_p99_us: u64,
    #[stat(desc = "Wakeups of batch tasks: mean wait, in us")]
    pub batch_mean_us: u64,
    #[stat(desc = "Wakeups of batch tasks: p99 of the wait, in us")]
    pub batch_p99_us: u64,
    #[stat(
        desc = "Latency-critical wakeups that found their L2 cache, in percent; 0 where all do"
    )]
    pub lat_critical_l2_hit_pct: f64,
    #[stat(desc = "Interactive wakeups that found their L2 cache, in percent; 0 where all do")]
    pub interactive_l2_hit_pct: f64,
    #[stat(desc = "Batch wakeups that found their L2 cache, in percent; 0 where all do")]
    pub batch_l2_hit_pct: f64,
    #[stat(desc = "Times a CPU asked for a performance")]
    pub nr_cpuperf_set: u64,
    #[stat(
        desc = "Performance that CPUs ask for at the end of the interval, on average: 0 to 1024, the most that each can do"
    )]
    pub cpuperf_target: u64,
    #[stat(
        desc = "Programs' threads that are remembered, at the end of the interval",
        _gauge
    )]
    pub nr_procdb: u64,
    #[stat(
        desc = "Those of them that are known well enough to begin as what they are",
        _gauge
    )]
    pub nr_procdb_known: u64,
    #[stat(desc = "Threads that began as their program is remembered")]
    pub nr_recalls: u64,
    #[stat(desc = "CPU time in the interval of the tasks that a rule confines, in ms")]
    pub confined_ms: u64,
    #[stat(
        desc = "CPUs that these tasks keep to, at the end of the interval; 0: all",
        _gauge
    )]
    pub nr_confined_cpus: u64,
    #[stat(desc = "Voluntary sleeps of at most 10 ms, in percent")]
    pub io_pct: f64,
    #[stat(desc = "Longest wait of a runnable task since the start, in us")]
    pub max_wait_us: u64,
}

impl Metrics {
    /// Report what `delta`, of [`Sample::since`], holds.
    pub fn new(delta: &Sample) -> Metrics {
        Metrics::counting(delta, delta)
    }

    /// Report what `delta` holds, but the counts of `counted`: what is told of the
    /// interval otherwise stays that of `delta`.
    pub fn counting(counted: &Sample, delta: &Sample) -> Metrics {
        let count = |id| counted.count(id);
        let nr_sleeps: u64 = delta.sleeps.iter().sum();

        Metrics {
            profile: delta.profile.to_string(),
            regime: delta
                .regime
                .map_or_else(|| "off".to_owned(), |regime| regime.to_string()),
            latency_target_us: delta.latency_target_ns / 1000,
            nr_cpus: delta.nr_online_cpus,
            nr_placed: counted.nr_placed(),
            idle_pct: percent(delta.count(stat_id_STAT_PLACE_IDLE), delta.nr_placed()),
            nr_idle: count(stat_id_STAT_PLACE_IDLE),
            nr_handoff: count(stat_id_STAT_PLACE_HANDOFF),
            nr_preempt: count(stat_id_STAT_PLACE_PREEMPT),
            nr_kthread: count(stat_id_STAT_PLACE_KTHREAD),
            nr_own: count(stat_id_STAT_PLACE_OWN),
            nr_interactive: count(stat_id_STAT_PLACE_INTERACTIVE),
            nr_batch: count(stat_id_STAT_PLACE_BATCH),
            nr_enq_wakeup: count(stat_id_STAT_ENQ_WAKEUP),
            nr_enq_requeue: count(stat_id_STAT_ENQ_REQUEUE),
            nr_enq_return: count(stat_id_STAT_ENQ_RETURN),
            nr_serve_own: count(stat_id_STAT_SERVE_OWN),
            nr_serve_interactive: count(stat_id_STAT_SERVE_INTERACTIVE),
            nr_serve_batch: count(stat_id_STAT_SERVE_BATCH),
            nr_serve_pulled: count(stat_id_STAT_SERVE_PULLED),
            nr_serve_stolen: count(stat_id_STAT_SERVE_STOLEN),
            nr_serve_deficit: count(stat_id_STAT_SERVE_DEFICIT),
            nr_serve_rescued: count(stat_id_STAT_SERVE_RESCUED),
            nr_keep_running: count(stat_id_STAT_KEEP_RUNNING),
            nr_dispatch_empty: count(stat_id_STAT_DISPATCH_EMPTY),
            nr_kick_idle: count(stat_id_STAT_KICK_IDLE),
            nr_slice_timer: count(stat_id_STAT_SLICE_TIMER),
            nr_preempted: count(stat_id_STAT_PREEMPTED),
            nr_migrate: count(stat_id_STAT_MIGRATE),
            nr_migrate_llc: count(stat_id_STAT_MIGRATE_LLC),
            nr_rt_release: count(stat_id_STAT_RT_RELEASE),
            nr_surges: count(stat_id_STAT_SURGE),
            lat_critical_mean_us: delta.wake_mean_us(tier_TIER_LAT_CRITICAL),
            lat_critical_p99_us: delta.wake_percentile_us(tier_TIER_LAT_CRITICAL, 99.0),
            interactive_mean_us: delta.wake_mean_us(tier_TIER_INTERACTIVE),
            interactive_p99_us: delta.wake_percentile_us(tier_TIER_INTERACTIVE, 99.0),
            batch_mean_us: delta.wake_mean_us(tier_TIER_BATCH),
            batch_p99_us: delta.wake_percentile_us(tier_TIER_BATCH, 99.0),
            lat_critical_l2_hit_pct: delta.l2_hit_pct(tier_TIER_LAT_CRITICAL),
            interactive_l2_hit_pct: delta.l2_hit_pct(tier_TIER_INTERACTIVE),
            batch_l2_hit_pct: delta.l2_hit_pct(tier_TIER_BATCH),
            nr_cpuperf_set: count(stat_id_STAT_CPUPERF_SET),
            cpuperf_target: delta.cpuperf_target_sum / delta.nr_online_cpus.max(1),
            nr_procdb: delta.nr_procdb,
            nr_procdb_known: delta.nr_procdb_known,
            nr_recalls: count(stat_id_STAT_RECALL),
            confined_ms: delta.count(stat_id_STAT_CONFINED_NS) / 1_000_000,
            nr_confined_cpus: delta.nr_confined_cpus,
            io_pct: percent(delta.sleeps[0] + delta.sleeps[1], nr_sleeps),
            max_wait_us: delta.max_wait_ns / 1000,
        }
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    100.0 * part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_holds_what_happened_in_it() {
        let mut earlier = Sample::default();
        earlier.nr[stat_id_STAT_PLACE_IDLE as usize] = 10;
        let mut now = earlier.clone();
        now.nr[stat_id_STAT_PLACE_IDLE as usize] = 13;
        now.nr[stat_id_STAT_PLACE_BATCH as usize] = 1;
        let metrics = Metrics::new(&now.since(&earlier));
        assert_eq!(
            (metrics.nr_idle, metrics.nr_batch, metrics.nr_placed),
            (3, 1, 4)
        );
        assert_eq!(metrics.idle_pct, 75.0);
    }

    #[test]
    fn totals_are_since_the_start_and_shares_of_the_interval() {
        let mut earlier = Sample::default();
        earlier.nr[stat_id_STAT_PLACE_IDLE as usize] = 10;
        let mut now = earlier.clone();
        now.nr[stat_id_STAT_PLACE_BATCH as usize] = 4;
        let metrics = Metrics::counting(&now, &now.since(&earlier));
        let counts = (metrics.nr_idle, metrics.nr_batch, metrics.nr_placed);
        assert_eq!(counts, (10, 4, 14));
        assert_eq!(metrics.idle_pct, 0.0);
    }

    #[test]
    fn l2_hits_are_a_share_of_the_wakeups_of_their_tier() {
        let mut earlier = Sample::default();
        earlier.l2_misses[tier_TIER_BATCH as usize] = 7;
        let mut now = earlier.clone();
        now.l2_hits[tier_TIER_BATCH as usize] = 3;
        now.l2_misses[tier_TIER_BATCH as usize] = 8;
        now.l2_hits[tier_TIER_INTERACTIVE as usize] = 5;
        let metrics = Metrics::new(&now.since(&earlier));
        let found = (
            metrics.batch_l2_hit_pct,
            metrics.interactive_l2_hit_pct,
            metrics.lat_critical_l2_hit_pct,
        );
        assert_eq!(found, (75.0, 100.0, 0.0));
    }

    #[test]
    fn what_cpus_ask_for_is_the_mean_of_now() {
        let earlier = Sample {
            nr_online_cpus: 4,
            cpuperf_target_sum: 4096,
            ..Sample::default()
        };
        let now = Sample {
            cpuperf_target_sum: 1024 + 512,
            ..earlier.clone()
        };
        assert_eq!(Metrics::new(&now.since(&earlier)).cpuperf_target, 384);
        assert_eq!(Metrics::new(&Sample::default()).cpuperf_target, 0);
    }

    #[test]
    fn a_counter_that_went_back_gives_nothing_rather_than_a_wrap() {
        let mut earlier = Sample::default();
        earlier.nr[stat_id_STAT_PLACE_IDLE as usize] = 10;
        let metrics = Metrics::new(&Sample::default().since(&earlier));
        assert_eq!(metrics.nr_idle, 0);
    }

    #[test]
    fn the_placement_paths_add_up_to_the_placed() {
        let mut sample = Sample::default();
        for (id, count) in sample.nr.iter_mut().enumerate() {
            *count = 1 << id;
        }
        let metrics = Metrics::new(&sample);
        let paths = metrics.nr_idle
            + metrics.nr_handoff
            + metrics.nr_preempt
            + metrics.nr_kthread
            + metrics.nr_own
            + metrics.nr_interactive
            + metrics.nr_batch;
        assert_eq!(paths, metrics.nr_placed);
    }
}
