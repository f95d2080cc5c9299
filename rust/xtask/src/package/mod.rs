// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask package`: a Debian package, an RPM, and a PKGBUILD with its sources.
//!
//! Each holds what `install.list` says, as `cargo xtask install --prefix /usr` puts
//! it. Name, version, licence and words are those of Cargo.toml; what has to be
//! installed with it is what the built program links. The same commit and program
//! give the same bytes: each time in a package is that of the commit, or of
//! `SOURCE_DATE_EPOCH`.
//!
//! A package has no settings. Those of scx_loader are a file of scx_loader's own
//! package, and `/etc/default/scx_pandemonium` is the user's: neither is touched.

mod arch;
mod deb;
mod linked;
mod redhat;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::install::{self, PACKAGE, Stage};
use crate::setup::{self, Purpose};
use crate::workspace::{Package, Workspace};

/// What starts schedulers, as the distributions that have it call the package.
const LOADER: &str = "scx-tools";

/// The release of a version that is packaged once.
const RELEASE: &str = "1";

/// The arguments of `cargo xtask package`; without a format, all of them.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Make a Debian package
    #[arg(long)]
    deb: bool,
    /// Make an RPM
    #[arg(long)]
    rpm: bool,
    /// Make a PKGBUILD, and the archive of the sources that it builds
    #[arg(long)]
    arch: bool,
    /// Where to put them [default: packages below cargo's target directory]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Package what `cargo build --release` has made, without looking whether it is the newest
    #[arg(long)]
    no_build: bool,
}

/// What each package says of itself.
#[derive(Debug)]
struct About {
    name: String,
    version: String,
    description: String,
    license: String,
    url: String,
    authors: String,
    /// Seconds since 1970, of every file.
    time: u32,
}

impl About {
    fn of(package: &Package, time: u32) -> Result<About> {
        let field = |value: &Option<String>, name| {
            let value = value.as_ref().filter(|value| !value.contains('\n'));
            value
                .cloned()
                .with_context(|| format!("{}'s Cargo.toml has no line {name}", package.name))
        };
        Ok(About {
            name: package.name.clone(),
            version: package.version.clone(),
            description: field(&package.description, "description")?,
            license: field(&package.license, "license")?,
            url: field(&package.repository, "repository")?,
            authors: package.authors.join(", "),
            time,
        })
    }

    /// The version where `~` sorts a release's candidates before it.
    fn version_with_tilde(&self) -> String {
        self.version.replacen('-', "~", 1)
    }
}

/// Build the program, and make the packages that are asked for.
pub fn main(args: &Args) -> Result<()> {
    let is_all = !(args.deb || args.rpm || args.arch);
    let mut purposes = Vec::new();
    if !args.no_build {
        purposes.push(Purpose::Build);
    }
    if args.deb || is_all {
        purposes.push(Purpose::Debian);
    }
    let tools = setup::ensure(&purposes, false)?;
    let workspace = Workspace::find(&tools)?;
    if !args.no_build {
        workspace.build(&tools, PACKAGE)?;
    }
    let root = workspace.root();
    let about = About::of(workspace.package(PACKAGE)?, time(root)?)?;
    let default_out = || workspace.target().join("packages");
    let out = args.out.clone().unwrap_or_else(default_out);
    fs::create_dir_all(&out).with_context(|| format!("making {}", out.display()))?;

    let dir = tempfile::tempdir().context("making a directory for the files")?;
    let binary = workspace.binary(PACKAGE);
    let stage = Stage::lay(root, &binary, &dir.path().join("stage"))?;
    let mut made = Vec::new();
    if args.rpm || is_all {
        let links = linked::read(&binary)?;
        made.push(redhat::make(&about, &stage, &links, &out)?);
    }
    if args.arch || is_all {
        let links = linked::read(&binary)?;
        made.extend(arch::make(&about, root, &links, &out)?);
    }
    // The last, since it adds to the files.
    if args.deb || is_all {
        let depends = deb::depends(&binary)?;
        made.push(deb::make(&about, stage, &depends, &out)?);
    }
    for path in made {
        println!("{}", path.display());
    }
    Ok(())
}

/// The time that files are of: `SOURCE_DATE_EPOCH`, else that of the commit, else of
/// the changelog, as an archive of the sources has it.
fn time(root: &Path) -> Result<u32> {
    let parse = |text: &str| {
        let text = text.trim();
        text.parse()
            .with_context(|| format!("{text:?} is no time in seconds since 1970"))
    };
    if let Ok(text) = env::var("SOURCE_DATE_EPOCH") {
        return parse(&text).context("SOURCE_DATE_EPOCH");
    }
    let mut git = Command::new("git");
    git.current_dir(root)
        .args(["log", "-1", "--format=%ct", "--", "."]);
    if let Ok(text) = install::output(&mut git)
        && !text.is_empty()
    {
        return parse(&String::from_utf8_lossy(&text));
    }
    let changelog = fs::metadata(root.join("CHANGELOG.md")).and_then(|file| file.modified());
    let changelog = changelog.context("reading CHANGELOG.md")?;
    let since = changelog.duration_since(std::time::UNIX_EPOCH)?;
    u32::try_from(since.as_secs()).context("the time of CHANGELOG.md")
}

/// Remove `unit` from what systemd starts, also where systemd does not run, and end it.
fn disable(unit: &str) -> String {
    format!(
        "if command -v systemctl >/dev/null; then\n\
         \tsystemctl --quiet disable {unit} || true\n\
         fi\n\
         if [ -d /run/systemd/system ]; then\n\
         \tsystemctl stop {unit} || true\n\
         fi\n"
    )
}

/// Let systemd see which units there are.
const RELOAD: &str = "if [ -d /run/systemd/system ]; then\n\
                      \tsystemctl daemon-reload || true\n\
                      fi\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::tests::{fake_program, top_level};

    pub fn about() -> About {
        About {
            name: PACKAGE.to_string(),
            version: "6.1.0-rc.1".to_string(),
            description: "A scheduler that's a test".to_string(),
            license: "GPL-2.0-only".to_string(),
            url: "https://example.org/scx".to_string(),
            authors: "Some One".to_string(),
            time: 1_700_000_000,
        }
    }

    /// The files of a program that is none.
    pub fn stage(dir: &Path) -> Stage {
        let program = fake_program(dir);
        Stage::lay(&top_level(), &program, &dir.join("stage")).expect("it installs")
    }

    #[test]
    fn what_cargo_toml_lacks_is_named() {
        let package = Package {
            name: "x".to_string(),
            version: "1.0.0".to_string(),
            authors: Vec::new(),
            description: None,
            license: None,
            repository: None,
            targets: Vec::new(),
        };
        let err = About::of(&package, 0).expect_err("it is refused");
        assert!(err.to_string().contains("description"), "{err}");
    }

    #[test]
    fn a_candidate_sorts_before_its_release() {
        assert_eq!(about().version_with_tilde(), "6.1.0~rc.1");
    }

    #[test]
    fn the_stage_tells_its_unit_and_its_own_directories() {
        let dir = tempfile::tempdir().expect("a directory");
        let stage = stage(dir.path());
        assert_eq!(
            stage.unit().expect("there is one"),
            "scx_pandemonium.service"
        );
        let own: Vec<&Path> = stage.own_dirs().into_iter().collect();
        let expected =
            ["doc", "licenses"].map(|dir| Path::new("usr/share").join(dir).join(PACKAGE));
        assert_eq!(own, expected);
    }
}
