// SPDX-License-Identifier: GPL-2.0
//! An apt with sources, lists and caches of its own.
//!
//! apt reads the file that `-c` names after the system's own configuration, so
//! what is not said there stays as the machine has it: keys, proxies, and the
//! state of what is installed.
//!
//! Not here: where packages are served (machine), how the tools are run (tool).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;

use crate::sources::Kind;
use crate::tool::{run, run_watched};
use crate::{Error, Result, machine};

/// The name of our file among those of apt's sources.
const SOURCES_NAME: &str = "debian_packages.sources";

/// An apt with sources, lists and caches of its own.
#[derive(Debug, Clone)]
pub struct PrivateApt {
    config: PathBuf,
}

impl PrivateApt {
    /// An apt below `dir` that knows `suites` of the machine's mirror and
    /// nothing else: for downloads, by any user.
    ///
    /// # Errors
    ///
    /// If the machine has no apt or names no mirror of Debian, or if `dir`
    /// cannot be written.
    pub fn new(dir: &Path, suites: &[&str]) -> Result<Self> {
        Self::set_up(dir, suites, Kind::Binary, false)
    }

    /// An apt below `dir` that knows `suites` beside everything that the
    /// machine is set up for: for installing with dependencies, by root.
    ///
    /// # Errors
    ///
    /// As those of [`PrivateApt::new`].
    pub fn with_machine_sources(dir: &Path, suites: &[&str]) -> Result<Self> {
        Self::set_up(dir, suites, Kind::Binary, true)
    }

    /// An apt below `dir` that knows the sources of what is in `suites` of the
    /// machine's mirror, and nothing else: for [`PrivateApt::download_source`].
    ///
    /// # Errors
    ///
    /// As those of [`PrivateApt::new`].
    pub fn for_sources(dir: &Path, suites: &[&str]) -> Result<Self> {
        Self::set_up(dir, suites, Kind::Source, false)
    }

    fn set_up(dir: &Path, suites: &[&str], kind: Kind, has_machine_sources: bool) -> Result<Self> {
        let text = machine::suite_sources(suites, kind)?;
        let sub_dirs = ["lists/partial", "cache/archives/partial", "log", "parts"];
        for sub_dir in sub_dirs {
            fs::create_dir_all(dir.join(sub_dir))?;
        }
        // apt takes relative names as relative to its own directories.
        let dir = fs::canonicalize(dir)?;
        let parts = dir.join("parts");
        for file in machine::list_dir(&parts)? {
            fs::remove_file(file)?;
        }
        if has_machine_sources {
            for file in machine::source_parts()? {
                fs::copy(&file, parts.join(file.file_name().unwrap_or_default()))?;
            }
        }
        fs::write(parts.join(SOURCES_NAME), text)?;

        let config = dir.join("apt.conf");
        fs::write(&config, format_config(&dir, has_machine_sources))?;
        Ok(Self { config })
    }

    /// The words that run one of apt's tools with this configuration.
    pub fn words(&self, tool: &str) -> Vec<OsString> {
        vec![tool.into(), "-c".into(), self.config.clone().into()]
    }

    /// A command that runs one of apt's tools with this configuration and asks
    /// no questions.
    pub fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(tool);
        command
            .arg("-c")
            .arg(&self.config)
            .env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    /// Fetch the package lists.
    ///
    /// # Errors
    ///
    /// If a mirror cannot be reached or does not have a suite.
    pub fn update(&self) -> Result<()> {
        // Without Error-Mode, a mirror that cannot be reached is only a warning.
        let mut command = self.command("apt-get");
        run(command.args(["-q", "-o", "APT::Update::Error-Mode=any", "update"]))?;
        Ok(())
    }

    /// Names of the known packages that begin with `prefix`, in order.
    ///
    /// # Errors
    ///
    /// If apt-cache fails.
    pub fn package_names(&self, prefix: &str) -> Result<Vec<String>> {
        let text = run(self.command("apt-cache").args(["pkgnames", prefix]))?;
        let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    /// The size of a package's file in bytes; 0 if apt does not tell.
    ///
    /// # Errors
    ///
    /// If there is no such package, or only others that depend on its name.
    pub fn size_bytes(&self, package: &str) -> Result<u64> {
        let mut command = self.command("apt-cache");
        let text = run(command.args(["--no-all-versions", "show", package]))?;
        parse_size_bytes(&text, package)
    }

    /// Download `package` into `dir` and return its file. `on_progress` is
    /// called a few times a second with the number of bytes that are there.
    ///
    /// # Errors
    ///
    /// If there is no such package, it cannot be fetched, or `dir` cannot be
    /// written.
    pub fn download(
        &self,
        package: &str,
        dir: &Path,
        on_progress: impl FnMut(u64),
    ) -> Result<PathBuf> {
        self.fetch(&["download", package], ".deb", dir, on_progress)
    }

    /// Download the archive from which `version` of the source package
    /// `package` was made, without Debian's own changes, into `dir` and return
    /// its file. `on_progress` is called as by [`PrivateApt::download`].
    ///
    /// # Errors
    ///
    /// If there is no such version, it cannot be fetched, or `dir` cannot be
    /// written.
    pub fn download_source(
        &self,
        package: &str,
        version: &str,
        dir: &Path,
        on_progress: impl FnMut(u64),
    ) -> Result<PathBuf> {
        let wanted = format!("{package}={version}");
        let words = [
            "source",
            "--download-only",
            "--only-source",
            "--tar-only",
            &wanted,
        ];
        self.fetch(&words, ".orig.tar.", dir, on_progress)
    }

    /// Let apt-get download what `words` say, and move the file with `part` in
    /// its name into `dir`.
    fn fetch(
        &self,
        words: &[&str],
        part: &str,
        dir: &Path,
        mut on_progress: impl FnMut(u64),
    ) -> Result<PathBuf> {
        fs::create_dir_all(dir)?;
        let holder = tempfile::tempdir_in(dir)?;
        let mut command = self.command("apt-get");
        command.arg("-q").args(words).current_dir(holder.path());
        run_watched(&mut command, || on_progress(dir_size_bytes(holder.path())))?;

        let has_part = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.contains(part)
        };
        let file = machine::list_dir(holder.path())?
            .into_iter()
            .find(has_part)
            .ok_or_else(|| Error::Apt(format!("{} brought no file", words.join(" "))))?;
        let target = dir.join(file.file_name().unwrap_or_default());
        fs::rename(&file, &target)?;
        Ok(target)
    }
}

/// Unpack the files of a package below `dir`, without installing it.
///
/// # Errors
///
/// If `deb` is no package or `dir` cannot be written.
pub fn unpack(deb: &Path, dir: &Path) -> Result<()> {
    run(Command::new("dpkg-deb").arg("-x").arg(deb).arg(dir))?;
    Ok(())
}

/// The configuration that `-c` reads after the system's own.
///
/// Hooks of the system are for the system's lists and would fail here, pins
/// are about the system's choices, and as root the sandbox user could not
/// write below a private directory.
fn format_config(dir: &Path, has_machine_sources: bool) -> String {
    let dir = dir.display();
    let mut text = format!(
        "Dir::State::lists \"{dir}/lists\";\n\
         Dir::Cache \"{dir}/cache\";\n\
         Dir::Log \"{dir}/log\";\n\
         Dir::Etc::sourceparts \"{dir}/parts\";\n\
         Dir::Etc::preferences \"/dev/null\";\n\
         Dir::Etc::preferencesparts \"/dev/null\";\n\
         #clear APT::Update::Pre-Invoke;\n\
         #clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n\
         Acquire::Retries \"3\";\n\
         DPkg::Lock::Timeout \"300\";\n"
    );
    if !has_machine_sources {
        text.push_str("Dir::Etc::sourcelist \"/dev/null\";\n");
    }
    if rustix::process::geteuid().is_root() {
        text.push_str("APT::Sandbox::User \"root\";\n");
    }
    text
}

/// The size that `record` tells, as `apt-cache show` prints it. Of a name that other packages
/// depend on, but that cannot be had, apt-cache prints nothing and is content.
fn parse_size_bytes(record: &str, package: &str) -> Result<u64> {
    if record.trim().is_empty() {
        return Err(Error::Apt(format!("{package} is offered in no version")));
    }
    let size = record
        .lines()
        .find_map(|line| line.strip_prefix("Size: ")?.trim().parse().ok());
    Ok(size.unwrap_or(0))
}

fn dir_size_bytes(dir: &Path) -> u64 {
    let files = machine::list_dir(dir).unwrap_or_default();
    files
        .iter()
        .filter_map(|file| fs::metadata(file).ok())
        .map(|data| data.len())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_version_has_no_size() {
        let record = "Package: x\nInstalled-Size: 7\nSize: 42\n";
        assert_eq!(parse_size_bytes(record, "x").unwrap(), 42);
        assert_eq!(parse_size_bytes("Package: x\n", "x").unwrap(), 0);
        let error = parse_size_bytes("\n", "x").unwrap_err();
        assert_eq!(error.to_string(), "apt: x is offered in no version");
    }

    #[test]
    fn the_machines_own_list_is_read_only_if_asked_for() {
        let dir = Path::new("/x");
        let off = "Dir::Etc::sourcelist \"/dev/null\";";
        assert!(format_config(dir, false).contains(off));
        assert!(!format_config(dir, true).contains(off));
        assert!(format_config(dir, true).contains("Dir::State::lists \"/x/lists\";"));
    }
}
