// SPDX-License-Identifier: GPL-2.0
//! What the CPUs of this machine share, and a pair of CPUs for each way to share.
//!
//! All of it is what sysfs tells. In a virtual machine that is what the
//! hypervisor makes up, and where its virtual CPUs run may differ.
//!
//! Not here: any measurement.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::cpu_list;

/// One cache that holds data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cache {
    /// 1 is the nearest.
    pub level: u32,
    pub bytes: usize,
    pub line_bytes: usize,
    /// The CPUs that use it.
    pub shared: BTreeSet<u32>,
}

/// One CPU and what it shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cpu {
    pub id: u32,
    pub package: i32,
    /// The CPUs of its core, itself among them.
    pub core: BTreeSet<u32>,
    /// Nearest first.
    pub caches: Vec<Cache>,
}

/// The nearest thing that two CPUs share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// They are SMT siblings: one core.
    Core,
    /// The L2 cache.
    L2,
    /// The L3 cache.
    L3,
    /// The package, and no cache.
    Package,
    /// Nothing but memory.
    Machine,
}

impl Relation {
    /// All, nearest first.
    pub const ALL: [Self; 5] = [Self::Core, Self::L2, Self::L3, Self::Package, Self::Machine];
}

impl fmt::Display for Relation {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.pad(match self {
            Self::Core => "SMT siblings",
            Self::L2 => "same L2",
            Self::L3 => "same L3",
            Self::Package => "another L3 of the package",
            Self::Machine => "another package",
        })
    }
}

/// Two CPUs to be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    /// The one that reads what the other has written, and whose time counts.
    pub here: u32,
    pub there: u32,
    pub relation: Relation,
}

/// Two different CPUs as they are typed, such as `0,1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuPair {
    /// The CPU whose time counts.
    pub here: u32,
    /// The other one.
    pub there: u32,
}

impl FromStr for CpuPair {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let cpus = text.split_once(',').and_then(|(here, there)| {
            Some((here.trim().parse().ok()?, there.trim().parse().ok()?))
        });
        match cpus {
            Some((here, there)) if here != there => Ok(Self { here, there }),
            _ => bail!("two different CPUs are wanted, such as 0,1"),
        }
    }
}

/// What `root`, which is `/sys/devices/system/cpu`, tells of `ids`, in their order.
///
/// # Errors
///
/// If it tells nothing of the caches of one of them, or what makes no sense.
pub(super) fn read(root: &Path, ids: &BTreeSet<u32>) -> Result<Vec<Cpu>> {
    let read_one = |&id: &u32| {
        read_cpu(root, id).with_context(|| format!("{}: what CPU {id} shares", root.display()))
    };
    ids.iter().map(read_one).collect()
}

/// For each relation that there is, nearest first, the pair of the lowest numbers.
pub(super) fn representatives(cpus: &[Cpu]) -> Vec<Pair> {
    let all = || {
        let firsts = cpus.iter().enumerate();
        firsts.flat_map(|(index, a)| cpus[index + 1..].iter().map(move |b| pair(a, b)))
    };
    let first_of = |relation: Relation| all().find(|pair| pair.relation == relation);
    Relation::ALL.into_iter().filter_map(first_of).collect()
}

/// The pair that the user chose of `cpus`.
///
/// # Errors
///
/// If one of the two is not among them.
pub(super) fn chosen(cpus: &[Cpu], wanted: CpuPair) -> Result<Pair> {
    let find = |id: u32| match cpus.iter().find(|cpu| cpu.id == id) {
        Some(cpu) => Ok(cpu),
        None => {
            let ids: Vec<String> = cpus.iter().map(|cpu| cpu.id.to_string()).collect();
            bail!(
                "--cpus: CPU {id} is not one that may be used here: {}",
                ids.join(",")
            )
        }
    };
    Ok(pair(find(wanted.here)?, find(wanted.there)?))
}

fn pair(a: &Cpu, b: &Cpu) -> Pair {
    let has_common = |level: u32| {
        let mut caches = a.caches.iter().filter(|cache| cache.level == level);
        caches.any(|cache| cache.shared.contains(&b.id))
    };
    let relation = match () {
        () if a.core.contains(&b.id) => Relation::Core,
        () if has_common(2) => Relation::L2,
        () if has_common(3) => Relation::L3,
        () if a.package == b.package => Relation::Package,
        () => Relation::Machine,
    };
    Pair {
        here: a.id,
        there: b.id,
        relation,
    }
}

fn read_cpu(root: &Path, id: u32) -> Result<Cpu> {
    let dir = root.join(format!("cpu{id}"));
    // The second name is that of kernels before 5.3. Without either, and where
    // the package is unknown, a CPU is a core of its own in the one package.
    let core = ["core_cpus_list", "thread_siblings_list"]
        .iter()
        .find_map(|name| cpu_list::parse(&word(&dir.join("topology").join(name)).ok()?));
    let package = word(&dir.join("topology/physical_package_id"));
    Ok(Cpu {
        id,
        package: package.ok().and_then(|text| text.parse().ok()).unwrap_or(0),
        core: core.unwrap_or_else(|| BTreeSet::from([id])),
        caches: read_caches(&dir.join("cache"))?,
    })
}

fn read_caches(dir: &Path) -> Result<Vec<Cache>> {
    let mut caches = Vec::new();
    for index in 0.. {
        let dir = dir.join(format!("index{index}"));
        if !dir.is_dir() {
            break;
        }
        if word(&dir.join("type"))? == "Instruction" {
            continue;
        }
        let shared = word(&dir.join("shared_cpu_list"))?;
        caches.push(Cache {
            level: number(&dir.join("level"))? as u32,
            bytes: bytes(&word(&dir.join("size"))?).context("a size that is none")?,
            line_bytes: number(&dir.join("coherency_line_size"))?,
            shared: cpu_list::parse(&shared).context("a list of CPUs that is none")?,
        });
    }
    if caches.is_empty() {
        bail!("no cache is listed");
    }
    caches.sort_by_key(|cache| cache.level);
    Ok(caches)
}

/// Bytes of a size such as `32K`, as sysfs has it.
fn bytes(size: &str) -> Option<usize> {
    let (number, shift) = match size.split_at_checked(size.len().checked_sub(1)?)? {
        (number, "K") => (number, 10),
        (number, "M") => (number, 20),
        _ => (size, 0),
    };
    let number: usize = number.parse().ok().filter(|&number| number > 0)?;
    number.checked_mul(1 << shift)
}

fn number(path: &Path) -> Result<usize> {
    let text = word(path)?;
    let number = text.parse().ok().filter(|&number| number > 0);
    number.with_context(|| format!("{} holds `{text}`", path.display()))
}

fn word(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(text.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPUs by number, each with the numbers of its package, L3, L2 and core.
    fn machine(places: &[[i32; 4]]) -> Vec<Cpu> {
        let sharing = |id: usize, depth: usize| -> BTreeSet<u32> {
            let same = |&other: &usize| places[other][..=depth] == places[id][..=depth];
            (0..places.len()).filter(same).map(|id| id as u32).collect()
        };
        let cpu = |id: usize| Cpu {
            id: id as u32,
            package: places[id][0],
            core: sharing(id, 3),
            caches: [(1, 3), (2, 2), (3, 1)]
                .map(|(level, depth)| Cache {
                    level,
                    bytes: 1 << 20,
                    line_bytes: 64,
                    shared: sharing(id, depth),
                })
                .to_vec(),
        };
        (0..places.len()).map(cpu).collect()
    }

    fn pairs(cpus: &[Cpu]) -> Vec<(Relation, u32, u32)> {
        let pairs = representatives(cpus).into_iter();
        pairs
            .map(|pair| (pair.relation, pair.here, pair.there))
            .collect()
    }

    #[test]
    fn each_relation_is_measured_once_by_the_lowest_cpus() {
        let cpus = machine(&[
            [0, 0, 0, 0],
            [0, 0, 0, 1],
            [0, 0, 1, 2],
            [0, 1, 2, 3],
            [1, 2, 3, 4],
            [0, 0, 0, 0],
            [1, 2, 3, 5],
        ]);
        let expected = [
            (Relation::Core, 0, 5),
            (Relation::L2, 0, 1),
            (Relation::L3, 0, 2),
            (Relation::Package, 0, 3),
            (Relation::Machine, 0, 4),
        ];
        assert_eq!(pairs(&cpus), expected);
    }

    #[test]
    fn relations_that_do_not_exist_are_left_out() {
        assert_eq!(pairs(&machine(&[[0, 0, 0, 0]])), []);
        let two = machine(&[[0, 0, 0, 0], [0, 0, 1, 1]]);
        assert_eq!(pairs(&two), [(Relation::L3, 0, 1)]);
        // The first CPU has no sibling, the pair of others has.
        let hybrid = machine(&[[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]);
        assert_eq!(
            pairs(&hybrid),
            [(Relation::Core, 1, 2), (Relation::L3, 0, 1)]
        );
    }

    #[test]
    fn a_chosen_pair_keeps_its_order_and_must_be_usable() {
        let cpus = machine(&[[0, 0, 0, 0], [0, 1, 1, 1]]);
        let pair = chosen(&cpus, "1,0".parse().unwrap()).unwrap();
        assert_eq!((pair.here, pair.there), (1, 0));
        assert_eq!(pair.relation, Relation::Package);
        let refused = chosen(&cpus, "0,7".parse().unwrap()).unwrap_err();
        assert!(refused.to_string().contains("CPU 7"), "{refused}");
    }

    #[test]
    fn a_pair_is_two_different_numbers() {
        for text in ["0", "0,", "1,1", "a,b", "0,1,2", "-1,0"] {
            assert!(text.parse::<CpuPair>().is_err(), "{text}");
        }
    }

    #[test]
    fn sysfs_is_read_without_caches_of_instructions() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join("cpu3").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        };
        let ids = BTreeSet::from([3]);
        assert!(read(dir.path(), &ids).is_err(), "no caches");
        for (index, words) in [
            ["2", "Unified", "1024K", "3-4", "64"],
            ["1", "Instruction", "32K", "3", "64"],
            ["1", "Data", "48K", "3", "64"],
        ]
        .iter()
        .enumerate()
        {
            let names = [
                "level",
                "type",
                "size",
                "shared_cpu_list",
                "coherency_line_size",
            ];
            for (name, text) in names.iter().zip(words) {
                write(&format!("cache/index{index}/{name}"), text);
            }
        }
        write("topology/core_cpus_list", "3,7");
        write("topology/physical_package_id", "1");
        let cache = |level, kib: usize, shared: &[u32]| Cache {
            level,
            bytes: kib << 10,
            line_bytes: 64,
            shared: shared.iter().copied().collect(),
        };
        let expected = Cpu {
            id: 3,
            package: 1,
            core: BTreeSet::from([3, 7]),
            caches: vec![cache(1, 48, &[3]), cache(2, 1024, &[3, 4])],
        };
        assert_eq!(read(dir.path(), &ids).unwrap(), [expected]);
        write("cache/index0/size", "much");
        assert!(read(dir.path(), &ids).is_err());
    }

    #[test]
    fn sizes_are_those_of_sysfs() {
        let sizes = ["32K", "2M", "512", "K", "", "0K", "1G"].map(bytes);
        let expected = [
            Some(32 << 10),
            Some(2 << 20),
            Some(512),
            None,
            None,
            None,
            None,
        ];
        assert_eq!(sizes, expected);
    }
}
