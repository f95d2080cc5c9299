// SPDX-License-Identifier: GPL-2.0
//! Installs Debian packages with the machine's own apt, changing nothing else.
//!
//! What the release has in a sufficient version is installed as usual.
//! What it has only in a version too old comes from its backports suite, by an
//! apt with sources and lists of its own ([`PrivateApt`]), so that the suite
//! does not become part of the machine's configuration.
//!
//! Not here: what is needed (needs), whether the user agrees (mod), where
//! packages are served (the machine's own sources know).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use debian_packages::{PrivateApt, backports_suite};

use super::needs::{Need, Version};
use crate::process;

/// What every installation is told: do not ask, keep the machine's own
/// configuration files, wait for another apt to finish.
const INSTALL: &[&str] = &[
    "-o",
    "DPkg::Lock::Timeout=300",
    "-o",
    "Dpkg::Options::=--force-confdef",
    "-o",
    "Dpkg::Options::=--force-confold",
    "-y",
    "--no-install-recommends",
    "install",
];

/// Install the packages of `needs`, from backports where the release's own are too old.
pub fn install(needs: &[&Need], needs_sudo: bool) -> Result<()> {
    process::run_quietly(
        &mut apt_get(&[], needs_sudo, &["update"]),
        "updating apt's lists",
    )?;
    let (mut current, mut too_old) = (Vec::new(), Vec::new());
    for need in needs {
        let min = need.min_version();
        let is_current = min.is_none() || candidate(need.package)? >= min;
        if is_current {
            current.push(need.package)
        } else {
            too_old.push(*need)
        }
    }
    if !current.is_empty() {
        eprintln!("installing {}", current.join(" "));
        let mut command = apt_get(&[], needs_sudo, INSTALL);
        process::run_quietly(command.args(&current), "apt-get install")?;
    }
    if !too_old.is_empty() {
        install_from_backports(&too_old, needs_sudo)?;
    }
    Ok(())
}

/// Download the newest `package` into `dir` without installing it; return the
/// file. Needs no rights, and no lists on the machine.
pub fn download(package: &str, dir: &Path) -> Result<PathBuf> {
    let Some(suite) = backports_suite() else {
        bail!("{package} is a package of Debian's, and this is another distribution");
    };
    let lists = tempfile::tempdir().context("making a directory for apt's lists")?;
    let apt = PrivateApt::with_machine_sources(lists.path(), &[&suite])?;
    let step = process::progress("updating apt's lists");
    apt.update()?;
    step.finish_and_clear();
    let size_mb = mb(apt.size_bytes(package)?);
    let step = process::progress(&format!("downloading {package} ({size_mb} MB)"));
    let file = apt.download(package, dir, |nr_bytes| {
        step.set_message(format!("{} MB", mb(nr_bytes)));
    });
    step.finish_and_clear();
    Ok(file?)
}

/// Download the archive of the sources of `package` in `version`, which `suite` has,
/// into `dir`; return the file. Needs no rights, and no lists on the machine.
pub fn download_source(package: &str, version: &str, suite: &str, dir: &Path) -> Result<PathBuf> {
    let lists = tempfile::tempdir().context("making a directory for apt's lists")?;
    let apt = PrivateApt::for_sources(lists.path(), &[suite])?;
    let step = process::progress(&format!("updating the lists of {suite}"));
    apt.update()?;
    step.finish_and_clear();
    let step = process::progress(&format!("downloading the sources of {package} {version}"));
    let file = apt.download_source(package, version, dir, |nr_bytes| {
        step.set_message(format!("{} MB", mb(nr_bytes)));
    });
    step.finish_and_clear();
    Ok(file?)
}

/// Megabytes, rounded up.
fn mb(nr_bytes: u64) -> u64 {
    nr_bytes.div_ceil(1_000_000)
}

fn install_from_backports(needs: &[&Need], needs_sudo: bool) -> Result<()> {
    let Some(suite) = backports_suite() else {
        bail!(
            "this release has no {}: install it by hand, then try again",
            super::list(needs)
        );
    };
    let private = tempfile::tempdir().context("making a directory for apt's lists")?;
    let apt = PrivateApt::with_machine_sources(private.path(), &[&suite])?;
    let step = process::progress(&format!("updating the lists of {suite}"));
    apt.update()?;
    step.finish_and_clear();

    let packages: Vec<&str> = needs.iter().map(|need| need.package).collect();
    eprintln!("installing {} from {suite}", packages.join(" "));
    // What the packages depend on may have to come from there too.
    let mut command = apt_get(&apt.words("apt-get"), needs_sudo, INSTALL);
    command
        .arg(format!("--target-release={suite}"))
        .args(&packages);
    let result = process::run_quietly(&mut command, "apt-get install");
    if needs_sudo {
        // apt made files in there as root, which only root can remove.
        let _ = Command::new("sudo")
            .args(["rm", "-rf"])
            .arg(private.path())
            .status();
    }
    result
}

/// apt-get with `args`; `words` are those of a private apt, or none.
fn apt_get(words: &[OsString], needs_sudo: bool, args: &[&str]) -> Command {
    let mut command = Command::new(if needs_sudo { "sudo" } else { "env" });
    if needs_sudo {
        command.arg("env");
    }
    // By env, because sudo drops the caller's environment.
    command.args(["DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"]);
    if words.is_empty() {
        command.arg("apt-get");
    }
    command.args(words).arg("-q");
    if !words.is_empty() {
        // apt's own user has no access to a private directory.
        command.args(["-o", "APT::Sandbox::User=root"]);
    }
    command.args(args);
    command
}

/// The version apt would install by default.
fn candidate(package: &str) -> Result<Option<Version>> {
    let output = Command::new("apt-cache")
        .args(["policy", package])
        .env("LC_ALL", "C")
        .output()
        .context("cannot run apt-cache")?;
    Ok(candidate_in(&String::from_utf8_lossy(&output.stdout)))
}

/// The candidate in what `apt-cache policy` prints.
fn candidate_in(policy: &str) -> Option<Version> {
    let line = policy
        .lines()
        .find_map(|line| line.trim().strip_prefix("Candidate:"))?;
    Version::find_in(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_candidate_is_read_from_apts_policy() {
        let policy = "qemu-system-x86:\n  Installed: (none)\n  Candidate: 1:7.2+dfsg-7\n";
        assert_eq!(candidate_in(policy), Some(Version(7, 2)));
        assert_eq!(candidate_in("x:\n  Candidate: (none)\n"), None);
        assert_eq!(candidate_in(""), None);
    }

    #[test]
    fn apt_is_told_not_to_ask() {
        let plain = process::display(&apt_get(&[], false, &["update"]));
        assert_eq!(
            plain,
            "env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -q update"
        );
        let words = ["apt-get".into(), "-c".into(), "/x/apt.conf".into()];
        let private = process::display(&apt_get(&words, true, &["update"]));
        assert!(
            private.starts_with("sudo env DEBIAN_FRONTEND=noninteractive"),
            "{private}"
        );
        assert!(private.contains("apt-get -c /x/apt.conf -q"), "{private}");
    }
}
