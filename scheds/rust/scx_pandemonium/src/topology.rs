//! Which CPUs share a cache, as the tables that BPF reads.
//!
//! `scx_utils::Topology` reads the machine; this turns it into one entry for
//! each CPU and each LLC domain. Domains are numbered from 0 in the order of
//! their ids and list their neighbours, those of the same NUMA node first, then
//! by the distance of the nodes.
//!
//! No I/O and no BPF: tested on synthetic machines.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use scx_utils::Topology;

use crate::bpf_intf::{cpu_topo, intf_consts_MAX_NEIGHBOURS, llc_topo};

/// How many neighbours a domain can list.
const MAX_NEIGHBOURS: usize = intf_consts_MAX_NEIGHBOURS as usize;

/// The topology maps of the BPF half.
pub struct Tables {
    /// One entry for each CPU id below the number of possible ids.
    pub cpus: Vec<cpu_topo>,
    /// One entry for each LLC domain.
    pub llcs: Vec<llc_topo>,
}

impl Tables {
    /// Describe `topo` on a machine with `nr_cpu_ids` possible CPU ids.
    ///
    /// # Errors
    ///
    /// If the topology names no LLC domain, or a CPU beyond `nr_cpu_ids`.
    pub fn new(topo: &Topology, nr_cpu_ids: usize) -> Result<Tables> {
        ensure!(!topo.all_llcs.is_empty(), "the topology has no LLC domain");

        let idx_of: BTreeMap<usize, usize> = topo
            .all_llcs
            .keys()
            .enumerate()
            .map(|(idx, id)| (*id, idx))
            .collect();

        let absent = cpu_topo { llc_idx: 0 };
        let mut cpus = vec![absent; nr_cpu_ids];
        for (id, cpu) in &topo.all_cpus {
            let entry = cpus
                .get_mut(*id)
                .with_context(|| format!("CPU {id} is beyond the {nr_cpu_ids} possible ones"))?;
            let llc_idx = idx_of
                .get(&cpu.llc_id)
                .with_context(|| format!("CPU {id} is in no LLC domain"))?;
            *entry = cpu_topo {
                llc_idx: u32::try_from(*llc_idx)?,
            };
        }

        let mut llcs = Vec::with_capacity(topo.all_llcs.len());
        for (id, llc) in &topo.all_llcs {
            let neighbours = neighbours_of(topo, *id, &idx_of)?;
            let mut entry = llc_topo {
                nr_cpus: u32::try_from(llc.all_cpus.len())?,
                nr_neighbours: u32::try_from(neighbours.len())?,
                neighbours: [0; MAX_NEIGHBOURS],
            };
            entry.neighbours[..neighbours.len()].copy_from_slice(&neighbours);
            llcs.push(entry);
        }
        Ok(Tables { cpus, llcs })
    }
}

/// The other domains as seen from `llc_id`, nearest first; each domain starts
/// at the one after itself, so that not all of them rob the same one first.
fn neighbours_of(
    topo: &Topology,
    llc_id: usize,
    idx_of: &BTreeMap<usize, usize>,
) -> Result<Vec<u32>> {
    let llc = &topo.all_llcs[&llc_id];
    let own_idx = idx_of[&llc_id];
    let nr_llcs = topo.all_llcs.len();

    let distance_to = |node_id: usize| -> usize {
        if node_id == llc.node_id {
            return 0;
        }
        topo.nodes
            .get(&llc.node_id)
            .and_then(|node| node.distance.get(node_id).copied())
            .unwrap_or(usize::MAX)
    };

    let mut others: Vec<(usize, usize, usize)> = topo
        .all_llcs
        .values()
        .filter(|other| other.id != llc_id)
        .map(|other| {
            let idx = idx_of[&other.id];
            let steps = (idx + nr_llcs - own_idx) % nr_llcs;
            (distance_to(other.node_id), steps, idx)
        })
        .collect();
    others.sort_unstable();
    others
        .into_iter()
        .take(MAX_NEIGHBOURS)
        .map(|(_, _, idx)| Ok(u32::try_from(idx)?))
        .collect()
}

#[cfg(test)]
mod tests {
    use scx_utils::testutils::make_test_topo;

    use super::*;

    fn tables(nodes: usize, llcs: usize, cores: usize, threads: usize) -> Tables {
        let (topo, nr_cpus) = make_test_topo(nodes, llcs, cores, threads);
        Tables::new(&topo, nr_cpus).unwrap()
    }

    #[test]
    fn every_cpu_is_in_the_domain_that_counts_it() {
        for (nodes, llcs, cores, threads) in
            [(1, 1, 4, 1), (1, 2, 4, 2), (2, 2, 4, 2), (2, 8, 32, 2)]
        {
            let tables = tables(nodes, llcs, cores, threads);
            for (idx, llc) in tables.llcs.iter().enumerate() {
                let members = tables.cpus.iter().filter(|cpu| cpu.llc_idx as usize == idx);
                assert_eq!(members.count(), llc.nr_cpus as usize);
            }
        }
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
    fn domains_do_not_all_rob_the_same_one_first() {
        let tables = tables(1, 4, 2, 1);
        let mut first: Vec<u32> = tables.llcs.iter().map(|llc| llc.neighbours[0]).collect();
        first.sort_unstable();
        assert_eq!(first, [0, 1, 2, 3]);
    }

    #[test]
    fn a_cpu_beyond_the_possible_ones_is_an_error() {
        let (topo, nr_cpus) = make_test_topo(1, 1, 4, 1);
        assert!(Tables::new(&topo, nr_cpus - 1).is_err());
    }

    #[test]
    fn a_machine_of_1024_cpus_fits() {
        let tables = tables(8, 16, 4, 2);
        assert_eq!(tables.cpus.len(), 1024);
        assert_eq!(tables.llcs.len(), 128);
        assert_eq!(tables.llcs[0].nr_neighbours, 127);
    }
}
