// SPDX-License-Identifier: GPL-2.0
//! The plugin of QEMU that counts, in one run.
//!
//! It is compiled with this crate and embedded in it. A run writes it to a file without
//! a name, which QEMU loads, and which is gone when the run is; what it counts comes
//! back by another. A machine that is to be kept only learns which CPU is which, since
//! those that go on from there come too late for that.
//!
//! Not here: what it does (plugin/caches.c), what its output means (`spans`).

use std::fs::File;
use std::io::Write;

use crate::guest::{path_of, read_all};
use crate::spans::{self, Base, Span};
use crate::{Caches, Error, Kernel, Result, Topology};

const PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/caches.so"));

/// Begins a span of counting in the guest, and ends it.
pub(crate) const GUEST_COUNT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest-count"));

/// Memory of a PC that does not fit below 4 GiB goes on from there.
const HIGH_MEMORY_MIB: u32 = 4096;
const NR_PAGES_PER_MIB: u32 = 256;

/// How a plugin is used in a run.
pub(crate) enum Use<'a> {
    /// To learn which CPU is which, and nothing else.
    Learn,
    /// To count, on a machine of which that is known already, or nothing.
    Count(&'a [Base]),
}

/// The plugin's files.
pub(crate) struct Plugin {
    object: File,
    output: File,
    options: String,
    nr_top: u32,
}

impl Plugin {
    pub(crate) fn create(
        caches: &Caches,
        kernel: &Kernel,
        topology: Topology,
        memory_mib: u32,
        usage: &Use<'_>,
    ) -> Result<Self> {
        let write = || -> std::io::Result<(File, File)> {
            let mut object = tempfile::tempfile()?;
            object.write_all(PLUGIN)?;
            Ok((object, tempfile::tempfile()?))
        };
        let (object, output) = write().map_err(|e| Error::io("writing the plugin", e))?;
        let nr_pages =
            (HIGH_MEMORY_MIB.saturating_add(memory_mib)).saturating_mul(NR_PAGES_PER_MIB);
        let mut options = format!(
            "{},pages={nr_pages},modules={}",
            caches.plugin_options(topology),
            kernel.modules_at()
        );
        match usage {
            Use::Learn => options.push_str(",learn=1"),
            Use::Count(bases) => {
                for base in *bases {
                    options.push_str(&format!(",base={}:{}", base.cpu, base.base));
                }
            }
        }
        Ok(Self {
            object,
            output,
            options,
            nr_top: caches.nr_top,
        })
    }

    /// What QEMU's option `-plugin` is given.
    pub(crate) fn argument(&self) -> String {
        format!(
            "file={},out={},{}",
            path_of(&self.object),
            path_of(&self.output),
            self.options
        )
    }

    /// What it learned and counted.
    pub(crate) fn read(&mut self) -> Result<(Vec<Base>, Vec<Span>)> {
        let bytes = read_all(&mut self.output).map_err(|e| Error::io("reading counts", e))?;
        spans::parse(&String::from_utf8_lossy(&bytes), self.nr_top)
    }
}
