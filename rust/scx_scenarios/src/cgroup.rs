// SPDX-License-Identifier: GPL-2.0
//! Control groups that a scenario makes for its processes: version 2, with the
//! cpu controller.
//!
//! A [`Tree`] is a directory `scx_bench.PID` that holds the groups of one
//! scenario. It is made
//!
//!   1. below the root of the hierarchy, where groups compete with all others
//!      of the machine, if this may write there;
//!   2. otherwise below the nearest parent of this process's own group that has
//!      been delegated to it. (The own group itself holds a process, so its
//!      children could not get weights.)
//!
//! It is removed when it is dropped or the user interrupts. The groups have to
//! be empty by then, so a tree is made before its processes and dropped after.
//!
//! Not here: version 1, where weights have other names.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::clock::NSEC_PER_USEC;
use crate::interrupt::{self, Undo};

/// The weight of a group that was not given another: what systemd leaves to
/// every application.
pub const WEIGHT_DFL: u32 = 100;

/// The controller whose weights are meant.
const CONTROLLER: &str = "cpu";

/// The kernel takes a moment to forget the last process of a group: so many
/// attempts to remove it.
const REMOVE_ATTEMPTS: usize = 100;
/// Between two of them.
const REMOVE_PAUSE: Duration = Duration::from_millis(5);

/// The groups of one scenario.
#[derive(Debug)]
pub struct Tree {
    dir: PathBuf,
    _remove: Undo,
}

/// A group that processes enter, or that holds others.
#[derive(Debug, Clone)]
pub struct Group {
    dir: PathBuf,
}

impl Tree {
    /// A new tree; an error that tells of every place where it could not be.
    pub fn new() -> Result<Self> {
        let root = hierarchy()?;
        let own = fs::read_to_string("/proc/self/cgroup").context("reading the own cgroup")?;
        let mut refused = Vec::new();
        for parent in places(&root, &own) {
            match Self::below(&parent) {
                Ok(tree) => return Ok(tree),
                Err(error) => refused.push(format!("{error:#}")),
            }
        }
        bail!(
            "no control group can be made ({}); run it as root, or in a group of its own: \
             systemd-run --user --scope -p Delegate=yes",
            refused.join("; ")
        );
    }

    fn below(parent: &Path) -> Result<Self> {
        let has_cpu = |file: &str| -> Result<bool> {
            Ok(read(&parent.join(file))?
                .split_whitespace()
                .any(|word| word == CONTROLLER))
        };
        if !has_cpu("cgroup.controllers")? {
            bail!("{}: no cpu controller", parent.display());
        }
        let was_on = has_cpu("cgroup.subtree_control")?;
        let dir = parent.join(format!("scx_bench.{}", std::process::id()));
        fs::create_dir(&dir).with_context(|| format!("making {}", dir.display()))?;
        let remove = {
            let (dir, parent) = (dir.clone(), parent.to_path_buf());
            interrupt::undo_later(move || {
                remove_all(&dir);
                if !was_on {
                    // Another program may have begun to use it.
                    let _ = fs::write(parent.join("cgroup.subtree_control"), "-cpu");
                }
            })
        };
        let tree = Self {
            dir,
            _remove: remove,
        };
        if !was_on {
            distribute(parent)?;
        }
        distribute(&tree.dir)?;
        Ok(tree)
    }

    /// A new group of this weight, 1 to 10000, directly in the tree.
    pub fn group(&self, name: &str, weight: u32) -> Result<Group> {
        Group::new(self.dir.join(name), weight)
    }
}

impl Group {
    fn new(dir: PathBuf, weight: u32) -> Result<Self> {
        fs::create_dir(&dir).with_context(|| format!("making {}", dir.display()))?;
        let group = Self { dir };
        group.set_weight(weight)?;
        Ok(group)
    }

    /// A new group of this weight, 1 to 10000, within this one, which no
    /// process may have entered.
    pub fn group(&self, name: &str, weight: u32) -> Result<Group> {
        distribute(&self.dir)?;
        Self::new(self.dir.join(name), weight)
    }

    /// Give it this weight, 1 to 10000.
    pub fn set_weight(&self, weight: u32) -> Result<()> {
        write(&self.dir.join("cpu.weight"), &weight.to_string())
    }

    /// CPU time that its tasks have used, in nanoseconds. What runs at this
    /// moment is counted to its last tick.
    pub fn cpu_ns(&self) -> Result<u64> {
        let path = self.dir.join("cpu.stat");
        read(&path)?
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "))
            .and_then(|usec| usec.parse::<u64>().ok())
            .map(|usec| usec * NSEC_PER_USEC)
            .with_context(|| format!("{} has no usage_usec", path.display()))
    }

    /// Move the calling process into it.
    pub fn enter(&self) -> Result<()> {
        write(&self.dir.join("cgroup.procs"), "0")
    }
}

/// Where the hierarchy is mounted.
fn hierarchy() -> Result<PathBuf> {
    let mounts =
        fs::read_to_string("/proc/self/mountinfo").context("reading the list of mounts")?;
    mount_point(&mounts).context("no control groups of version 2 are mounted")
}

/// The mount point of the first cgroup2 in the text of mountinfo.
fn mount_point(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let is_it = kind.split_whitespace().next()? == "cgroup2";
        is_it.then(|| place.split_whitespace().nth(4).map(PathBuf::from))?
    })
}

/// Directories below which a tree may be made, in the order to try; `own` is
/// the text of `/proc/self/cgroup`.
fn places(root: &Path, own: &str) -> Vec<PathBuf> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let mut places = vec![root.to_path_buf()];
    let parents = Path::new(own.unwrap_or_default()).ancestors().skip(1);
    places.extend(
        parents
            .filter(|path| !path.as_os_str().is_empty())
            .map(|path| root.join(path)),
    );
    places
}

/// Let the groups in `dir` have weights.
fn distribute(dir: &Path) -> Result<()> {
    write(&dir.join("cgroup.subtree_control"), "+cpu")
}

fn remove_all(dir: &Path) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_all(&entry.path());
    }
    for _ in 0..REMOVE_ATTEMPTS {
        if fs::remove_dir(dir).is_ok() || !dir.exists() {
            return;
        }
        thread::sleep(REMOVE_PAUSE);
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {text} to {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_point_of_version_2_is_found_beside_version_1() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      31 25 0:27 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(
            mount_point(mounts),
            Some(PathBuf::from("/sys/fs/cgroup/unified"))
        );
        assert_eq!(mount_point("31 25 0:27 / /sys rw - sysfs sys rw\n"), None);
    }

    #[test]
    fn the_root_comes_first_and_the_own_group_never() {
        let names = |own| {
            let places = places(Path::new("/c"), own).into_iter();
            places
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(names("0::/\n"), ["/c"]);
        assert_eq!(names("0::/a/b/c.scope\n"), ["/c", "/c/a/b", "/c/a"]);
        assert_eq!(names("4:cpu:/x\n"), ["/c"]);
    }

    /// Only where this may make groups.
    #[test]
    fn a_tree_vanishes_with_its_groups() {
        let Ok(tree) = Tree::new() else {
            println!("not tested: no control groups here");
            return;
        };
        let outer = tree.group("outer", 300).unwrap();
        let inner = outer.group("inner", WEIGHT_DFL).unwrap();
        assert_eq!(read(&outer.dir.join("cpu.weight")).unwrap().trim(), "300");
        assert!(inner.dir.is_dir());
        let dir = tree.dir.clone();
        drop(tree);
        assert!(!dir.exists());
    }
}
