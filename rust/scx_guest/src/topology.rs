// SPDX-License-Identifier: GPL-2.0
//! The shape of the guest's machine.
//!
//! A machine has NUMA nodes, each node some last-level caches, each cache some
//! cores and each core some threads, all of them alike. Every cache is a
//! package of its own, as a chiplet is, and a node holds the packages and a
//! share of the memory: that is what QEMU can tell a kernel about caches with
//! every version that we accept.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// Shapes of machines that people have, by name, as far as a guest can be like them:
/// all its cores, caches and packages are alike.
pub const PRESETS: &[(&str, Topology, &str)] = &[
    (
        "8core",
        Topology::new(1, 1, 8, 2),
        "8 cores of two threads below one cache, such as a Ryzen of one CCX",
    ),
    (
        "16core-2ccx",
        Topology::new(1, 2, 8, 2),
        "the same twice, such as a Ryzen of two CCX",
    ),
    (
        "13900k",
        Topology::new(1, 1, 24, 1),
        "24 cores below one cache; that 8 of them have two threads and 16 are slower is not told",
    ),
    (
        "2socket-64",
        Topology::new(2, 1, 16, 2),
        "64 CPUs on two nodes of 16 cores with two threads",
    ),
];

/// As many CPUs as the machine type can have.
pub const NR_CPUS_MAX: u32 = 255;

/// Nodes, caches per node, cores per cache and threads per core.
///
/// Written as `2x1x2x2`: two nodes with one cache each, two cores below each
/// cache, two threads on each core: eight CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Topology {
    /// NUMA nodes of the machine.
    pub nodes: u32,
    /// Last-level caches of each node.
    pub llcs: u32,
    /// Cores below each last-level cache.
    pub cores: u32,
    /// SMT threads of each core.
    pub threads: u32,
}

impl Topology {
    /// `nr_cpus` cores below one cache, without SMT.
    pub const fn flat(nr_cpus: u32) -> Self {
        Self::new(1, 1, nr_cpus, 1)
    }

    /// A machine of `nodes` x `llcs` x `cores` x `threads`.
    ///
    /// Any numbers are taken here; [`Topology::check`] and a guest's start
    /// refuse what cannot be.
    pub const fn new(nodes: u32, llcs: u32, cores: u32, threads: u32) -> Self {
        Self {
            nodes,
            llcs,
            cores,
            threads,
        }
    }

    /// CPUs in all, `u32::MAX` if the product is larger.
    pub const fn nr_cpus(&self) -> u32 {
        self.nodes
            .saturating_mul(self.llcs)
            .saturating_mul(self.nr_cpus_per_llc())
    }

    /// CPUs that share one last-level cache.
    pub const fn nr_cpus_per_llc(&self) -> u32 {
        self.cores.saturating_mul(self.threads)
    }

    /// Last-level caches of the whole machine.
    pub const fn nr_llcs(&self) -> u32 {
        self.nodes.saturating_mul(self.llcs)
    }

    /// An error unless a guest can have this shape, and sockets for so many more of its
    /// caches.
    pub(crate) fn check_with(&self, nr_empty_sockets: u32) -> Result<()> {
        self.check()?;
        let nr_more = nr_empty_sockets.saturating_mul(self.nr_cpus_per_llc());
        match self.nr_cpus().saturating_add(nr_more) {
            0..=NR_CPUS_MAX => Ok(()),
            nr_cpus => Err(Error::Topology(format!(
                "{self} with {nr_empty_sockets} empty sockets has {nr_cpus} possible CPUs, more than \
                 {NR_CPUS_MAX}"
            ))),
        }
    }

    /// An error unless a guest can have this shape.
    pub fn check(&self) -> Result<()> {
        match self.nr_cpus() {
            0 => Err(Error::Topology(format!("{self} has no CPU"))),
            1..=NR_CPUS_MAX => Ok(()),
            u32::MAX => Err(Error::Topology(format!(
                "{self} has too many CPUs, at most {NR_CPUS_MAX} are possible"
            ))),
            nr_cpus => Err(Error::Topology(format!(
                "{self} has {nr_cpus} CPUs, at most {NR_CPUS_MAX} are possible"
            ))),
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}x{}x{}x{}",
            self.nodes, self.llcs, self.cores, self.threads
        )
    }
}

impl FromStr for Topology {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some((_, topology, _)) = PRESETS.iter().find(|(name, ..)| *name == text) {
            return Ok(*topology);
        }
        let bad = || {
            let names: Vec<&str> = PRESETS.iter().map(|(name, ..)| *name).collect();
            Error::Topology(format!(
                "{text:?} is not NODESxLLCSxCORESxTHREADS, such as 2x1x2x2 for two nodes with \
                 one cache of two cores with two threads, nor one of {}",
                names.join(", ")
            ))
        };
        let numbers = text
            .split('x')
            .map(|word| word.parse::<u32>().map_err(|_| bad()))
            .collect::<Result<Vec<u32>>>()?;
        let &[nodes, llcs, cores, threads] = numbers.as_slice() else {
            return Err(bad());
        };
        let topology = Self::new(nodes, llcs, cores, threads);
        topology.check()?;
        Ok(topology)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_the_product_of_all_levels() {
        let topology: Topology = "2x3x2x2".parse().unwrap();
        assert_eq!(topology.nr_cpus(), 24);
        assert_eq!(topology.nr_llcs(), 6);
        assert_eq!(topology.nr_cpus_per_llc(), 4);
        assert_eq!(Topology::flat(5).nr_cpus(), 5);
    }

    #[test]
    fn text_and_topology_are_the_same_both_ways() {
        let topology = Topology::new(2, 1, 4, 2);
        assert_eq!(topology.to_string().parse::<Topology>().unwrap(), topology);
    }

    #[test]
    fn presets_are_shapes_that_a_guest_can_have() {
        for (name, topology, about) in PRESETS {
            assert_eq!(name.parse::<Topology>().unwrap(), *topology, "{about}");
            topology.check().unwrap();
        }
        let cpus = ["8core", "16core-2ccx", "13900k", "2socket-64"]
            .map(|name| name.parse::<Topology>().unwrap().nr_cpus());
        assert_eq!(cpus, [16, 32, 24, 64]);
        let error = "9core".parse::<Topology>().unwrap_err().to_string();
        assert!(error.contains("16core-2ccx"), "{error}");
    }

    #[test]
    fn impossible_shapes_are_refused() {
        for text in [
            "",
            "4",
            "2x2",
            "2x1x2x2x1",
            "ax1x1x1",
            "-1x1x1x1",
            "0x1x1x1",
            "1x1x1x0",
        ] {
            assert!(text.parse::<Topology>().is_err(), "{text:?} was taken");
        }
        assert!("256x1x1x1".parse::<Topology>().is_err());
        assert!("255x1x1x1".parse::<Topology>().is_ok());
    }

    #[test]
    fn products_that_overflow_are_refused() {
        assert!("65536x65536x65536x65536".parse::<Topology>().is_err());
        assert!("4294967295x2x2x2".parse::<Topology>().is_err());
        assert!("99999999999x1x1x1".parse::<Topology>().is_err());
        // A zero anywhere stays zero even where the rest overflows.
        assert_eq!(Topology::new(u32::MAX, u32::MAX, 2, 0).nr_cpus(), 0);
    }

    #[test]
    fn a_machine_has_no_more_possible_cpus_than_that() {
        let topology = Topology::new(1, 2, 8, 2);
        topology.check_with(13).unwrap();
        for nr_empty_sockets in [14, u32::MAX] {
            let error = topology.check_with(nr_empty_sockets).unwrap_err();
            assert!(
                error.to_string().contains("possible CPUs, more than"),
                "{error}"
            );
        }
    }
}
