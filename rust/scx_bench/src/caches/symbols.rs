// SPDX-License-Identifier: GPL-2.0
//! Names of the addresses that were counted, by the `/proc/kallsyms` of the same boot.
//!
//! Not here: addresses of user programs, which have no names there.

use std::collections::BTreeMap;

use scx_guest::{Address, Span};

/// The first address of the kernel's half.
const KERNEL_BEGIN: u64 = 1 << 63;

/// Symbols in the order of their addresses.
#[derive(Debug, Default)]
pub struct Symbols {
    sorted: Vec<(u64, String)>,
}

impl Symbols {
    /// Of the lines of `text` that are like those of `/proc/kallsyms`.
    pub fn parse(text: &str) -> Self {
        let symbol = |line: &str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let name = words.nth(1)?;
            let name = match words.next() {
                Some(module) => format!("{name} {module}"),
                None => name.to_string(),
            };
            Some((address, name))
        };
        let mut sorted: Vec<_> = text.lines().filter_map(symbol).collect();
        sorted.sort();
        Self { sorted }
    }

    /// The symbol that `address` is in, and how far; none for user programs.
    pub fn name(&self, address: Address) -> Option<String> {
        if address.0 < KERNEL_BEGIN {
            return None;
        }
        let nr_before = self.sorted.partition_point(|(at, _)| *at <= address.0);
        let (at, name) = self.sorted.get(nr_before.checked_sub(1)?)?;
        Some(format!("{name}+{:#x}", address.0 - at))
    }

    /// Names of the instructions in `span`. Where data is has none: most of it is in no
    /// symbol, and would have the name of the one before.
    pub fn names(&self, span: &Span) -> BTreeMap<String, String> {
        let sites = span.sites.iter().map(|site| site.address);
        let meetings = span.lines.iter().flat_map(|line| &line.meetings);
        let met = meetings.flat_map(|meeting| [meeting.by, meeting.written_by]);
        let named = sites
            .chain(met)
            .filter_map(|address| Some((text(address), self.name(address)?)));
        named.collect()
    }
}

/// An address as it stands in JSON.
pub fn text(address: Address) -> String {
    format!("{:#x}", address.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_name_of_the_symbol_that_it_is_in() {
        let symbols = Symbols::parse(
            "ffffffff81000040 t second\nffffffff81000000 T first\nnonsense\n\
             ffffffffc0000100 t bpf_prog_1_enqueue\t[bpf]\n",
        );
        let name = |address| symbols.name(Address(address));
        assert_eq!(name(0xffff_ffff_8100_0004).as_deref(), Some("first+0x4"));
        assert_eq!(name(0xffff_ffff_8100_0040).as_deref(), Some("second+0x0"));
        assert_eq!(
            name(0xffff_ffff_c000_0110).as_deref(),
            Some("bpf_prog_1_enqueue [bpf]+0x10")
        );
        assert_eq!(name(0xffff_ffff_8000_0000), None);
        assert_eq!(name(0x40_0000), None);
    }
}
