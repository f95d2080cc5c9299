// SPDX-License-Identifier: GPL-2.0
//! Lists of CPUs as the kernel writes them, such as `0-3,6`.

use std::collections::BTreeSet;

/// The CPUs of a list; `None` if it is none, as an empty one.
pub(crate) fn parse(text: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
        let list = |text: &str| parse(text).map(|cpus| cpus.into_iter().collect::<Vec<_>>());
        assert_eq!(list("0-3,6\n"), Some(vec![0, 1, 2, 3, 6]));
        assert_eq!(list("0"), Some(vec![0]));
        assert_eq!(list(""), None);
        assert_eq!(list("0-x"), None);
    }
}
