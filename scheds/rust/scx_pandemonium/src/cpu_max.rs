//! Says which cgroups have a limit that is not honoured: `cpu.max`, systemd's
//! `CPUQuota=`.
//!
//! The kernel throttles tasks of its own fair class only. A user who set a limit
//! should not have to find that out by himself.
//!
//! Not here: what is honoured of a cgroup (`src/bpf/cgroup.bpf.c`).

use std::fs;
use std::path::{Path, PathBuf};

use log::warn;
use scx_utils::compat::get_fs_mount;
use walkdir::WalkDir;

/// What stands in `cpu.max` of a cgroup without a limit, before the period.
const NO_LIMIT: &str = "max";

/// Log a warning if a cgroup of this machine has a limit now.
pub fn warn_if_set() {
    let mounts = get_fs_mount("cgroup2").unwrap_or_default();
    let Some(root) = mounts.first() else {
        return;
    };
    if let Some(warning) = warning(root) {
        warn!("{warning}");
    }
}

/// What to say of the cgroups below `root`, if one of them has a limit.
fn warning(root: &Path) -> Option<String> {
    let limited = limited(root);
    let (first, others) = limited.split_first()?;
    let and_others = match others.len() {
        0 => String::new(),
        nr => format!(" and of {nr} more"),
    };
    Some(format!(
        "cpu.max is not honoured: that of /{}{and_others} limits nothing while this scheduler runs",
        first.strip_prefix(root).unwrap_or(first).display()
    ))
}

/// The cgroups below `root` that have a limit, by name. One that goes away
/// meanwhile has none.
fn limited(root: &Path) -> Vec<PathBuf> {
    let entries = WalkDir::new(root).sort_by_file_name().into_iter();
    entries
        .filter_entry(|entry| entry.file_type().is_dir())
        .flatten()
        .map(|entry| entry.into_path())
        .filter(|cgroup| {
            fs::read_to_string(cgroup.join("cpu.max"))
                .is_ok_and(|limit| !limit.starts_with(NO_LIMIT))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_named_and_more_are_counted() {
        let root = tempfile::tempdir().unwrap();
        for (cgroup, limit) in [
            ("a", "max 100000\n"),
            ("a/b", "50000 100000\n"),
            ("c", "max 1000\n"),
        ] {
            let dir = root.path().join(cgroup);
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("cpu.max"), limit).unwrap();
        }
        let said = warning(root.path()).unwrap();
        assert!(said.contains("that of /a/b limits"), "{said}");
        fs::write(root.path().join("c/cpu.max"), "1000 1000\n").unwrap();
        let said = warning(root.path()).unwrap();
        assert!(said.contains("that of /a/b and of 1 more"), "{said}");
    }

    #[test]
    fn without_a_limit_there_is_nothing_to_say() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("a")).unwrap();
        fs::write(root.path().join("a/cpu.max"), "max 100000\n").unwrap();
        assert_eq!(warning(root.path()), None);
        assert_eq!(warning(&root.path().join("nothing")), None);
    }
}
