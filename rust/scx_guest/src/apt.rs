// SPDX-License-Identifier: GPL-2.0
//! Packages from a Debian suite that this machine is not set up for.
//!
//! *How do I get one package from backports without touching anyone's apt
//! configuration, and without knowing where packages come from?* The machine's
//! own sources name a mirror that serves Debian; [`PrivateApt`] writes a
//! source file for another suite of that mirror, with lists and caches of its
//! own, and keeps the system's keys, proxies and package state.
//!
//! Download only, works for any user:
//!
//! ```no_run
//! # use std::path::Path;
//! # fn main() -> scx_guest::Result<()> {
//! use scx_guest::apt::PrivateApt;
//! let apt = PrivateApt::new(Path::new("/tmp/apt"), &["bookworm-backports"])?;
//! apt.update()?;
//! let deb = apt.download("linux-source-6.12", Path::new("/tmp"))?;
//! # let _ = deb; Ok(())
//! # }
//! ```
//!
//! Install, as root (or put `sudo` before [`PrivateApt::words`]):
//!
//! ```no_run
//! # use std::path::Path;
//! # fn main() -> scx_guest::Result<()> {
//! # use scx_guest::apt::PrivateApt;
//! let apt = PrivateApt::with_machine_sources(Path::new("/tmp/apt"), &["bookworm-backports"])?;
//! apt.update()?;
//! let status = apt
//!     .command("apt-get")
//!     .args(["install", "-y", "--no-install-recommends", "-t", "bookworm-backports"])
//!     .arg("qemu-system-x86")
//!     .status();
//! # let _ = status; Ok(())
//! # }
//! ```
//!
//! Not here: which package anyone wants ([`crate::debian`], or the caller).

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use crate::{Error, Result, progress};

/// Suites by which Debian itself is recognised among other repositories.
const DEBIAN_SUITES: &[&str] = &[
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
];

/// How often a download is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// One binary package source of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Where it is served.
    pub uri: String,
    /// Suites, such as `bookworm` and `bookworm-updates`.
    pub suites: Vec<String>,
    /// Components, such as `main`.
    pub components: Vec<String>,
    /// Further deb822 fields that say how it is trusted, such as `Signed-By`.
    pub options: Vec<(String, String)>,
}

/// The binary sources in the text of a one-line style `.list` file.
pub fn parse_list(text: &str) -> Vec<Source> {
    text.lines().filter_map(parse_list_line).collect()
}

/// The binary sources in the text of a deb822 style `.sources` file.
pub fn parse_sources(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut stanza = Vec::new();
    for line in text.lines().chain([""]) {
        if line.trim().is_empty() {
            sources.extend(stanza_sources(&stanza));
            stanza.clear();
        } else if line.starts_with('#') {
            // A comment does not end a stanza.
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = stanza.last_mut() {
                let value: &mut String = value;
                value.push('\n');
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            stanza.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    sources
}

/// The source that serves Debian's main archive, if there is one.
///
/// It has a Debian suite and `main`, and is not the security archive, which
/// has no backports. Third parties use Debian's suite names too, so among
/// several the one whose address ends in `debian` is taken.
pub fn debian_mirror(sources: &[Source]) -> Option<&Source> {
    let is_debian = |source: &&Source| {
        source
            .components
            .iter()
            .any(|component| component == "main")
            && source
                .suites
                .iter()
                .any(|suite| DEBIAN_SUITES.contains(&suite.as_str()))
            && !source.uri.contains("security")
    };
    let is_named_debian = |source: &&Source| {
        let last = source
            .uri
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or_default();
        last == "debian" || last == "debian.list"
    };
    let mut candidates = sources.iter().filter(is_debian);
    candidates
        .clone()
        .find(is_named_debian)
        .or_else(|| candidates.next())
}

/// The text of a `.sources` file for `suites` of the machine's Debian mirror.
pub fn suite_sources(suites: &[&str]) -> Result<String> {
    let sources = machine_sources()?;
    let mirror = debian_mirror(&sources).ok_or_else(|| {
        Error::Apt("this machine's apt configuration names no mirror of Debian".to_owned())
    })?;
    Ok(format_sources(mirror, suites))
}

/// Every binary source that this machine's apt is set up for.
pub fn machine_sources() -> Result<Vec<Source>> {
    let output = run(
        &mut Command::new("apt-config"),
        &[
            "shell",
            "LIST",
            "Dir::Etc::sourcelist/f",
            "PARTS",
            "Dir::Etc::sourceparts/d",
        ],
    )?;
    let mut sources = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some((name, value)) = line.split_once('=') else {
            continue;
        };
        let path = Path::new(value.trim_matches('\''));
        match name {
            "LIST" => sources.extend(read_sources(path)?),
            "PARTS" => {
                for file in source_parts(path)? {
                    sources.extend(read_sources(&file)?);
                }
            }
            _ => {}
        }
    }
    Ok(sources)
}

/// An apt with sources, lists and caches of its own.
#[derive(Debug, Clone)]
pub struct PrivateApt {
    config: PathBuf,
}

impl PrivateApt {
    /// An apt below `dir` that knows `suites` of the machine's mirror and
    /// nothing else: for downloads.
    pub fn new(dir: &Path, suites: &[&str]) -> Result<Self> {
        Self::set_up(dir, suites, false)
    }

    /// An apt below `dir` that knows `suites` beside everything that the
    /// machine is set up for: for installing with dependencies.
    pub fn with_machine_sources(dir: &Path, suites: &[&str]) -> Result<Self> {
        Self::set_up(dir, suites, true)
    }

    fn set_up(dir: &Path, suites: &[&str], has_machine_sources: bool) -> Result<Self> {
        let text = suite_sources(suites)?;
        let sub_dirs = ["lists/partial", "cache/archives/partial", "log", "parts"];
        for sub_dir in sub_dirs {
            create_dir(&dir.join(sub_dir))?;
        }
        // apt takes relative names as relative to its own directories.
        let dir = fs::canonicalize(dir).map_err(|e| Error::at("resolving", dir, e))?;
        let parts = dir.join("parts");
        empty_dir(&parts)?;
        if has_machine_sources {
            copy_machine_parts(&parts)?;
        }
        write(&parts.join("scx_guest.sources"), &text)?;

        let config = dir.join("apt.conf");
        write(&config, &format_config(&dir, has_machine_sources))?;
        Ok(Self { config })
    }

    /// The words that run one of apt's tools with this configuration.
    pub fn words(&self, tool: &str) -> Vec<OsString> {
        vec![tool.into(), "-c".into(), self.config.clone().into()]
    }

    /// A command that runs one of apt's tools with this configuration.
    pub fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(tool);
        command
            .arg("-c")
            .arg(&self.config)
            .env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    /// Fetch the package lists.
    pub fn update(&self) -> Result<()> {
        // Without Error-Mode, a mirror that cannot be reached is only a warning.
        run(
            &mut self.command("apt-get"),
            &["-q", "-o", "APT::Update::Error-Mode=any", "update"],
        )
        .map(drop)
    }

    /// Names of the known packages that begin with `prefix`.
    pub fn package_names(&self, prefix: &str) -> Result<Vec<String>> {
        let output = run(&mut self.command("apt-cache"), &["pkgnames", prefix])?;
        let mut names: Vec<String> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(str::to_owned)
            .collect();
        names.sort();
        Ok(names)
    }

    /// Download `package` into `dir` with a progress line, and return its file.
    pub fn download(&self, package: &str, dir: &Path) -> Result<PathBuf> {
        create_dir(dir)?;
        let holder = tempfile::tempdir_in(dir).map_err(|e| Error::at("writing to", dir, e))?;
        let bar = progress::bytes(format!("downloading {package}"), self.size_bytes(package)?);
        let child = self
            .command("apt-get")
            .args(["-q", "download", package])
            .current_dir(holder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| tool_error("apt-get", e))?;
        let output = wait_watching(child, || bar.set_position(dir_size_bytes(holder.path())))?;
        bar.finish_and_clear();
        check("apt-get", output)?;

        let file = list_dir(holder.path())?
            .into_iter()
            .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .ok_or_else(|| Error::Apt(format!("downloading {package} brought no file")))?;
        let target = dir.join(file.file_name().unwrap_or_default());
        fs::rename(&file, &target).map_err(|e| Error::at("writing", &target, e))?;
        Ok(target)
    }

    /// The size of a package's file; 0 if apt does not tell.
    fn size_bytes(&self, package: &str) -> Result<u64> {
        let output = run(
            &mut self.command("apt-cache"),
            &["--no-all-versions", "show", package],
        )?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let size = text
            .lines()
            .find_map(|line| line.strip_prefix("Size: ")?.trim().parse().ok());
        Ok(size.unwrap_or(0))
    }
}

/// Unpack the files of a package below `dir`, without installing it.
pub fn unpack(deb: &Path, dir: &Path) -> Result<()> {
    run(Command::new("dpkg-deb").arg("-x").arg(deb).arg(dir), &[]).map(drop)
}

/// One `deb` line: `deb [options] uri suite components...`.
fn parse_list_line(line: &str) -> Option<Source> {
    let line = line.split('#').next()?.trim();
    let mut rest = line
        .strip_prefix("deb")?
        .strip_prefix([' ', '\t'])?
        .trim_start();
    let mut options = Vec::new();
    if let Some(inner) = rest.strip_prefix('[') {
        let (words, after) = inner.split_once(']')?;
        options = words.split_whitespace().filter_map(list_option).collect();
        rest = after;
    }
    let mut words = rest.split_whitespace().map(str::to_owned);
    Some(Source {
        uri: words.next()?,
        suites: vec![words.next()?],
        components: words.collect(),
        options,
    })
}

/// A one-line option as a deb822 field, if it is about trust.
fn list_option(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let field = trust_fields().find(|field| field.eq_ignore_ascii_case(name))?;
    Some((field.to_owned(), value.replace(',', " ")))
}

/// Fields that another suite of the same mirror shares.
fn trust_fields() -> impl Iterator<Item = &'static str> {
    [
        "Signed-By",
        "Trusted",
        "Check-Valid-Until",
        "Check-Date",
        "Allow-Insecure",
        "Allow-Weak",
    ]
    .into_iter()
}

/// One deb822 stanza as sources, one for each address.
fn stanza_sources(stanza: &[(String, String)]) -> Vec<Source> {
    let field = |name: &str| {
        stanza
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    };
    let words = |name: &str| -> Vec<String> {
        let value = field(name).map(String::as_str).unwrap_or_default();
        value.split_whitespace().map(str::to_owned).collect()
    };
    let is_disabled = field("Enabled").is_some_and(|value| {
        ["no", "false", "off", "0", "without", "disable"].contains(&value.to_lowercase().as_str())
    });
    if is_disabled || !words("Types").iter().any(|kind| kind == "deb") {
        return Vec::new();
    }
    let options: Vec<(String, String)> = trust_fields()
        .filter_map(|name| Some((name.to_owned(), field(name)?.clone())))
        .collect();
    words("URIs")
        .into_iter()
        .map(|uri| Source {
            uri,
            suites: words("Suites"),
            components: words("Components"),
            options: options.clone(),
        })
        .collect()
}

fn format_sources(mirror: &Source, suites: &[&str]) -> String {
    let mut text = format!(
        "Types: deb\nURIs: {}\nSuites: {}\nComponents: main\nArchitectures: amd64\n",
        mirror.uri,
        suites.join(" ")
    );
    for (name, value) in &mirror.options {
        text.push_str(&format!("{name}: {value}\n"));
    }
    text
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

fn copy_machine_parts(parts: &Path) -> Result<()> {
    let output = run(
        &mut Command::new("apt-config"),
        &["shell", "D", "Dir::Etc::sourceparts/d"],
    )?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let Some(dir) = text.trim().strip_prefix("D=") else {
        return Ok(());
    };
    for file in source_parts(Path::new(dir.trim_matches('\'')))? {
        let target = parts.join(file.file_name().unwrap_or_default());
        fs::copy(&file, &target).map_err(|e| Error::at("copying", &file, e))?;
    }
    Ok(())
}

/// The files of a `sources.list.d` that apt reads.
fn source_parts(dir: &Path) -> Result<Vec<PathBuf>> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = list_dir(dir)?;
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "list" || extension == "sources")
    });
    Ok(files)
}

/// The sources in one file; none if it does not exist.
fn read_sources(file: &Path) -> Result<Vec<Source>> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::at("reading", file, error)),
    };
    let is_deb822 = file
        .extension()
        .is_some_and(|extension| extension == "sources");
    Ok(if is_deb822 {
        parse_sources(&text)
    } else {
        parse_list(&text)
    })
}

/// Run `command` with `args`, and return its output or its own words of error.
fn run(command: &mut Command, args: &[&str]) -> Result<Output> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let output = command
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| tool_error(&tool, error))?;
    check(&tool, output)
}

fn check(tool: &str, output: Output) -> Result<Output> {
    if output.status.success() {
        return Ok(output);
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut errors: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("E: "))
        .map(str::trim)
        .collect();
    if errors.is_empty() {
        errors.extend(text.lines().last());
    }
    Err(Error::Apt(format!(
        "{tool} failed ({}): {}",
        output.status,
        errors.join("; ")
    )))
}

fn tool_error(tool: &str, error: std::io::Error) -> Error {
    if error.kind() == ErrorKind::NotFound {
        return Error::MissingTool {
            tool: tool.to_owned(),
            hint: "kernels are fetched by Debian's package tools; \
                   elsewhere give an image with --kernel"
                .to_owned(),
        };
    }
    Error::io(format!("running {tool}"), error)
}

/// Wait for `child`, calling `on_poll` meanwhile.
fn wait_watching(mut child: std::process::Child, on_poll: impl Fn()) -> Result<Output> {
    loop {
        match child.try_wait() {
            Ok(None) => {
                on_poll();
                thread::sleep(POLL_INTERVAL);
            }
            // What apt-get says when it fails is far below the size of a pipe.
            Ok(Some(_)) => {
                return child
                    .wait_with_output()
                    .map_err(|e| Error::io("running apt-get", e));
            }
            Err(error) => return Err(Error::io("running apt-get", error)),
        }
    }
}

fn dir_size_bytes(dir: &Path) -> u64 {
    let Ok(files) = list_dir(dir) else { return 0 };
    files
        .iter()
        .filter_map(|file| fs::metadata(file).ok())
        .map(|data| data.len())
        .sum()
}

pub(crate) fn list_dir(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(dir)
        .and_then(|entries| {
            entries
                .map(|entry| Ok(entry?.path()))
                .collect::<std::io::Result<Vec<_>>>()
        })
        .map_err(|e| Error::at("reading", dir, e))?;
    paths.sort();
    Ok(paths)
}

pub(crate) fn create_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(|e| Error::at("creating", dir, e))
}

fn empty_dir(dir: &Path) -> Result<()> {
    for file in list_dir(dir)? {
        fs::remove_file(&file).map_err(|e| Error::at("removing", &file, e))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|e| Error::at("writing", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB822: &str = "\
Types: deb deb-src
# where it came from
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/some.gpg

Types: deb
URIs: http://mirror.test/debian-security
Suites: bookworm-security bookworm
Components: main

Enabled: no
Types: deb
URIs: http://off.test/debian
Suites: bookworm
Components: main

Types: deb-src
URIs: http://source.test/debian
Suites: bookworm
Components: main
";

    #[test]
    fn deb822_stanzas_give_enabled_binary_sources() {
        let sources = parse_sources(DEB822);
        assert_eq!(sources.len(), 2);
        assert_eq!(sources[0].suites, ["bookworm", "bookworm-updates"]);
        assert_eq!(sources[0].components, ["main", "contrib"]);
        let key = (
            "Signed-By".to_owned(),
            "/usr/share/keyrings/some.gpg".to_owned(),
        );
        assert_eq!(sources[0].options, [key]);
    }

    #[test]
    fn one_line_sources_are_read_with_their_options() {
        let text = "# deb http://no.test/debian bookworm main\n\
                    deb-src http://src.test/debian bookworm main\n\
                    deb [arch=amd64 signed-by=/k.gpg] http://a.test/debian/ bookworm main # x\n\
                    deb http://b.test/other stable main\n";
        let sources = parse_list(text);
        assert_eq!(sources.len(), 2);
        assert_eq!(sources[0].uri, "http://a.test/debian/");
        assert_eq!(
            sources[0].options,
            [("Signed-By".to_owned(), "/k.gpg".to_owned())]
        );
    }

    #[test]
    fn the_mirror_is_not_security_and_not_a_third_party() {
        let mut sources =
            parse_list("deb http://php.test/php bookworm main\ndeb http://x.test/u noble main\n");
        sources.extend(parse_sources(DEB822).into_iter().rev());
        assert_eq!(
            debian_mirror(&sources).unwrap().uri,
            "http://mirror.test/debian"
        );
        assert_eq!(
            debian_mirror(&parse_list("deb http://x.test/ubuntu noble main")),
            None
        );
    }

    #[test]
    fn another_suite_keeps_the_mirror_and_its_key() {
        let sources = parse_sources(DEB822);
        let text = format_sources(&sources[0], &["trixie-backports"]);
        let back = parse_sources(&text);
        assert_eq!(back[0].uri, sources[0].uri);
        assert_eq!(back[0].suites, ["trixie-backports"]);
        assert_eq!(back[0].options, sources[0].options);
    }

    #[test]
    fn a_key_in_the_stanza_survives() {
        let text = "Types: deb\nURIs: http://m.test/debian\nSuites: sid\nComponents: main\n\
                    Signed-By:\n -----BEGIN\n .\n abc\n -----END\n";
        let source = &parse_sources(text)[0];
        let back = parse_sources(&format_sources(source, &["x"]));
        assert_eq!(back[0].options, source.options);
        assert!(source.options[0].1.contains("\n abc\n"));
    }
}
