// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask export DIR`: puts the scheduler into a checkout of the scx monorepo.
//!
//!   1. DIR is refused unless it is laid out as that repository is, and its own
//!      crates are new enough.
//!   2. Our crate takes the place of whatever is in the directory of its name.
//!      Pages and lists that its tests read go with it, and their links lead to what is
//!      there ([`links`]).
//!   3. Its Cargo.toml says what the checkout's workspace does not ([`manifest`]).
//!   4. It becomes a member of the workspace and of the lists of schedulers
//!      ([`lists`]). What names it already stays as it is, so that a second export
//!      changes nothing.
//!
//! The monorepo has another scheduler of our name, which an export replaces; it says so.
//! `--as NAME` and `--experimental` put ours beside that one, with NAME for its own in
//! all that is exported ([`Target`]).
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

/// Where they are there that are not ready for users.
const EXPERIMENTAL: &str = "scheds/experimental";

/// What names of schedulers begin with.
const PREFIX: &str = "scx_";

/// Bytes that the kernel keeps of the name of a process: by it we find our own.
const NAME_LEN_MAX: usize = 15;

/// What stays behind, from our crate.
const STAYS: &[&str] = &[
    "bench-baseline.json",
    "bench-bounds.json",
    "tests/guest",
    "tests/sabotages.toml",
];

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

/// The version that stands behind our name where it is that of the other program.
const OTHER: &str = " 5.";

/// The arguments of `cargo xtask export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A checkout of the scx monorepo
    dir: PathBuf,
    /// Call the scheduler NAME there, since the monorepo has another one of our name
    #[arg(long = "as", value_name = "NAME", default_value = PACKAGE, value_parser = parse_name)]
    name: String,
    /// Put it into scheds/experimental, with what is not ready for users
    #[arg(long)]
    experimental: bool,
}

/// What the scheduler is called there, and where it is.
struct Target {
    name: String,
    /// From the top level.
    scheds: &'static str,
}

impl Target {
    fn new(name: &str, is_experimental: bool) -> Target {
        Target {
            name: name.to_string(),
            scheds: match is_experimental {
                true => EXPERIMENTAL,
                false => SCHEDS,
            },
        }
    }

    /// The directory of the scheduler, from the top level.
    fn dir(&self) -> String {
        format!("{}/{}", self.scheds, self.name)
    }

    /// [`Target::rename`] of `text` but for what is at `url`, our repository.
    fn rename_around(&self, text: &str, url: &str) -> String {
        let mut parts = text.split(url);
        let mut renamed = self.rename(parts.next().unwrap_or_default());
        for part in parts {
            let is_end = |c: char| c.is_whitespace() || c == ')';
            let (link, rest) = part.split_at(part.find(is_end).unwrap_or(part.len()));
            renamed += &format!("{url}{link}{}", self.rename(rest));
        }
        renamed
    }

    /// `text` of ours with its name there, also as sched_ext and directories have it,
    /// without what names of schedulers begin with.
    fn rename(&self, text: &str) -> String {
        let short = |name: &str| name.trim_start_matches(PREFIX).to_string();
        let text = text.replace(&format!("{SCHEDS}/{PACKAGE}"), &self.dir());
        let text = rename_word(&text, PACKAGE, &self.name);
        rename_word(&text, &short(PACKAGE), &short(&self.name))
    }
}

/// A name of a scheduler.
fn parse_name(name: &str) -> Result<String, String> {
    let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let rest = name.strip_prefix(PREFIX).unwrap_or_default();
    if !rest.starts_with(|c: char| c.is_ascii_lowercase()) || !rest.chars().all(is_of_name) {
        return Err(format!(
            "it must be {PREFIX} and a name of small letters, digits and _"
        ));
    }
    if name.len() > NAME_LEN_MAX {
        return Err(format!("it must have {NAME_LEN_MAX} letters at most"));
    }
    Ok(name.to_string())
}

/// `text` with `new` for each `old` that is a word of its own and not the name of the
/// [`OTHER`] program.
fn rename_word(text: &str, old: &str, new: &str) -> String {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut renamed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(old) {
        let (before, found) = rest.split_at(at);
        renamed += before;
        rest = &found[old.len()..];
        let is_word = !renamed.ends_with(is_of_word) && !rest.starts_with(is_of_word);
        let is_ours = is_word && !rest.starts_with(OTHER);
        renamed += if is_ours { new } else { old };
    }
    renamed + rest
}

/// Export to the checkout, and say what is left to do there.
pub fn main(args: &Args) -> Result<()> {
    let tools = setup::ensure(&[], false)?;
    let workspace = Workspace::find(&tools)?;
    let target = Target::new(&args.name, args.experimental);
    for line in export(workspace.root(), &args.dir, &target)? {
        println!("{line}");
    }
    let name = &target.name;
    let fmt = match name == PACKAGE {
        true => String::new(),
        false => format!("cargo fmt -p {name}, since lines are of another length; "),
    };
    println!("left to do there: {fmt}cargo check -p {name}, which renews Cargo.lock");
    Ok(())
}

/// Export from the tree at `root` to the checkout at `dir`, as `target`; return what was
/// done.
fn export(root: &Path, dir: &Path, target: &Target) -> Result<Vec<String>> {
    let from = root.join(SCHEDS).join(PACKAGE);
    let to = dir.join(target.dir());
    // All that may be refused comes before the first change.
    let parse = |path: PathBuf| -> Result<DocumentMut> {
        let text = read(&path)?;
        text.parse()
            .with_context(|| format!("reading {}", path.display()))
    };
    let scheds = target.scheds;
    let is_laid_out = dir.join(scheds).is_dir() && dir.join("rust/scx_utils/Cargo.toml").is_file();
    ensure!(
        is_laid_out,
        "{} is no checkout of the scx monorepo: it has no {scheds} or no rust/scx_utils",
        dir.display()
    );
    let mut theirs = parse(dir.join("Cargo.toml"))?;
    let is_new_member = lists::add_member(&mut theirs, &target.dir())
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
    manifest::rename(&mut manifest, &target.name)?;

    let mut done = Vec::new();
    if to.exists() {
        done.extend(replaced(&to, &manifest));
        fs::remove_dir_all(&to).with_context(|| format!("removing {}", to.display()))?;
    }
    for file in &files {
        let to = to.join(file);
        copy(&from.join(file), &to)?;
        if let Ok(text) = fs::read_to_string(&to) {
            write(&to, &target.rename(&text))?;
        }
    }
    for page in PAGES {
        let (from, to) = (root.join(page), to.join(page));
        copy(&from, &to)?;
        let mut text = read(&from)?;
        if to.extension() == Some("md".as_ref()) {
            text = links::renew(&text, Path::new(page), &url);
        }
        write(&to, &target.rename_around(&text, &url))?;
    }
    let manifest = target.rename_around(&manifest.to_string(), &url);
    write(&to.join("Cargo.toml"), &manifest)?;
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
        if !list.is_of(target.scheds) {
            continue;
        }
        match (list.add)(&read(&path)?, &target.name) {
            Change::None => {}
            Change::Text(text) => {
                write(&path, &text)?;
                done.push(format!("{}: listed", list.file));
            }
            Change::NoPlace => done.push(format!(
                "{}: names no schedulers as it used to: list {} by hand",
                list.file, target.name
            )),
        }
    }
    Ok(done)
}

/// What to say of the crate in the directory `to`, if it is another one than ours, with
/// this `manifest`.
fn replaced(to: &Path, manifest: &DocumentMut) -> Option<String> {
    let theirs: DocumentMut = read(&to.join("Cargo.toml")).ok()?.parse().ok()?;
    let field = |manifest: &DocumentMut, name: &str| -> Option<String> {
        Some(manifest.get("package")?.get(name)?.as_str()?.to_string())
    };
    if field(&theirs, "description") == field(manifest, "description") {
        return None;
    }
    let version = field(&theirs, "version").unwrap_or_default();
    Some(format!(
        "{}: ours replaces the program of that name that was there, version {version}; `--as NAME \
         --experimental` puts ours beside it",
        to.display()
    ))
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
