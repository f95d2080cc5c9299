// SPDX-License-Identifier: GPL-2.0
//! The caches that a guest is given for counting.
//!
//! *Which accesses would miss on a machine like that one?* An emulated CPU has no
//! caches. With [`crate::Guest::caches`] each access also goes through a model of
//! three levels, and what it meets there is counted ([`crate::Span`]). The guest
//! notices nothing: its clock and all of its results are those without.
//!
//! Sizes are of data. Instructions, page tables, prefetching and the time that a miss
//! takes are not modelled; plugin/cache_model.h has the rules.
//!
//! Not here: the model itself (plugin/), its files in a run (`plugin`), what was
//! counted (`spans`).

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result, Topology};

/// Bytes of a line, of all machines that a guest can be like.
const LINE_BYTES: u64 = 64;

/// Far more than the ways of any cache; they are looked through one by one.
const NR_WAYS_MAX: u32 = 64;

/// As large as a cache can be.
const SIZE_BYTES_MAX: u64 = 1 << 30;

/// As many L2 caches, and L3 caches, as the model can tell apart.
const NR_CACHES_MAX: u32 = 64;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Caches of machines that people have, by name, sizes as their makers tell them. Who
/// shares which is the topology's affair.
pub const CACHE_PRESETS: &[(&str, Caches, &str)] = &[
    (
        "zen5-2ccd",
        Caches::new((48 * KIB, 12), (MIB, 16), (32 * MIB, 16)),
        "a Ryzen 9 9950X; its topology is 16core-2ccx",
    ),
    (
        "raptor-lake",
        Caches::new((48 * KIB, 12), (2 * MIB, 16), (36 * MIB, 12)),
        "the fast cores of a Core i9-13900K; its topology is 13900k",
    ),
    (
        "xeon",
        Caches::new((48 * KIB, 12), (2 * MIB, 16), (60 * MIB, 15)),
        "a Xeon Gold 6430; two of them are like the topology 2socket-64",
    ),
    (
        "laptop-4",
        Caches::new((32 * KIB, 8), (512 * KIB, 8), (8 * MIB, 16)),
        "a Ryzen 3 5400U; its topology is 1x1x4x2",
    ),
    (
        "sketch",
        Caches::new((32 * KIB, 8), (MIB, 8), (16 * MIB, 16)),
        "round numbers, of no machine in particular",
    ),
];

/// One level of caches, all alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Bytes of one cache: a multiple of 64 times the ways, up to 1 GiB. The number of
    /// sets, which that gives, need not be a power of two.
    pub size_bytes: u64,
    /// Ways of a set, 1 to 64.
    pub nr_ways: u32,
    /// How many consecutive CPUs share a cache. `None` is what the topology says: the
    /// threads of a core for L1 and L2, all CPUs below a last-level cache for the L3.
    pub nr_cpus: Option<u32>,
}

/// Caches of three levels, with lines of 64 bytes, that replace what was used least
/// recently.
///
/// Written as a name of [`CACHE_PRESETS`], or as `l1=32K/8,l2=1M/8,l3=16M/16`: size
/// and ways of each level, and where the topology is not to say it, how many CPUs
/// share a cache (`l2=2M/16/4`). A level after a name is another than the name's;
/// `top=10` asks for the ten most expensive lines and instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caches {
    /// Data caches of the first level.
    pub l1: Level,
    /// Caches of the second level: each has all that is in its L1s.
    pub l2: Level,
    /// Caches of the last level: each has what passed it, until it is replaced.
    pub l3: Level,
    /// How many lines that CPUs take from each other, and how many instructions of each
    /// kind that meet such lines, a [`crate::Span`] names. 0, which is usual, spares
    /// the work.
    pub nr_top: u32,
}

impl Caches {
    /// Caches with so many bytes and ways, shared as the topology says. Any numbers are
    /// taken here; a guest's start refuses what cannot be.
    pub const fn new(l1: (u64, u32), l2: (u64, u32), l3: (u64, u32)) -> Self {
        Self {
            l1: Level::new(l1),
            l2: Level::new(l2),
            l3: Level::new(l3),
            nr_top: 0,
        }
    }

    /// The same, and a span names `nr_top` lines and instructions.
    pub const fn top(mut self, nr_top: u32) -> Self {
        self.nr_top = nr_top;
        self
    }

    /// An error unless a machine of `topology` can have such caches.
    pub fn check(&self, topology: Topology) -> Result<()> {
        for (name, level) in [("l1", self.l1), ("l2", self.l2), ("l3", self.l3)] {
            level.check(name)?;
        }
        if self.l1.size_bytes > self.l2.size_bytes {
            return Err(Error::Caches(
                "l2 has all that l1 has, so it cannot be smaller".to_owned(),
            ));
        }
        let [l1, l2, l3] = self.nr_sharing_cpus(topology);
        for (below, nr_below, above, nr_above) in [("l1", l1, "l2", l2), ("l2", l2, "l3", l3)] {
            if nr_below == 0 || nr_above % nr_below != 0 {
                return Err(Error::Caches(format!(
                    "{nr_above} CPUs below one {above} are not a multiple of the {nr_below} below \
                     one {below}"
                )));
            }
        }
        match topology.nr_cpus().div_ceil(l2) {
            0..=NR_CACHES_MAX => Ok(()),
            nr_l2s => Err(Error::Caches(format!(
                "{topology} would have {nr_l2s} l2 caches, at most {NR_CACHES_MAX} can be modelled"
            ))),
        }
    }

    /// How many CPUs share one of each level.
    fn nr_sharing_cpus(&self, topology: Topology) -> [u32; 3] {
        let threads = topology.threads;
        [
            self.l1.nr_cpus.unwrap_or(threads),
            self.l2.nr_cpus.unwrap_or(threads),
            self.l3.nr_cpus.unwrap_or(topology.nr_cpus_per_llc()),
        ]
    }

    /// The plugin's options for them.
    pub(crate) fn plugin_options(&self, topology: Topology) -> String {
        let levels = [("l1", self.l1), ("l2", self.l2), ("l3", self.l3)];
        let words: Vec<String> = levels
            .into_iter()
            .zip(self.nr_sharing_cpus(topology))
            .map(|((name, level), nr_cpus)| {
                format!("{name}={}:{}:{nr_cpus}", level.nr_sets(), level.nr_ways)
            })
            .collect();
        let has_meetings = u8::from(self.nr_top > 0);
        format!("{},meetings={has_meetings}", words.join(","))
    }
}

impl Level {
    const fn new((size_bytes, nr_ways): (u64, u32)) -> Self {
        Self {
            size_bytes,
            nr_ways,
            nr_cpus: None,
        }
    }

    fn nr_sets(&self) -> u64 {
        self.size_bytes / (LINE_BYTES * u64::from(self.nr_ways.max(1)))
    }

    fn check(&self, name: &str) -> Result<()> {
        let bad = |why: String| Err(Error::Caches(format!("{name}={self}: {why}")));
        if !(1..=NR_WAYS_MAX).contains(&self.nr_ways) {
            return bad(format!("a cache has 1 to {NR_WAYS_MAX} ways"));
        }
        if self.size_bytes == 0 || self.size_bytes > SIZE_BYTES_MAX {
            return bad("a cache has 64 bytes to 1G".to_owned());
        }
        let set_bytes = LINE_BYTES * u64::from(self.nr_ways);
        if !self.size_bytes.is_multiple_of(set_bytes) {
            return bad(format!("the size is not a multiple of {set_bytes} bytes"));
        }
        match self.nr_cpus {
            Some(0) => bad("no CPU below it".to_owned()),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = match self.size_bytes {
            bytes if bytes >= MIB && bytes.is_multiple_of(MIB) => (bytes / MIB, "M"),
            bytes if bytes >= KIB && bytes.is_multiple_of(KIB) => (bytes / KIB, "K"),
            bytes => (bytes, ""),
        };
        write!(f, "{number}{unit}/{}", self.nr_ways)?;
        match self.nr_cpus {
            Some(nr_cpus) => write!(f, "/{nr_cpus}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "l1={},l2={},l3={}", self.l1, self.l2, self.l3)?;
        match self.nr_top {
            0 => Ok(()),
            nr_top => write!(f, ",top={nr_top}"),
        }
    }
}

impl FromStr for Level {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || {
            Error::Caches(format!(
                "{text:?} is not SIZE/WAYS or SIZE/WAYS/CPUS, such as 48K/12"
            ))
        };
        let words: Vec<&str> = text.split('/').collect();
        let (size, ways, cpus) = match *words.as_slice() {
            [size, ways] => (size, ways, None),
            [size, ways, cpus] => (size, ways, Some(cpus)),
            _ => return Err(bad()),
        };
        let (number, unit_bytes) = match size.strip_suffix('K') {
            Some(number) => (number, KIB),
            None => match size.strip_suffix('M') {
                Some(number) => (number, MIB),
                None => (size, 1),
            },
        };
        let number: u64 = number.parse().map_err(|_| bad())?;
        Ok(Self {
            size_bytes: number.checked_mul(unit_bytes).ok_or_else(bad)?,
            nr_ways: ways.parse().map_err(|_| bad())?,
            nr_cpus: cpus
                .map(str::parse)
                .transpose()
                .map_err(|_: std::num::ParseIntError| bad())?,
        })
    }
}

impl FromStr for Caches {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (mut l1, mut l2, mut l3, mut nr_top) = (None, None, None, 0);
        for (at, word) in text.split(',').enumerate() {
            match word.split_once('=') {
                Some(("l1", level)) => l1 = Some(level.parse()?),
                Some(("l2", level)) => l2 = Some(level.parse()?),
                Some(("l3", level)) => l3 = Some(level.parse()?),
                Some(("top", number)) => {
                    nr_top = number
                        .parse()
                        .map_err(|_| Error::Caches(format!("top={number} is no number")))?;
                }
                None if at == 0 => {
                    let preset = preset(word)?;
                    (l1, l2, l3) = (Some(preset.l1), Some(preset.l2), Some(preset.l3));
                }
                _ => {
                    return Err(Error::Caches(format!(
                        "{word:?} is none of l1=, l2=, l3= and top="
                    )));
                }
            }
        }
        let (Some(l1), Some(l2), Some(l3)) = (l1, l2, l3) else {
            return Err(Error::Caches(format!(
                "{text:?} does not name all of l1, l2 and l3, such as l1=32K/8,l2=1M/8,l3=16M/16"
            )));
        };
        let caches = Self { l1, l2, l3, nr_top };
        for (name, level) in [("l1", l1), ("l2", l2), ("l3", l3)] {
            level.check(name)?;
        }
        Ok(caches)
    }
}

/// The preset called `name`.
fn preset(name: &str) -> Result<Caches> {
    match CACHE_PRESETS.iter().find(|(of, ..)| *of == name) {
        Some((_, caches, _)) => Ok(*caches),
        None => {
            let names: Vec<&str> = CACHE_PRESETS.iter().map(|(name, ..)| *name).collect();
            Err(Error::Caches(format!(
                "{name:?} is none of {}, nor like l1=32K/8,l2=1M/8,l3=16M/16",
                names.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_error(text: &str) -> String {
        text.parse::<Caches>().unwrap_err().to_string()
    }

    #[test]
    fn presets_are_caches_that_a_guest_can_have() {
        for (name, caches, about) in CACHE_PRESETS {
            assert_eq!(name.parse::<Caches>().unwrap(), *caches, "{about}");
            for (_, topology, _) in crate::PRESETS {
                caches.check(*topology).unwrap();
            }
        }
    }

    #[test]
    fn text_and_caches_are_the_same_both_ways() {
        for text in [
            "l1=48K/12,l2=2M/16/4,l3=36M/12",
            "l1=576/3,l2=1K/2,l3=16M/16/8,top=3",
        ] {
            assert_eq!(text.parse::<Caches>().unwrap().to_string(), text);
        }
        let other: Caches = "sketch,l3=8M/16,top=10".parse().unwrap();
        assert_eq!(other.to_string(), "l1=32K/8,l2=1M/8,l3=8M/16,top=10");
    }

    #[test]
    fn the_topology_says_who_shares() {
        let caches: Caches = "zen5-2ccd".parse().unwrap();
        assert_eq!(
            caches.plugin_options("16core-2ccx".parse().unwrap()),
            "l1=64:12:2,l2=1024:16:2,l3=32768:16:16,meetings=0"
        );
        let caches: Caches = "raptor-lake,l2=2M/16/4,top=1".parse().unwrap();
        assert_eq!(
            caches.plugin_options(Topology::flat(8)),
            "l1=64:12:1,l2=2048:16:4,l3=49152:12:8,meetings=1"
        );
    }

    #[test]
    fn what_cannot_be_is_refused_and_told() {
        for (text, why) in [
            ("zen6", "raptor-lake"),
            ("", "none of zen5-2ccd"),
            ("l1=32K/8,l2=1M/8", "does not name all"),
            ("sketch,l4=1M/8", "none of l1="),
            ("sketch,laptop-4", "none of l1="),
            ("sketch,l1=32K", "SIZE/WAYS"),
            ("sketch,l1=32G/8", "SIZE/WAYS"),
            ("sketch,l1=-1K/8", "SIZE/WAYS"),
            ("sketch,l1=32K/8/1/1", "SIZE/WAYS"),
            ("sketch,l1=99999999999999999999M/8", "SIZE/WAYS"),
            ("sketch,l1=18446744073709551615M/8", "SIZE/WAYS"),
            ("sketch,l1=32K/0", "1 to 64 ways"),
            ("sketch,l1=32K/65", "1 to 64 ways"),
            ("sketch,l1=0K/8", "64 bytes to 1G"),
            ("sketch,l3=2048M/8", "64 bytes to 1G"),
            ("sketch,l1=33K/7/1", "not a multiple of 448 bytes"),
            ("sketch,l1=32K/8/0", "no CPU below it"),
            ("sketch,top=x", "top=x"),
        ] {
            let error = parse_error(text);
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn what_a_machine_cannot_have_is_refused_and_told() {
        let flat = Topology::flat(8);
        for (text, topology, why) in [
            ("sketch,l1=2M/8", flat, "cannot be smaller"),
            ("sketch,l2=1M/8/3", flat, "8 CPUs below one l3"),
            ("sketch,l1=32K/8/2", flat, "1 CPUs below one l2"),
            ("sketch", Topology::flat(65), "65 l2 caches"),
        ] {
            let caches: Caches = text.parse().unwrap();
            let error = caches.check(topology).unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
        let caches: Caches = "sketch".parse().unwrap();
        caches.check(Topology::new(1, 1, 64, 2)).unwrap();
        assert!(caches.check(Topology::new(1, 1, 8, 0)).is_err());
    }
}
