//! What was seen of one program's threads, and what that lets expect.
//!
//! Integers only, so that the same observations give the same profile on every
//! machine.
//!
//! Not here: which threads a profile is of (procdb), how they are seen (learner).

use serde::{Deserialize, Serialize};

use crate::bpf_intf::{intf_consts_NSEC_PER_MSEC, tier_NR_TIERS};
use crate::hint::Tier;

/// Shares and confidences are parts of this.
pub const ONE: u32 = 1024;

/// Observations before anything is expected.
const NR_OBSERVATIONS_MIN: u32 = 3;

/// Confidence from which a profile is believed: 0.6.
const CONFIDENCE_MIN: u32 = ONE * 6 / 10;

/// Days without an observation after which a profile counts for nothing. One that
/// was always the same is believed for two fifths of that.
pub const STALE_DAYS: u32 = 60;

/// Longest average that is told apart from others: twice what makes a burst batch
/// work. That of a hog grows without an end.
const RUNTIME_MAX_NS: u64 = 32 * intf_consts_NSEC_PER_MSEC as u64;

/// A change of the expected average by less than one part in so many is none.
const DRIFT_PART: u64 = 8;

const NR_TIERS: usize = tier_NR_TIERS as usize;
const TIERS: [Tier; NR_TIERS] = [Tier::Batch, Tier::Interactive, Tier::LatCritical];

/// One thread as it was seen: what it has shown itself to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Its tier.
    pub tier: Tier,
    /// Average CPU time between two sleeps, in ns.
    pub avg_runtime_ns: u64,
    /// Latency-criticality score.
    pub score: u64,
}

/// What to expect of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// The tier to begin in.
    pub tier: Tier,
    /// The average to begin with, in ns, above 0.
    pub avg_runtime_ns: u64,
}

impl Prediction {
    /// Whether it differs from `other` by enough to tell.
    pub fn drifted_from(&self, other: &Prediction) -> bool {
        let moved = self.avg_runtime_ns.abs_diff(other.avg_runtime_ns);
        self.tier != other.tier || moved > other.avg_runtime_ns / DRIFT_PART
    }
}

/// What the threads of one name in a program were seen to be. An observation is
/// that of all of them together at one moment, and weighs as much as all earlier
/// ones: after two that are alike the profile says what they say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The tier that most votes are for; of two, the one that was seen later.
    pub tier: Tier,
    /// Votes by tier, from batch up, of [`ONE`] together.
    votes: [u32; NR_TIERS],
    /// Average of what was seen in that tier, in ns.
    pub avg_runtime_ns: u64,
    /// Mean deviation from that, in ns.
    pub deviation_ns: u64,
    /// Average score in that tier.
    pub score: u64,
    /// Observations, up to the largest number there is.
    pub nr_observations: u32,
    /// The day of the last one, since 1970.
    pub seen_day: u32,
}

/// The mean of sightings in one tier.
#[derive(Clone, Copy, Default)]
struct Mean {
    nr: u64,
    avg_runtime_ns: u64,
    score: u64,
}

impl Profile {
    /// The profile of threads of which the first is seen on `day`; `None` if
    /// there is none.
    pub fn new(sightings: &[Sighting], day: u32) -> Option<Profile> {
        let means = means(sightings);
        let votes = shares(&means)?;
        let tier = leading(&votes);
        let mean = means[tier as usize];
        Some(Profile {
            tier,
            votes,
            avg_runtime_ns: mean.avg_runtime_ns,
            deviation_ns: 0,
            score: mean.score,
            nr_observations: 1,
            seen_day: day,
        })
    }

    /// The threads were seen again, all of them at one moment of `day`.
    pub fn observe(&mut self, sightings: &[Sighting], day: u32) {
        let means = means(sightings);
        let Some(shares) = shares(&means) else {
            return;
        };
        self.nr_observations = self.nr_observations.saturating_add(1);
        self.seen_day = day;
        for (votes, share) in self.votes.iter_mut().zip(shares) {
            // Rounded up, so that what is seen always gets to the whole in time.
            *votes = (*votes + share).div_ceil(2).min(ONE);
        }
        let seen = leading(&shares);
        let mean = means[seen as usize];
        let is_other = seen != self.tier;
        if is_other && self.votes[seen as usize] >= self.votes[self.tier as usize] {
            // Another program by what it does: its averages are new.
            self.tier = seen;
            self.avg_runtime_ns = mean.avg_runtime_ns;
            self.deviation_ns = 0;
            self.score = mean.score;
        } else if !is_other {
            let deviation_ns = self.avg_runtime_ns.abs_diff(mean.avg_runtime_ns);
            self.deviation_ns = self.deviation_ns.midpoint(deviation_ns);
            self.avg_runtime_ns = self.avg_runtime_ns.midpoint(mean.avg_runtime_ns);
            self.score = self.score.midpoint(mean.score);
        }
    }

    /// How sure the profile is on `day`, of [`ONE`]: the share of votes for its
    /// tier, less up to half of it for an average that moves, less what age takes.
    pub fn confidence(&self, day: u32) -> u32 {
        let avg_ns = self.avg_runtime_ns.max(1);
        let unrest = self.deviation_ns.min(avg_ns) * u64::from(ONE) / avg_ns;
        // At most ONE, as is each factor.
        let convergence = ONE - u32::try_from(unrest).unwrap_or(ONE) / 2;
        let freshness = STALE_DAYS.saturating_sub(self.stale_days(day)) * ONE / STALE_DAYS;
        let votes = self.votes[self.tier as usize];
        votes * convergence / ONE * freshness / ONE
    }

    /// What to expect on `day`, if that is known.
    pub fn prediction(&self, day: u32) -> Option<Prediction> {
        let is_known =
            self.nr_observations >= NR_OBSERVATIONS_MIN && self.confidence(day) >= CONFIDENCE_MIN;
        is_known.then(|| Prediction {
            tier: self.tier,
            avg_runtime_ns: self.avg_runtime_ns.max(1),
        })
    }

    /// Days since it was seen; 0 if the clock was set back.
    pub fn stale_days(&self, day: u32) -> u32 {
        day.saturating_sub(self.seen_day)
    }

    /// Whether it is one that observations can give, on `day` or before; one of a
    /// file need not be. A day to come would never be stale.
    pub fn is_sound(&self) -> bool {
        self.votes.iter().all(|votes| *votes <= ONE)
            && self.avg_runtime_ns <= RUNTIME_MAX_NS
            && self.deviation_ns <= RUNTIME_MAX_NS
            && self.nr_observations > 0
    }
}

/// The mean of those of each tier.
fn means(sightings: &[Sighting]) -> [Mean; NR_TIERS] {
    let mut means = [Mean::default(); NR_TIERS];
    for sighting in sightings {
        let mean = &mut means[sighting.tier as usize];
        mean.nr += 1;
        mean.avg_runtime_ns += sighting.avg_runtime_ns.min(RUNTIME_MAX_NS);
        mean.score = mean.score.saturating_add(sighting.score);
    }
    for mean in &mut means {
        mean.avg_runtime_ns /= mean.nr.max(1);
        mean.score /= mean.nr.max(1);
    }
    means
}

/// The part of each tier; `None` if nothing was seen.
fn shares(means: &[Mean; NR_TIERS]) -> Option<[u32; NR_TIERS]> {
    let nr: u64 = means.iter().map(|mean| mean.nr).sum();
    let part = |mean: &Mean| u32::try_from(mean.nr * u64::from(ONE) / nr).unwrap_or(ONE);
    (nr > 0).then(|| std::array::from_fn(|tier| part(&means[tier])))
}

/// The tier with most votes; the lowest of several.
fn leading(votes: &[u32; NR_TIERS]) -> Tier {
    let mut leading = Tier::Batch;
    for tier in TIERS {
        if votes[tier as usize] > votes[leading as usize] {
            leading = tier;
        }
    }
    leading
}
