//! Which CPUs share a cache and which are big, as the tables that BPF reads.
//!
//! [`Machine`] is the machine as the kernel describes it; this turns it into one entry
//! for each CPU and each LLC domain. A domain is what is below a last-level cache,
//! or a part of that where many CPUs are. Domains are numbered from 0 in the
//! order of the ids of their caches and list their neighbours: those below the
//! same cache first, then those of the same NUMA node, then by the distance of
//! the nodes. L2 domains are numbered from 0 as well.
//!
//! No I/O and no BPF: tested on synthetic machines.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use scx_utils::read_cpulist;

use crate::bpf_intf::{cpu_topo, intf_consts_MAX_NEIGHBOURS, llc_topo};
use crate::machine::{Cpu, Machine};

/// How many neighbours a domain can list.
const MAX_NEIGHBOURS: usize = intf_consts_MAX_NEIGHBOURS as usize;

/// Cores differ in size where the capacities that the kernel gives them, in order, are
/// apart by this part of the largest.
const SIZE_GAP_PART: usize = 8;

/// Where capacities are a guess, by the highest performance or frequency, they have to
/// be apart by more: the larger is so many percent of the smaller. The best cores of a
/// size may turbo by a fifth more than others (5.1 GHz beside 4.3), and those that CPPC
/// prefers form a ladder of small steps, however long. Small cores of another design
/// are at 1.36 (12th Core generation) to 1.55 (Zen 5 beside Zen 5c); scx_utils takes
/// the same bound.
const GUESSED_GAP_PCT: usize = 130;

/// The CPUs of a domain share queues and a clock with a lock: so many at most, unless
/// there is an L2 cache of more.
const DOMAIN_CPUS_MAX: usize = 16;

/// The CPUs of an LLC domain.
struct Domain {
    cache_idx: usize,
    node_id: usize,
    cpus: Vec<usize>,
}

/// The topology maps of the BPF half.
pub struct Tables {
    /// One entry for each CPU id below the number of possible ids.
    pub cpus: Vec<cpu_topo>,
    /// One entry for each LLC domain.
    pub llcs: Vec<llc_topo>,
    /// Number of last-level caches.
    pub nr_caches: u32,
    /// Number of L2 domains.
    pub nr_l2s: u32,
    /// Whether cores have several CPUs.
    pub has_smt: bool,
    /// Whether an L2 domain holds several cores and is not all of its LLC.
    pub has_wide_l2: bool,
    /// Whether there are cores that are not big.
    pub has_small_cores: bool,
}

impl Tables {
    /// Describe `machine`, which has `nr_cpu_ids` possible CPU ids.
    ///
    /// # Errors
    ///
    /// If it has no CPU, or one beyond `nr_cpu_ids`.
    pub fn new(machine: &Machine, nr_cpu_ids: usize) -> Result<Tables> {
        ensure!(!machine.cpus.is_empty(), "the machine has no CPU");

        let domains = domains(machine);
        let idx_of: BTreeMap<usize, usize> = (0..)
            .zip(&domains)
            .flat_map(|(idx, domain)| domain.cpus.iter().map(move |cpu| (*cpu, idx)))
            .collect();

        let l2_idx_of = l2_indices(machine)?;
        let big_cpus = big_cpus(machine);
        let cores = machine.cores();
        let absent = cpu_topo {
            is_known: 0,
            llc_idx: 0,
            cache_idx: 0,
            l2_idx: 0,
            node_idx: 0,
            is_big: 1,
            pack_rank: u32::MAX,
            sibling: 0,
            next: 0,
        };
        let mut cpus = vec![absent; nr_cpu_ids];
        for (id, cpu) in &machine.cpus {
            let entry = cpus
                .get_mut(*id)
                .with_context(|| format!("CPU {id} is beyond the {nr_cpu_ids} possible ones"))?;
            let llc_idx = *idx_of
                .get(id)
                .with_context(|| format!("CPU {id} is in no LLC domain"))?;
            let of_domain = domains[llc_idx].cpus.iter().copied().collect();
            *entry = cpu_topo {
                is_known: 1,
                llc_idx: u32::try_from(llc_idx)?,
                cache_idx: u32::try_from(domains[llc_idx].cache_idx)?,
                l2_idx: l2_idx_of[&l2_key(cpu)],
                node_idx: u32::try_from(cpu.node_id)?,
                is_big: u32::from(big_cpus.contains(id)),
                pack_rank: u32::MAX,
                sibling: u32::try_from(next_of(&cores[&cpu.core_id], *id))?,
                next: u32::try_from(next_of(&of_domain, *id))?,
            };
        }
        for (rank, id) in (0u32..).zip(pack_order(machine, &big_cpus, &idx_of)) {
            cpus[id].pack_rank = rank;
        }

        let mut llcs = Vec::with_capacity(domains.len());
        for (idx, domain) in domains.iter().enumerate() {
            let neighbours = neighbours_of(machine, &domains, idx)?;
            let nr_cpus = u32::try_from(domain.cpus.len())?;
            let mut entry = llc_topo {
                nr_cpus,
                nr_scale_cpus: nr_cpus,
                first_cpu: u32::try_from(domain.cpus.first().copied().unwrap_or(0))?,
                cache_idx: u32::try_from(domain.cache_idx)?,
                node_idx: u32::try_from(domain.node_id)?,
                nr_neighbours: u32::try_from(neighbours.len())?,
                neighbours: [0; MAX_NEIGHBOURS],
            };
            entry.neighbours[..neighbours.len()].copy_from_slice(&neighbours);
            llcs.push(entry);
        }
        Ok(Tables {
            has_smt: cores.values().any(|core| core.len() > 1),
            has_wide_l2: has_wide_l2(machine),
            has_small_cores: cpus.iter().any(|cpu| cpu.is_big == 0),
            nr_caches: u32::try_from(machine.llcs().len())?,
            nr_l2s: u32::try_from(l2_idx_of.len())?,
            cpus,
            llcs,
        })
    }
}

impl Tables {
    /// Let what grows with the number of CPUs be as if there were `nr_cpus`: each
    /// domain has its part of them, but one at least.
    pub fn scale_to(&mut self, nr_cpus: u32) {
        let all: u64 = self.llcs.iter().map(|llc| u64::from(llc.nr_cpus)).sum();
        let part = |cpus: u64| cpus * u64::from(nr_cpus) / all.max(1);
        let mut before = 0;
        for llc in &mut self.llcs {
            let after = before + u64::from(llc.nr_cpus);
            let cpus = part(after) - part(before);
            llc.nr_scale_cpus = u32::try_from(cpus).unwrap_or(nr_cpus).max(1);
            before = after;
        }
    }
}

/// All domains, cache by cache.
fn domains(machine: &Machine) -> Vec<Domain> {
    let caches = machine.llcs();
    let caches = caches.values().enumerate();
    caches
        .flat_map(|(cache_idx, llc)| {
            let node_id = llc.first().map_or(0, |cpu| machine.cpus[cpu].node_id);
            let parts = parts_of(machine, llc).into_iter();
            parts.map(move |cpus| Domain {
                cache_idx,
                node_id,
                cpus,
            })
        })
        .collect()
}

/// The CPUs of the cache `llc` in as many parts as it takes.
fn parts_of(machine: &Machine, llc: &BTreeSet<usize>) -> Vec<Vec<usize>> {
    let mut by_l2: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for id in llc {
        by_l2
            .entry(l2_key(&machine.cpus[id]))
            .or_default()
            .push(*id);
    }
    let mut l2s: Vec<Vec<usize>> = by_l2.into_values().collect();
    l2s.sort();
    let least_nr = llc.len().div_ceil(DOMAIN_CPUS_MAX);
    let is_fit = |parts: &Vec<Vec<usize>>| parts.iter().all(|part| part.len() <= DOMAIN_CPUS_MAX);
    (least_nr..l2s.len())
        .map(|nr_parts| deal(&l2s, nr_parts))
        .find(is_fit)
        .unwrap_or(l2s)
}

/// `l2s` in `nr_parts`. L2 domains, which stay whole, are dealt out in turn, so that
/// each part has its cores of every size.
fn deal(l2s: &[Vec<usize>], nr_parts: usize) -> Vec<Vec<usize>> {
    let mut parts = vec![Vec::new(); nr_parts];
    for l2 in l2s {
        if let Some(least) = parts.iter_mut().min_by_key(|part| part.len()) {
            least.extend(l2);
        }
    }
    parts
}

/// What the CPUs of an L2 domain have in common: their LLC, and the cache's id.
/// Where the kernel knows no L2 cache, it is taken to be that of the core.
fn l2_key(cpu: &Cpu) -> (usize, usize, usize) {
    match cpu.l2_id {
        Some(l2_id) => (cpu.llc_id, l2_id, 0),
        None => (cpu.llc_id, usize::MAX, cpu.core_id),
    }
}

/// The index of each L2 domain.
fn l2_indices(machine: &Machine) -> Result<BTreeMap<(usize, usize, usize), u32>> {
    let keys: BTreeSet<_> = machine.cpus.values().map(l2_key).collect();
    keys.into_iter()
        .zip(0usize..)
        .map(|(key, idx)| Ok((key, u32::try_from(idx)?)))
        .collect()
}

/// The next of `cpus` after `cpu`, the first after the last; itself, if there is no
/// other.
fn next_of(cpus: &BTreeSet<usize>, cpu: usize) -> usize {
    let next = cpus.range(cpu + 1..).next().or(cpus.first());
    next.copied().unwrap_or(cpu)
}

/// Whether the L2 domain of a core says more of its neighbours than core and LLC.
fn has_wide_l2(machine: &Machine) -> bool {
    machine.llcs().values().any(|llc| {
        let cpus = || llc.iter().map(|id| &machine.cpus[id]);
        let keys: BTreeSet<_> = cpus().map(l2_key).collect();
        let cores: BTreeSet<_> = cpus().map(|cpu| cpu.core_id).collect();
        keys.len() > 1 && keys.len() < cores.len()
    })
}

/// The CPUs of big cores, which are all of them where cores are of one size. Sizes are
/// what the first of these says, if it says that there are several:
///
///   1. the kernel's capacities, at [`SIZE_GAP_PART`]: the kernel schedules by them;
///   2. the kernel's types of cores, which hybrid x86 machines have;
///   3. a guess of capacities, at [`GUESSED_GAP_PCT`].
fn big_cpus(machine: &Machine) -> BTreeSet<usize> {
    let cpus = &machine.cpus;
    let from = |least: usize, capacity: fn(&Cpu) -> usize| -> BTreeSet<usize> {
        let big = cpus.iter().filter(|(_, cpu)| capacity(cpu) >= least);
        big.map(|(id, _)| *id).collect()
    };

    // A CPU of which the kernel says nothing may be any.
    let by_kernel: Option<BTreeSet<usize>> = cpus.values().map(|cpu| cpu.kernel_capacity).collect();
    let largest = by_kernel.iter().flatten().last().copied().unwrap_or(0);
    let is_gap = |below, above| (above - below) * SIZE_GAP_PART >= largest;
    if let Some(least) = by_kernel.and_then(|capacities| above_gap(&capacities, is_gap)) {
        return from(least, |cpu| cpu.kernel_capacity.unwrap_or(0));
    }

    let is_of_big_type = |id: &&usize| machine.big_type.contains(*id);
    let big: BTreeSet<usize> = cpus.keys().filter(is_of_big_type).copied().collect();
    if !big.is_empty() && big.len() < cpus.len() {
        return big;
    }

    let guesses: BTreeSet<usize> = cpus.values().map(|cpu| cpu.guessed_capacity).collect();
    let is_gap = |below, above| above * 100 >= below * GUESSED_GAP_PCT;
    let least = above_gap(&guesses, is_gap).unwrap_or(0);
    from(least, |cpu| cpu.guessed_capacity)
}

/// What stands above the widest gap between two of `capacities`, of those that are one.
fn above_gap(capacities: &BTreeSet<usize>, is_gap: impl Fn(usize, usize) -> bool) -> Option<usize> {
    let pairs = capacities.iter().zip(capacities.iter().skip(1));
    let gaps = pairs.filter(|(below, above)| is_gap(**below, **above));
    let widest = gaps.max_by_key(|(below, above)| (*above - *below, *above));
    widest.map(|(_, above)| *above)
}

/// The ids of the CPUs in the order in which work is packed onto them: those that are
/// not among `big_cpus` first, a domain, by `idx_of` a CPU, after the other, the CPUs of
/// a core together.
fn pack_order(
    machine: &Machine,
    big_cpus: &BTreeSet<usize>,
    idx_of: &BTreeMap<usize, usize>,
) -> Vec<usize> {
    let mut ids: Vec<usize> = machine.cpus.keys().copied().collect();
    ids.sort_by_key(|id| {
        let core_id = machine.cpus[id].core_id;
        (big_cpus.contains(id), idx_of.get(id), core_id, *id)
    });
    ids
}

/// The other domains as seen from that of `own_idx`, nearest first; each domain
/// starts at the one after itself, so that not all of them rob the same one first.
fn neighbours_of(machine: &Machine, domains: &[Domain], own_idx: usize) -> Result<Vec<u32>> {
    let own = &domains[own_idx];
    let distance_to = |node_id: usize| -> usize {
        if node_id == own.node_id {
            return 0;
        }
        let distances = machine.distances.get(&own.node_id);
        let distance = distances.and_then(|distances| distances.get(node_id));
        distance.copied().unwrap_or(usize::MAX)
    };

    let mut others: Vec<(bool, usize, usize, usize)> = domains
        .iter()
        .enumerate()
        .filter(|(idx, _)| *idx != own_idx)
        .map(|(idx, other)| {
            let is_elsewhere = other.cache_idx != own.cache_idx;
            let steps = (idx + domains.len() - own_idx) % domains.len();
            (is_elsewhere, distance_to(other.node_id), steps, idx)
        })
        .collect();
    others.sort_unstable();
    others
        .into_iter()
        .take(MAX_NEIGHBOURS)
        .map(|(_, _, _, idx)| Ok(u32::try_from(idx)?))
        .collect()
}

/// Whether a list of CPUs, such as `0-3,8`, has one with an id of `nr_cpu_ids` or more.
///
/// # Errors
///
/// If it is no such list.
pub fn has_beyond(cpulist: &str, nr_cpu_ids: usize) -> Result<bool> {
    let cpus = read_cpulist(cpulist.trim())?;
    Ok(cpus.iter().any(|cpu| *cpu >= nr_cpu_ids))
}

#[cfg(test)]
mod tests {
    use scx_utils::testutils::make_test_topo;

    use super::*;

    /// A machine of so many nodes, LLCs of each, cores and threads, and how many CPUs it
    /// has.
    fn machine([nodes, llcs, cores, threads]: [usize; 4]) -> (Machine, usize) {
        let (topo, nr_cpus) = make_test_topo(nodes, llcs, cores, threads);
        (Machine::from(&topo), nr_cpus)
    }

    fn tables(nodes: usize, llcs: usize, cores: usize, threads: usize) -> Tables {
        changed([nodes, llcs, cores, threads], |_, _| ())
    }

    #[test]
    fn a_cpu_that_came_later_is_beyond_those_that_were_counted() {
        assert!(!has_beyond("0-2\n", 3).unwrap());
        assert!(has_beyond("0-3\n", 3).unwrap());
        assert!(has_beyond("0-1,5", 3).unwrap());
        assert!(has_beyond("none", 3).is_err());
    }

    #[test]
    fn every_cpu_is_in_the_domain_that_counts_it() {
        for (nodes, llcs, cores, threads) in [
            (1, 1, 4, 1),
            (1, 2, 4, 2),
            (2, 2, 4, 2),
            (2, 8, 32, 2),
            (1, 1, 1, 1),
        ] {
            let tables = tables(nodes, llcs, cores, threads);
            for (idx, llc) in tables.llcs.iter().enumerate() {
                let members = tables.cpus.iter().filter(|cpu| cpu.llc_idx as usize == idx);
                assert_eq!(members.count(), llc.nr_cpus as usize);
            }
        }
    }

    #[test]
    fn a_cpu_that_the_topology_lacks_is_not_known() {
        let (machine, nr_cpus) = machine([1, 2, 2, 1]);
        let tables = Tables::new(&machine, nr_cpus + 2).unwrap();
        let known: Vec<u32> = tables.cpus.iter().map(|cpu| cpu.is_known).collect();
        assert_eq!(known, [1, 1, 1, 1, 0, 0]);
    }

    #[test]
    fn neighbours_are_all_other_domains_and_the_own_node_comes_first() {
        let tables = tables(2, 4, 2, 1);
        for (idx, llc) in tables.llcs.iter().enumerate() {
            let listed = &llc.neighbours[..llc.nr_neighbours as usize];
            let mut sorted = listed.to_vec();
            sorted.sort_unstable();
            let others: Vec<u32> = (0..8).filter(|other| *other != idx as u32).collect();
            assert_eq!(sorted, others);
            // Four domains a node, numbered node by node.
            let near = &listed[..3];
            assert!(near.iter().all(|other| *other as usize / 4 == idx / 4));
        }
    }

    #[test]
    fn a_cache_of_many_cpus_is_divided_into_even_domains() {
        for (cores, threads, expected) in [
            (16, 1, &[16][..]),
            (17, 1, &[9, 8]),
            (24, 1, &[12, 12]),
            (16, 2, &[16, 16]),
            (28, 2, &[14, 14, 14, 14]),
            (33, 2, &[14, 14, 14, 12, 12]),
            // Eight CPUs each.
            (5, 8, &[16, 16, 8]),
        ] {
            // Each core has an L2 cache of its own.
            let tables = changed([1, 2, cores, threads], |_, cpu| cpu.l2_id = None);
            let nr_cpus: Vec<u32> = tables.llcs.iter().map(|llc| llc.nr_cpus).collect();
            assert_eq!(nr_cpus, [expected, expected].concat(), "{cores}x{threads}");
            for (idx, llc) in tables.llcs.iter().enumerate() {
                let of_cache =
                    |other: &u32| tables.llcs[*other as usize].cache_idx == llc.cache_idx;
                assert_eq!(llc.cache_idx as usize, idx / expected.len());
                let near = llc.neighbours[..llc.nr_neighbours as usize].iter();
                assert_eq!(
                    near.take_while(|other| of_cache(other)).count(),
                    expected.len() - 1
                );
            }
            for pair in tables.cpus.chunks(threads) {
                assert!(pair.iter().all(|cpu| cpu.llc_idx == pair[0].llc_idx));
            }
        }
    }

    #[test]
    fn each_part_of_a_cache_has_cores_of_every_size() {
        // Eight cores of two threads, and 16 of one in four clusters.
        let mut l2_ids = Vec::new();
        l2_ids.extend((0..16).map(|cpu| cpu / 2));
        l2_ids.extend((16..32).map(|cpu| 8 + (cpu - 16) / 4));
        let tables = changed([1, 1, 32, 1], |id, cpu| {
            cpu.l2_id = Some(l2_ids[id]);
            cpu.kernel_capacity = Some(if id < 16 { 1024 } else { 640 });
        });
        for idx in 0..2 {
            let part = tables.cpus.iter().filter(|cpu| cpu.llc_idx == idx);
            let is_big: Vec<u32> = part.map(|cpu| cpu.is_big).collect();
            assert_eq!(is_big, [[1; 8], [0; 8]].concat());
        }
        // Work is packed onto the small cores of one part after the other.
        let mut ranked: Vec<&cpu_topo> = tables.cpus.iter().collect();
        ranked.sort_by_key(|cpu| cpu.pack_rank);
        let domains: Vec<u32> = ranked.iter().map(|cpu| cpu.llc_idx).collect();
        assert_eq!(domains, [[0; 8], [1; 8], [0; 8], [1; 8]].concat());
        assert_eq!(tables.nr_caches, 1);
        // One L2 cache of all stays whole, uneven ones make more parts.
        let uneven = changed([1, 1, 30, 1], |id, cpu| cpu.l2_id = Some(id / 6));
        let nr_cpus: Vec<u32> = uneven.llcs.iter().map(|llc| llc.nr_cpus).collect();
        assert_eq!(nr_cpus, [12, 12, 6]);
        assert_eq!(super::tests::tables(1, 1, 32, 1).llcs.len(), 1);
    }

    #[test]
    fn a_number_of_cpus_is_divided_among_the_domains() {
        let scales = |tables: &Tables| -> Vec<u32> {
            tables.llcs.iter().map(|llc| llc.nr_scale_cpus).collect()
        };
        let mut tables = tables(1, 3, 2, 2);
        assert_eq!(scales(&tables), [4, 4, 4]);
        for (nr_cpus, expected) in [
            (12, [4, 4, 4]),
            (3, [1, 1, 1]),
            (10, [3, 3, 4]),
            (1, [1, 1, 1]),
            (8192, [2730, 2731, 2731]),
        ] {
            tables.scale_to(nr_cpus);
            assert_eq!(scales(&tables), expected, "{nr_cpus} CPUs");
        }
        assert!(tables.llcs.iter().all(|llc| llc.nr_cpus == 4));
    }

    #[test]
    fn domains_do_not_all_rob_the_same_one_first() {
        let tables = tables(1, 4, 2, 1);
        let mut first: Vec<u32> = tables.llcs.iter().map(|llc| llc.neighbours[0]).collect();
        first.sort_unstable();
        assert_eq!(first, [0, 1, 2, 3]);
    }

    #[test]
    fn a_cpu_beyond_the_possible_ones_is_an_error() {
        let (machine, nr_cpus) = machine([1, 1, 4, 1]);
        assert!(Tables::new(&machine, nr_cpus - 1).is_err());
    }

    /// The tables of a machine whose CPUs were changed by `change`.
    fn changed(dims: [usize; 4], change: impl Fn(usize, &mut Cpu)) -> Tables {
        let (mut machine, nr_cpus) = machine(dims);
        for (id, cpu) in &mut machine.cpus {
            change(*id, cpu);
        }
        Tables::new(&machine, nr_cpus).unwrap()
    }

    #[test]
    fn l2_domains_are_numbered_across_llcs_of_the_same_ids() {
        // Two cores share an L2 cache, whose ids begin at 0 in each LLC.
        let tables = changed([1, 2, 4, 2], |_, cpu| cpu.l2_id = Some(cpu.core_id % 4 / 2));
        let idxs: Vec<u32> = tables.cpus.iter().map(|cpu| cpu.l2_idx).collect();
        assert_eq!(idxs, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
        assert_eq!(tables.nr_l2s, 4);
        assert!(tables.has_wide_l2 && tables.has_smt && !tables.has_small_cores);
    }

    #[test]
    fn an_l2_cache_of_a_core_or_of_a_whole_llc_says_nothing_new() {
        let of_a_core = changed([1, 1, 4, 2], |_, cpu| cpu.l2_id = Some(cpu.core_id));
        let unknown = changed([1, 1, 4, 2], |_, cpu| cpu.l2_id = None);
        for tables in [of_a_core, unknown] {
            assert_eq!((tables.nr_l2s, tables.has_wide_l2), (4, false));
        }
        let of_the_llc = tables(1, 2, 4, 1);
        assert_eq!((of_the_llc.nr_l2s, of_the_llc.has_wide_l2), (2, false));
        assert!(!of_the_llc.has_smt);
    }

    #[test]
    fn work_is_packed_onto_small_cores_then_by_core_and_llc() {
        // Of each LLC the second core, with both of its CPUs, is small.
        let tables = changed([1, 2, 2, 2], |id, cpu| {
            cpu.kernel_capacity = Some(if id % 4 / 2 == 1 { 400 } else { 1024 });
        });
        let ranks: Vec<u32> = tables.cpus.iter().map(|cpu| cpu.pack_rank).collect();
        assert_eq!(ranks, [4, 5, 0, 1, 6, 7, 2, 3]);
        // Where all are of one size, the first LLC first.
        let ladder = changed([1, 2, 2, 1], |id, cpu| {
            cpu.guessed_capacity = 1024 - 50 * id
        });
        let ranks: Vec<u32> = ladder.cpus.iter().map(|cpu| cpu.pack_rank).collect();
        assert_eq!(ranks, [0, 1, 2, 3]);
    }

    #[test]
    fn the_cpus_of_a_domain_are_a_ring() {
        let tables = tables(1, 2, 2, 2);
        let next: Vec<u32> = tables.cpus.iter().map(|cpu| cpu.next).collect();
        assert_eq!(next, [1, 2, 3, 0, 5, 6, 7, 4]);
        let first: Vec<u32> = tables.llcs.iter().map(|llc| llc.first_cpu).collect();
        assert_eq!(first, [0, 4]);
    }

    #[test]
    fn the_siblings_of_a_core_are_a_ring() {
        let siblings =
            |tables: Tables| -> Vec<u32> { tables.cpus.iter().map(|cpu| cpu.sibling).collect() };
        assert_eq!(siblings(tables(1, 1, 3, 1)), [0, 1, 2]);
        assert_eq!(siblings(tables(1, 2, 2, 2)), [1, 0, 3, 2, 5, 4, 7, 6]);
        assert_eq!(siblings(tables(1, 1, 2, 4)), [1, 2, 3, 0, 5, 6, 7, 4]);
    }

    #[test]
    fn small_cores_are_those_below_the_widest_gap() {
        for (capacities, is_big) in [
            ([1024, 1024, 1024, 1024], [1, 1, 1, 1]),
            // Preferred cores: a long ladder of small steps.
            ([1024, 920, 820, 720], [1, 1, 1, 1]),
            ([1024, 1024, 640, 640], [1, 1, 0, 0]),
            ([1024, 960, 600, 580], [1, 1, 0, 0]),
            ([1024, 740, 400, 400], [1, 1, 0, 0]),
            ([1024, 1023, 896, 896], [1, 1, 1, 1]),
            ([1024, 1024, 896, 896], [1, 1, 0, 0]),
        ] {
            let tables = changed([1, 1, 4, 1], |id, cpu| {
                cpu.kernel_capacity = Some(capacities[id]);
            });
            let found: Vec<u32> = tables.cpus.iter().map(|cpu| cpu.is_big).collect();
            assert_eq!(found, is_big, "{capacities:?}");
            assert_eq!(tables.has_small_cores, is_big.contains(&0));
        }
    }

    #[test]
    fn a_turbo_makes_no_size_but_a_clear_gap_and_types_do() {
        for (guesses, is_big) in [
            // GHz, of 1024: one core of 5.1 beside others of 4.3, and the other way round.
            ([1024, 863, 863, 863], [1, 1, 1, 1]),
            ([1024, 1024, 1024, 863], [1, 1, 1, 1]),
            // Preferred cores, and dies of different turbo.
            ([1024, 920, 820, 720], [1, 1, 1, 1]),
            ([1024, 1024, 943, 943], [1, 1, 1, 1]),
            // 4.9 beside 3.6, 5.1 beside 3.3, both with a preferred core.
            ([1024, 1003, 752, 752], [1, 1, 0, 0]),
            ([1024, 1000, 662, 640], [1, 1, 0, 0]),
        ] {
            // The kernel that knows no capacities, and the one that has them all alike.
            for kernel in [None, Some(1024)] {
                let tables = changed([1, 1, 4, 1], |id, cpu| {
                    cpu.kernel_capacity = kernel;
                    cpu.guessed_capacity = guesses[id];
                });
                let found: Vec<u32> = tables.cpus.iter().map(|cpu| cpu.is_big).collect();
                assert_eq!(found, is_big, "{guesses:?}");
            }
        }
        for (big_type, is_big) in [
            (&[0, 1][..], [1, 1, 0, 0]),
            (&[0, 1, 2, 3], [1, 1, 1, 1]),
            (&[], [1, 1, 1, 1]),
            // All that is online is of the small type.
            (&[7], [1, 1, 1, 1]),
        ] {
            let (mut machine, nr_cpus) = machine([1, 1, 4, 1]);
            machine.big_type = big_type.iter().copied().collect();
            let tables = Tables::new(&machine, nr_cpus).unwrap();
            let found: Vec<u32> = tables.cpus.iter().map(|cpu| cpu.is_big).collect();
            assert_eq!(found, is_big, "{big_type:?}");
        }
    }

    #[test]
    fn cpus_and_domains_know_their_node() {
        let tables = tables(2, 2, 2, 1);
        for (cpu, entry) in tables.cpus.iter().enumerate() {
            assert_eq!(entry.node_idx as usize, cpu / 4);
            assert_eq!(tables.llcs[entry.llc_idx as usize].node_idx, entry.node_idx);
        }
    }

    #[test]
    fn a_machine_of_1024_cpus_fits() {
        let tables = tables(8, 16, 4, 2);
        assert_eq!(tables.cpus.len(), 1024);
        assert_eq!(tables.llcs.len(), 128);
        assert_eq!(tables.llcs[0].nr_neighbours, 127);
    }
}
