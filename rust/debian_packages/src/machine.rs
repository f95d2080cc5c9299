// SPDX-License-Identifier: GPL-2.0
//! What this machine's apt is set up for.
//!
//! apt itself says where its files of sources are; the release names its suite
//! of backports.
//!
//! Not here: what is in such a file (sources).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;

use crate::sources::{Kind, Source, debian_mirror, format_sources, parse_list, parse_sources};
use crate::tool::run;
use crate::{Error, Result};

/// The backports suite of the release that this machine runs, such as
/// `trixie-backports`; none if it is not a release of Debian.
pub fn backports_suite() -> Option<String> {
    // Without the file the distribution is unknown, so not Debian.
    backports_of(&fs::read_to_string("/etc/os-release").ok()?)
}

fn backports_of(os_release: &str) -> Option<String> {
    let value = |key: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim_matches('"'))
    };
    if value("ID=")? != "debian" {
        return None;
    }
    Some(format!("{}-backports", value("VERSION_CODENAME=")?))
}

/// The text of a `.sources` file for `suites` of the machine's Debian mirror.
///
/// # Errors
///
/// If the machine has no apt or names no mirror of Debian.
pub fn suite_sources(suites: &[&str], kind: Kind) -> Result<String> {
    let sources = all_sources()?;
    let mirror = debian_mirror(&sources).ok_or_else(|| {
        Error::Apt("this machine's apt configuration names no mirror of Debian".to_owned())
    })?;
    Ok(format_sources(mirror, suites, kind))
}

/// The files of the machine's `sources.list.d`, in the order in which apt reads
/// them.
///
/// # Errors
///
/// If the machine has no apt or they cannot be read.
pub fn source_parts() -> Result<Vec<PathBuf>> {
    let Some(dir) = config_path("Dir::Etc::sourceparts/d")?.filter(|dir| dir.is_dir()) else {
        return Ok(Vec::new());
    };
    let mut files = list_dir(&dir)?;
    files.retain(|file| has_extension(file, "list") || has_extension(file, "sources"));
    Ok(files)
}

/// Every binary source that the machine's apt is set up for.
fn all_sources() -> Result<Vec<Source>> {
    let list = config_path("Dir::Etc::sourcelist/f")?;
    let mut sources = Vec::new();
    for file in list.into_iter().chain(source_parts()?) {
        sources.extend(read_sources(&file)?);
    }
    Ok(sources)
}

/// The sources in one file; none if it does not exist.
fn read_sources(file: &Path) -> Result<Vec<Source>> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        result => result?,
    };
    Ok(if has_extension(file, "sources") {
        parse_sources(&text)
    } else {
        parse_list(&text)
    })
}

/// A path of apt's configuration, which prints it as `X='/etc/apt/...'`.
fn config_path(key: &str) -> Result<Option<PathBuf>> {
    let text = run(Command::new("apt-config").args(["shell", "X", key]))?;
    let value = text.trim().strip_prefix("X=");
    Ok(value.map(|value| PathBuf::from(value.trim_matches('\''))))
}

fn has_extension(file: &Path, wanted: &str) -> bool {
    file.extension()
        .is_some_and(|extension| extension == wanted)
}

/// What is in `dir`, in order.
///
/// # Errors
///
/// If it cannot be read.
pub fn list_dir(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_release_of_debian_has_backports() {
        let bookworm = "NAME=\"Debian GNU/Linux\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(
            backports_of(bookworm),
            Some("bookworm-backports".to_owned())
        );
        assert_eq!(
            backports_of("ID=\"debian\"\nVERSION_CODENAME=\"trixie\"\n"),
            Some("trixie-backports".to_owned())
        );
        assert_eq!(backports_of("ID=ubuntu\nVERSION_CODENAME=noble\n"), None);
        assert_eq!(backports_of("ID=debian\n"), None);
        assert_eq!(backports_of(""), None);
    }

    #[test]
    fn a_file_that_is_not_there_has_no_sources() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.sources");
        assert_eq!(read_sources(&file).unwrap(), []);
        fs::write(
            &file,
            "Types: deb\nURIs: http://m.test/debian\nSuites: sid\nComponents: main\n",
        )
        .unwrap();
        assert_eq!(read_sources(&file).unwrap().len(), 1);
    }
}
