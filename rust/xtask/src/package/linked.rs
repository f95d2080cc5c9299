// SPDX-License-Identifier: GPL-2.0
//! Which libraries a program links, and which versions of their symbols it takes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use goblin::elf::Elf;

/// What a program needs of libraries.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Linked {
    /// Their names as the program has them, such as `libelf.so.1`.
    pub libraries: BTreeSet<String>,
    /// A library and a version of its symbols, such as `GLIBC_2.34`.
    pub versions: BTreeSet<(String, String)>,
    /// The program is one of 64 bits.
    pub is_64: bool,
}

/// What the program at `path` links.
pub fn read(path: &Path) -> Result<Linked> {
    let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    parse(&bytes).with_context(|| format!("reading {}", path.display()))
}

fn parse(bytes: &[u8]) -> Result<Linked> {
    let elf = Elf::parse(bytes)?;
    let mut linked = Linked {
        libraries: elf.libraries.iter().map(ToString::to_string).collect(),
        versions: BTreeSet::new(),
        is_64: elf.is_64,
    };
    for library in elf.verneed.iter().flatten() {
        let name = |at| elf.dynstrtab.get_at(at).context("a library has no name");
        let file = name(library.vn_file)?;
        for version in library.iter() {
            let version = name(version.vna_name)?;
            linked
                .versions
                .insert((file.to_string(), version.to_string()));
        }
    }
    Ok(linked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_links_the_c_library_with_its_versions() {
        let this = std::env::current_exe().expect("it is known");
        let linked = read(&this).expect("it is a program");
        assert!(linked.libraries.contains("libc.so.6"), "{linked:?}");
        let is_glibc = |(file, version): &(String, String)| {
            file == "libc.so.6" && version.starts_with("GLIBC_2.")
        };
        assert!(linked.versions.iter().any(is_glibc), "{linked:?}");
    }

    #[test]
    fn what_is_no_program_is_an_error() {
        assert!(parse(b"#!/bin/sh\n").is_err());
        assert!(parse(b"").is_err());
    }
}
