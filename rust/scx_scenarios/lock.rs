// SPDX-License-Identifier: GPL-2.0
//! Which packages a program is made of, as `Cargo.lock` says.
//!
//! Only what a package depends on counts: another package of the same workspace
//! may change its own dependencies. Those for tests count as well, since the
//! file does not tell them apart.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

#[derive(Deserialize)]
struct Lock {
    #[serde(default)]
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    #[serde(default)]
    checksum: String,
    /// `NAME`, or `NAME VERSION` where there are several, or those and a source.
    #[serde(default)]
    dependencies: Vec<String>,
}

/// The `Cargo.lock` in `dir`, or else in the nearest directory above it.
pub fn find(dir: &Path) -> Option<PathBuf> {
    let mut files = dir.ancestors().map(|dir| dir.join("Cargo.lock"));
    files.find(|path| path.is_file())
}

/// The package `root` of a `Cargo.lock` of this text and all that it depends on:
/// a line of name, version and checksum for each, in their order. An error if
/// the text is no such file or has no such package.
pub fn packages(text: &str, root: &str) -> Result<String, String> {
    let lock: Lock = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut by_name: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
    for package in &lock.package {
        by_name.entry(&package.name).or_default().push(package);
    }
    if !by_name.contains_key(root) {
        return Err(format!("there is no package {root}"));
    }
    let mut lines = BTreeSet::new();
    let mut queue = vec![root];
    while let Some(dependency) = queue.pop() {
        let mut words = dependency.split(' ');
        let name = words.next().unwrap_or_default();
        let version = words.next();
        let named = by_name.get(name).into_iter().flatten();
        for package in named.filter(|one| version.is_none_or(|version| one.version == version)) {
            let line = format!(
                "{} {} {}\n",
                package.name, package.version, package.checksum
            );
            if lines.insert(line) {
                queue.extend(package.dependencies.iter().map(String::as_str));
            }
        }
    }
    Ok(lines.into_iter().collect())
}
