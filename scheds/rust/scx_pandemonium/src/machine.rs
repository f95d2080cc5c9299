//! The machine: which CPUs are online, and what each of them shares with others.
//!
//! `scx_utils::Topology` reads it. It refuses a machine of which the kernel does not
//! know all: firmware of boards and of some arm64 machines names no packages or cores,
//! and the kernel then gives their ids as -1. Such a machine is read here, from the
//! same files: without an id a CPU is of package 0, and a core of its own.
//!
//! Limits: what is read here has no guess of capacities from frequencies.
//!
//! Not here: what the scheduler makes of it (topology).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use log::warn;
use scx_utils::compat::ROOT_PREFIX;
use scx_utils::{Topology, read_cpulist};

/// Below the root directory.
const CPUS_DIR: &str = "sys/devices/system/cpu";
const NODES_DIR: &str = "sys/devices/system/node";

/// The performance monitors of the big cores of a hybrid x86 machine name them.
const BIG_CORES_PATH: &str = "sys/devices/cpu_core/cpus";

/// The largest capacity.
const CAPACITY_MAX: usize = 1024;

/// A CPU that is online. Ids are unique within the whole machine unless they say
/// otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    pub core_id: usize,
    pub llc_id: usize,
    /// Within its LLC; `None` if the kernel knows no L2 cache of it.
    pub l2_id: Option<usize>,
    pub node_id: usize,
    /// By the kernel, up to 1024.
    pub kernel_capacity: Option<usize>,
    /// By what firmware and cpufreq say of its highest performance, up to 1024. That
    /// differs between cores of one size as well.
    pub guessed_capacity: usize,
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    pub cpus: BTreeMap<usize, Cpu>,
    /// By node, how far it is to each node.
    pub distances: BTreeMap<usize, Vec<usize>>,
    /// The CPUs that the kernel says to be of the big type; empty if it says nothing.
    pub big_type: BTreeSet<usize>,
}

impl Machine {
    /// The machine that this runs on.
    ///
    /// # Errors
    ///
    /// If the kernel does not say which CPUs are online.
    pub fn read() -> Result<Machine> {
        let root = PathBuf::from(format!("{}/", *ROOT_PREFIX));
        let mut machine = match Topology::new() {
            Ok(topo) => Machine::from(&topo),
            Err(err) => {
                warn!(
                    "the kernel does not know all of its CPUs ({err:#}): one without a package is \
                     of the first, one without a core is a core of its own"
                );
                Machine::read_at(&root)?
            }
        };
        machine.big_type = cpus_in(&root.join(BIG_CORES_PATH)).unwrap_or_default();
        Ok(machine)
    }

    /// The machine whose files are below `root`, as far as they say anything.
    fn read_at(root: &Path) -> Result<Machine> {
        let dir = root.join(CPUS_DIR);
        let online = cpus_in(&dir.join("online"));
        let online = online.context("reading which CPUs are online")?;
        let nodes = nodes_at(root);
        let mut ids = Ids::default();
        let cpu = |cpu: usize| {
            let dir = dir.join(format!("cpu{cpu}"));
            let node_id = nodes.iter().find(|(_, node)| node.cpus.contains(&cpu));
            let node_id = node_id.map_or(0, |(id, _)| *id);
            (cpu, ids.describe(&dir, cpu, node_id))
        };
        Ok(Machine {
            cpus: online.into_iter().map(cpu).collect(),
            distances: nodes
                .into_iter()
                .map(|(id, node)| (id, node.distances))
                .collect(),
            big_type: BTreeSet::new(),
        })
    }

    /// The CPUs by their LLC.
    pub fn llcs(&self) -> BTreeMap<usize, BTreeSet<usize>> {
        self.by(|cpu| cpu.llc_id)
    }

    /// The CPUs by their core.
    pub fn cores(&self) -> BTreeMap<usize, BTreeSet<usize>> {
        self.by(|cpu| cpu.core_id)
    }

    fn by(&self, id: impl Fn(&Cpu) -> usize) -> BTreeMap<usize, BTreeSet<usize>> {
        let mut groups: BTreeMap<_, BTreeSet<usize>> = BTreeMap::new();
        for (cpu_id, cpu) in &self.cpus {
            groups.entry(id(cpu)).or_default().insert(*cpu_id);
        }
        groups
    }
}

impl From<&Topology> for Machine {
    fn from(topo: &Topology) -> Machine {
        let cpus = topo.all_cpus.iter().map(|(id, cpu)| {
            let cpu = Cpu {
                core_id: cpu.core_id,
                llc_id: cpu.llc_id,
                l2_id: Some(cpu.l2_id).filter(|id| *id != usize::MAX),
                node_id: cpu.node_id,
                kernel_capacity: cpu.kernel_cpu_capacity,
                guessed_capacity: cpu.cpu_capacity,
            };
            (*id, cpu)
        });
        let nodes = topo.nodes.iter();
        Machine {
            cpus: cpus.collect(),
            distances: nodes
                .map(|(id, node)| (*id, node.distance.clone()))
                .collect(),
            big_type: BTreeSet::new(),
        }
    }
}

/// A NUMA node.
struct Node {
    cpus: BTreeSet<usize>,
    distances: Vec<usize>,
}

/// The nodes below `root`, by id; none if the kernel knows no nodes.
fn nodes_at(root: &Path) -> BTreeMap<usize, Node> {
    let entries = fs::read_dir(root.join(NODES_DIR)).into_iter().flatten();
    let node = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let id = name.to_str()?.strip_prefix("node")?.parse().ok()?;
        let cpus = cpus_in(&entry.path().join("cpulist")).unwrap_or_default();
        let distances = read(&entry.path().join("distance")).unwrap_or_default();
        let distances = distances.split_whitespace().flat_map(str::parse).collect();
        Some((id, Node { cpus, distances }))
    };
    entries.flatten().filter_map(node).collect()
}

/// Which ids were given to what, in the order in which it was seen.
#[derive(Default)]
struct Ids {
    /// By node, package, and core of the package.
    cores: BTreeMap<(usize, usize, CoreKey), usize>,
    /// By node, package, and the CPUs below the cache.
    llcs: BTreeMap<(usize, usize, String), usize>,
    /// By the CPUs below the cache.
    l2s: BTreeMap<String, usize>,
}

/// A core within its package.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum CoreKey {
    Known(usize),
    /// That of a CPU, and of no other.
    Own(usize),
}

impl Ids {
    /// CPU `cpu` of a node, whose files are in `dir`.
    fn describe(&mut self, dir: &Path, cpu: usize, node_id: usize) -> Cpu {
        let number = |file: &str| read(&dir.join(file))?.parse::<usize>().ok();
        let package = number("topology/physical_package_id").unwrap_or(0);
        let core = number("topology/core_id").map_or(CoreKey::Own(cpu), CoreKey::Known);
        let below = |index: usize| read(&dir.join(format!("cache/index{index}/shared_cpu_list")));
        let (l2, l3) = (below(2), below(3));
        let llc = l3.or_else(|| l2.clone()).unwrap_or_default();
        Cpu {
            core_id: id_of(&mut self.cores, (node_id, package, core)),
            llc_id: id_of(&mut self.llcs, (node_id, package, llc)),
            l2_id: l2.map(|l2| id_of(&mut self.l2s, l2)),
            node_id,
            kernel_capacity: number("cpu_capacity").filter(|capacity| *capacity > 0),
            guessed_capacity: CAPACITY_MAX,
        }
    }
}

/// The id of `key` among `ids`, a new one if it has none.
fn id_of<K: Ord>(ids: &mut BTreeMap<K, usize>, key: K) -> usize {
    let next = ids.len();
    *ids.entry(key).or_insert(next)
}

/// What a file says, if it says anything.
fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The CPUs that a file lists, such as `0-3,8`.
fn cpus_in(path: &Path) -> Option<BTreeSet<usize>> {
    let cpus = read_cpulist(&read(path)?).ok()?;
    Some(cpus.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// Files of a machine, by their path below the root directory.
    fn machine(files: &[(String, &str)]) -> Machine {
        let root = TempDir::new().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        Machine::read_at(root.path()).unwrap()
    }

    /// Four CPUs of one cache, of which each pair has these ids of package and core.
    fn four(ids: [(&'static str, &'static str); 2]) -> Vec<(String, &'static str)> {
        let mut files = vec![(format!("{CPUS_DIR}/online"), "0-3")];
        for cpu in 0..4 {
            let dir = format!("{CPUS_DIR}/cpu{cpu}");
            let (package, core) = ids[cpu / 2];
            files.push((format!("{dir}/topology/physical_package_id"), package));
            files.push((format!("{dir}/topology/core_id"), core));
            files.push((format!("{dir}/cache/index3/shared_cpu_list"), "0-3"));
        }
        files
    }

    fn core_ids(machine: &Machine) -> Vec<usize> {
        machine.cpus.values().map(|cpu| cpu.core_id).collect()
    }

    #[test]
    fn an_unknown_id_is_one_package_and_a_core_of_its_own() {
        for (ids, cores, nr_llcs) in [
            ([("0", "0"), ("0", "1")], [0, 0, 1, 1], 1),
            ([("-1", "0"), ("-1", "1")], [0, 0, 1, 1], 1),
            ([("-1", "-1"), ("-1", "-1")], [0, 1, 2, 3], 1),
            ([("0", "-1"), ("0", "7")], [0, 1, 2, 2], 1),
            // As scx_utils has it: no cache is below two packages.
            ([("0", "0"), ("1", "0")], [0, 0, 1, 1], 2),
            ([("", "nonsense"), ("", "-1")], [0, 1, 2, 3], 1),
        ] {
            let machine = machine(&four(ids));
            assert_eq!(core_ids(&machine), cores, "{ids:?}");
            assert_eq!(machine.llcs().len(), nr_llcs, "{ids:?}");
        }
    }

    #[test]
    fn a_machine_that_says_nothing_is_cores_below_one_cache() {
        let machine = machine(&[(format!("{CPUS_DIR}/online"), "0,2-3")]);
        let ids: Vec<usize> = machine.cpus.keys().copied().collect();
        assert_eq!(ids, [0, 2, 3]);
        assert_eq!(core_ids(&machine), [0, 1, 2]);
        assert_eq!(machine.llcs().len(), 1);
        let cpu = &machine.cpus[&2];
        assert_eq!(
            (cpu.l2_id, cpu.kernel_capacity, cpu.node_id),
            (None, None, 0)
        );
        assert!(Machine::read_at(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn nodes_caches_and_capacities_are_read_without_ids() {
        let mut files = four([("-1", "-1"); 2]);
        for (node, cpus, distance) in [(0, "0-1", "10 20"), (1, "2-3", "20 10")] {
            files.push((format!("{NODES_DIR}/node{node}/cpulist"), cpus));
            files.push((format!("{NODES_DIR}/node{node}/distance"), distance));
        }
        for (cpu, shared, capacity) in [(0, "0-1", "1024"), (1, "0-1", "1024"), (2, "2", "400")] {
            let dir = format!("{CPUS_DIR}/cpu{cpu}");
            files.push((format!("{dir}/cache/index2/shared_cpu_list"), shared));
            files.push((format!("{dir}/cpu_capacity"), capacity));
        }
        files.push((format!("{NODES_DIR}/online"), "0-1"));
        let machine = machine(&files);
        assert_eq!(machine.distances[&1], [20, 10]);
        let l2_ids: Vec<_> = machine.cpus.values().map(|cpu| cpu.l2_id).collect();
        assert_eq!(l2_ids, [Some(0), Some(0), Some(1), None]);
        let capacities = machine.cpus.values().map(|cpu| cpu.kernel_capacity);
        let capacities: Vec<_> = capacities.collect();
        assert_eq!(capacities, [Some(1024), Some(1024), Some(400), None]);
        let nodes: Vec<_> = machine.cpus.values().map(|cpu| cpu.node_id).collect();
        assert_eq!(nodes, [0, 0, 1, 1]);
        // A cache is of one node.
        assert_eq!(machine.llcs().len(), 2);
    }

    #[test]
    fn this_machine_is_the_same_to_both_readers() {
        let Ok(topo) = Topology::new() else {
            return;
        };
        let known = Machine::from(&topo);
        let read = Machine::read_at(Path::new("/")).unwrap();
        let groups = |machine: &Machine| {
            let of = |groups: BTreeMap<usize, BTreeSet<usize>>| -> BTreeSet<_> {
                groups.into_values().collect()
            };
            (of(machine.llcs()), of(machine.cores()))
        };
        assert_eq!(groups(&read), groups(&known));
    }
}
