// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask export DIR`: puts the scheduler into a checkout of the scx monorepo.
//!
//!   1. DIR is refused unless it is laid out as that repository is, and its own
//!      crates are new enough.
//!   2. Our crate takes the place of whatever is in `scheds/rust/scx_pandemonium`.
//!      Pages and lists that its tests read go with it, and their links lead to what is
//!      there ([`links`]).
//!   3. Its Cargo.toml says what the checkout's workspace does not ([`manifest`]).
//!   4. It becomes a member of the workspace and of the lists of schedulers
//!      ([`lists`]). What names it already stays as it is, so that a second export
//!      changes nothing.
//!
//! What stays here: tests that boot a kernel with scx_guest, and the figures of the
//! bench. Not here: `Cargo.lock` of the checkout, which cargo renews there.

mod links;
mod lists;
mod manifest;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use toml_edit::DocumentMut;
use walkdir::WalkDir;

use crate::install::PACKAGE;
use crate::setup;
use crate::workspace::Workspace;
use lists::Change;

/// Where schedulers are, here and there.
const SCHEDS: &str = "scheds/rust";

/// What stays behind, from our crate.
const STAYS: &[&str] = &["bench-baseline.json", "tests/guest"];

/// What goes with our crate, from the top level to below the crate.
const PAGES: &[&str] = &[
    "ARCHITECTURE.md",
    "clippy.toml",
    "docs/DESIGN.md",
    "docs/GUIDE.md",
    "docs/REFERENCE.md",
    "install.list",
];

/// Which sources name what of [`PAGES`], and what they say there instead.
const PATHS: &[(&str, &str, &str)] = &[
    (
        "src/manual.rs",
        "\"../../../install.list\"",
        "\"install.list\"",
    ),
    (
        "src/reference.rs",
        "\"../../../docs/REFERENCE.md\"",
        "\"docs/REFERENCE.md\"",
    ),
    (
        "tests/sources/rooms.rs",
        "Path::new(env!(\"CARGO_MANIFEST_DIR\")).join(\"../../..\")",
        "Path::new(env!(\"CARGO_MANIFEST_DIR\"))",
    ),
];

/// The arguments of `cargo xtask export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A checkout of the scx monorepo
    dir: PathBuf,
}

/// Export to the checkout, and say what is left to do there.
pub fn main(args: &Args) -> Result<()> {
    let tools = setup::ensure(&[], false)?;
    let workspace = Workspace::find(&tools)?;
    for line in export(workspace.root(), &args.dir)? {
        println!("{line}");
    }
    println!("left to do there: cargo check -p {PACKAGE}, which renews Cargo.lock");
    Ok(())
}

/// Export from the tree at `root` to the checkout at `dir`; return what was done.
fn export(root: &Path, dir: &Path) -> Result<Vec<String>> {
    let from = root.join(SCHEDS).join(PACKAGE);
    let to = dir.join(SCHEDS).join(PACKAGE);
    // All that may be refused comes before the first change.
    let parse = |path: PathBuf| -> Result<DocumentMut> {
        let text = read(&path)?;
        text.parse()
            .with_context(|| format!("reading {}", path.display()))
    };
    let is_laid_out = dir.join(SCHEDS).is_dir() && dir.join("rust/scx_utils/Cargo.toml").is_file();
    ensure!(
        is_laid_out,
        "{} is no checkout of the scx monorepo: it has no {SCHEDS} or no rust/scx_utils",
        dir.display()
    );
    let mut theirs = parse(dir.join("Cargo.toml"))?;
    let is_new_member = lists::add_member(&mut theirs, &format!("{SCHEDS}/{PACKAGE}"))
        .with_context(|| format!("{} is no checkout of the scx monorepo", dir.display()))?;
    let ours = parse(root.join("Cargo.toml"))?;
    let mut manifest = parse(from.join("Cargo.toml"))?;
    let files = files(&from)?;
    let mut sources = String::new();
    for file in files
        .iter()
        .filter(|file| file.extension() == Some("rs".as_ref()))
    {
        sources += &read(&from.join(file))?;
    }
    manifest::inherit(&mut manifest, &ours)?;
    manifest::use_paths(&mut manifest, &crates(dir)?)?;
    let url = manifest::repository(&manifest)?;
    let dropped = manifest::drop_unused(&mut manifest, &sources)?;

    let mut done = Vec::new();
    if to.exists() {
        fs::remove_dir_all(&to).with_context(|| format!("removing {}", to.display()))?;
    }
    for file in &files {
        copy(&from.join(file), &to.join(file))?;
    }
    for page in PAGES {
        let (from, to) = (root.join(page), to.join(page));
        copy(&from, &to)?;
        if to.extension() == Some("md".as_ref()) {
            write(&to, &links::renew(&read(&from)?, Path::new(page), &url))?;
        }
    }
    write(&to.join("Cargo.toml"), &manifest.to_string())?;
    for (file, old, new) in PATHS {
        let path = to.join(file);
        let text = read(&path)?;
        ensure!(
            text.matches(old).count() == 1,
            "{file} does not say {old} once"
        );
        write(&path, &text.replace(old, new))?;
    }
    done.push(format!(
        "{}: {} files; {} stay behind, and of what tests need {}",
        to.display(),
        files.len() + PAGES.len(),
        STAYS.join(" and "),
        dropped.join(", ")
    ));

    if is_new_member {
        write(&dir.join("Cargo.toml"), &theirs.to_string())?;
        done.push("Cargo.toml: a member".to_string());
    }
    for list in lists::LISTS {
        let path = dir.join(list.file);
        if !path.is_file() {
            continue;
        }
        match (list.add)(&read(&path)?) {
            Change::None => {}
            Change::Text(text) => {
                write(&path, &text)?;
                done.push(format!("{}: listed", list.file));
            }
            Change::NoPlace => done.push(format!(
                "{}: names no schedulers as it used to: list {PACKAGE} by hand",
                list.file
            )),
        }
    }
    Ok(done)
}

/// What is exported of the crate at `from`, from there.
fn files(from: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = WalkDir::new(from).sort_by_file_name().into_iter();
    let entries = entries.filter_entry(|entry| {
        let path = entry.path().strip_prefix(from).unwrap_or(entry.path());
        let is_hidden = entry.depth() > 0 && entry.file_name().as_encoded_bytes().starts_with(b".");
        !is_hidden && !STAYS.iter().any(|stays| path == Path::new(stays))
    });
    for entry in entries {
        let entry = entry.context("reading the scheduler's files")?;
        if !entry.file_type().is_dir() {
            files.push(entry.path().strip_prefix(from)?.to_path_buf());
        }
    }
    Ok(files)
}

/// The libraries of the checkout at `dir`.
fn crates(dir: &Path) -> Result<Vec<manifest::Crate>> {
    let mut crates = Vec::new();
    for entry in WalkDir::new(dir.join("rust")).sort_by_file_name() {
        let entry = entry.context("reading the checkout's crates")?;
        if entry.file_name() != "Cargo.toml" {
            continue;
        }
        let text = read(entry.path())?;
        let at = entry.path().parent().unwrap_or(dir).strip_prefix(dir)?;
        let one = manifest::Crate::parse(&text, at)
            .with_context(|| format!("reading {}", entry.path().display()))?;
        crates.extend(one);
    }
    Ok(crates)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// Copy a file with its mode, and make the directories to it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let copying = || format!("copying {}", from.display());
    let dir = to.parent().with_context(copying)?;
    fs::create_dir_all(dir).with_context(copying)?;
    fs::copy(from, to).with_context(copying)?;
    Ok(())
}

#[cfg(test)]
mod tests;
