// SPDX-License-Identifier: GPL-2.0
//! Every SCX_* constant that the BPF object uses has a value.
//!
//! Those constants differ from kernel to kernel, so they are words of read-only
//! data that the loader fills when it opens the object. One that it forgot is a
//! zero: a flag that is never set, a queue that does not exist. Looked for in
//! the object inside the program under test, read from the loaded map; checked
//! wherever attach.rs attaches.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use goblin::elf::Elf;

use crate::ours::OURS;
use crate::support::told::Told;

/// Constants are words of this prefix, each of eight bytes.
const PREFIX: &str = "__SCX_";
const WORD_SIZE: usize = 8;

const ELF_MAGIC: &[u8] = b"\x7fELF";
const EM_BPF: u16 = 247;

/// The least number of constants that count as found: the queues, the enqueue
/// and the kick flags that no scheduler can do without.
const NR_USED_MIN: usize = 5;

/// What kernels before Linux 7.1 do not have; classes.rs looks at what it does on those
/// that have it.
const NEWER: &[&str] = &["__SCX_ENQ_IMMED"];

/// Check what the guest told as `constants`.
pub fn check_all_set(told: &Told) -> Result<()> {
    let rodata: String = told.one("constants")?;
    let used = used_constants().context("looking into the BPF object")?;
    told.check(used.len() >= NR_USED_MIN, || {
        format!("only {} constants are used", used.len())
    })?;
    for (name, offset) in &used {
        // Two digits a byte.
        let digits = rodata.get(2 * offset..2 * (offset + WORD_SIZE));
        let digits = digits.context("a constant is beyond the loaded ones")?;
        let is_set = digits.contains(|digit| digit != '0');
        told.check(is_set || NEWER.contains(&name.as_str()), || {
            format!("{name} is 0")
        })?;
    }
    println!("{} constants are set", used.len());
    Ok(())
}

/// Offsets of the constants that code of the BPF object refers to, by name.
fn used_constants() -> Result<BTreeMap<String, usize>> {
    let path = OURS.program();
    let program = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let object = bpf_object(&program)?;
    let elf = Elf::parse(object)?;
    let mut used = BTreeMap::new();
    for (_, relocations) in &elf.shdr_relocs {
        for relocation in relocations.iter() {
            let symbol = elf.syms.get(relocation.r_sym);
            let symbol = symbol.context("a relocation without a symbol")?;
            let name = elf.strtab.get_at(symbol.st_name).unwrap_or_default();
            if name.starts_with(PREFIX) {
                used.insert(name.to_owned(), usize::try_from(symbol.st_value)?);
            }
        }
    }
    Ok(used)
}

/// The BPF object that `program` carries as it is.
fn bpf_object(program: &[u8]) -> Result<&[u8]> {
    let mut rest = program;
    while let Some(at) = find(rest, ELF_MAGIC) {
        let candidate = &rest[at..];
        let machine = candidate.get(18..20).map(|word| [word[0], word[1]]);
        if machine.map(u16::from_le_bytes) == Some(EM_BPF) {
            return Ok(candidate);
        }
        rest = &candidate[ELF_MAGIC.len()..];
    }
    bail!("the program carries no BPF object")
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}
