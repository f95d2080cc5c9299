// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask sabotage`: break the scheduler on purpose, and see a test fail each time.
//!
//! A test that cannot fail is worth nothing. `tests/sabotages.toml` of the scheduler has
//! small edits of its sources, each with what it breaks and the test that has to find it.
//! Each is made in a copy of the checkout below the target directory, the program is built
//! there, and the test is run with it; where another file is broken, that the tests read,
//! with the copy's tests. A sabotage that its test lets pass is a hole in the tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use scx_guest::Kernel;
use serde::Deserialize;

use crate::interrupt;
use crate::process;
use crate::setup::{self, Purpose, Tools};
use crate::workspace::Workspace;

/// The sources of the program.
const PROGRAM: &str = "scx_pandemonium";
const SOURCES: &str = "scheds/rust/scx_pandemonium/src";

/// Puts another program under the guest tests.
const PROGRAM_ENV: &str = "SCX_PANDEMONIUM_BIN";

/// Where the list stands in the checkout.
const LIST: &str = "scheds/rust/scx_pandemonium/tests/sabotages.toml";

/// The arguments of `cargo xtask sabotage`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which ones, by name; all of the list if none is named
    names: Vec<String>,
    /// Kernel image for the guests, instead of the one that is found or downloaded
    #[arg(long, value_name = "PATH")]
    kernel: Option<PathBuf>,
    /// Use sudo without asking
    #[arg(long, short)]
    yes: bool,
}

/// The list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    sabotage: Vec<Sabotage>,
}

/// One edit, and the test that has to fail for it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sabotage {
    name: String,
    /// What does not work any more.
    breaks: String,
    /// From the top of the checkout.
    file: PathBuf,
    /// Stands once in the file.
    from: String,
    to: String,
    /// A guest test, `MODULE::NAME::KERNEL`.
    test: String,
}

/// What became of one.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The test failed.
    Found,
    /// The test passed.
    Missed,
    /// The test did not run, for this reason.
    Unclear(String),
}

impl Sabotage {
    /// The text of the file with the edit made.
    fn apply(&self, text: &str) -> Result<String> {
        let nr = text.matches(&self.from).count();
        ensure!(
            nr == 1,
            "{}: what is replaced stands {nr} times in {}",
            self.name,
            self.file.display()
        );
        ensure!(self.from != self.to, "{} changes nothing", self.name);
        Ok(text.replace(&self.from, &self.to))
    }
}

/// Try each, and say which were found.
pub fn main(args: &Args) -> Result<()> {
    let purposes = [
        Purpose::Build,
        Purpose::Guest,
        Purpose::Workload,
        Purpose::Desktop,
    ];
    let tools = setup::ensure(&purposes, args.yes)?;
    let workspace = Workspace::find(&tools)?;
    let list = chosen(read(workspace.root())?, &args.names)?;
    let kernel = Kernel::find(args.kernel.as_deref())?;
    let copy = Copy::make(&workspace, kernel.image())?;

    workspace.build_all(&tools)?;
    let mut missed = Vec::new();
    for sabotage in &list {
        let started = Instant::now();
        let end = copy.try_out(sabotage, &workspace, &tools)?;
        interrupt::check()?;
        let end = match end {
            End::Found => "found".to_owned(),
            End::Missed => format!("MISSED by {}", sabotage.test),
            End::Unclear(why) => format!("UNCLEAR: {why}"),
        };
        println!(
            "{:<24} {:>6.1} s  {end}: {}",
            sabotage.name,
            started.elapsed().as_secs_f64(),
            sabotage.breaks
        );
        if end != "found" {
            missed.push(sabotage.name.as_str());
        }
    }
    println!("{} of {} found", list.len() - missed.len(), list.len());
    ensure!(missed.is_empty(), "not found: {}", missed.join(", "));
    Ok(())
}

fn read(root: &Path) -> Result<Vec<Sabotage>> {
    let path = root.join(LIST);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let list: List = toml::from_str(&text).with_context(|| format!("in {}", path.display()))?;
    Ok(list.sabotage)
}

/// Those of `all` that are named, or all.
fn chosen(all: Vec<Sabotage>, names: &[String]) -> Result<Vec<Sabotage>> {
    for name in names {
        ensure!(
            all.iter().any(|sabotage| sabotage.name == *name),
            "no sabotage is called {name}; {LIST} has all"
        );
    }
    let is_chosen = |sabotage: &Sabotage| names.is_empty() || names.contains(&sabotage.name);
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// The checkout once more, to be broken.
struct Copy {
    root: PathBuf,
    target: PathBuf,
    image: PathBuf,
}

impl Copy {
    /// Copy what git knows or would add. What was built in the copy before stays.
    fn make(workspace: &Workspace, image: &Path) -> Result<Copy> {
        let dir = workspace.target().join("sabotage");
        let copy = Copy {
            root: dir.join("checkout"),
            target: dir.join("target"),
            image: std::path::absolute(image).context("resolving the kernel's path")?,
        };
        let output = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(workspace.root())
            .output()
            .context("running git, which knows what belongs to the checkout")?;
        ensure!(output.status.success(), "git ls-files fails here");
        let names = String::from_utf8(output.stdout).context("a file whose name is no text")?;
        for name in names.split_terminator('\0') {
            copy.bring(&workspace.root().join(name), name)?;
        }
        Ok(copy)
    }

    /// Copy the file at `from`, unless it is the same there: cargo goes by times.
    fn bring(&self, from: &Path, name: &str) -> Result<()> {
        let to = self.root.join(name);
        let Ok(content) = fs::read(from) else {
            // Deleted, and not committed.
            return Ok(());
        };
        if fs::read(&to).is_ok_and(|known| known == content) {
            return Ok(());
        }
        let dir = to.parent().context("a file without a directory")?;
        fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        fs::copy(from, &to).with_context(|| format!("copying {name}"))?;
        Ok(())
    }

    /// Let `command` of cargo work in the copy.
    fn here<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
    }

    /// `test` alone, of the checkout with the program that was built in the copy, or of
    /// the copy.
    fn test(&self, sabotage: &Sabotage, workspace: &Workspace, tools: &Tools) -> Command {
        let mut command = workspace.test_all(tools);
        match sabotage.file.starts_with(SOURCES) {
            true => command.env(PROGRAM_ENV, self.target.join("release").join(PROGRAM)),
            false => self.here(&mut command),
        };
        command
            .env("SCX_GUEST_KERNEL", &self.image)
            // What is broken for certain is seen in the first.
            .env("SCX_GUEST_DRAWS", "1")
            .args(["--test", "guest", "--", "--exact", &sabotage.test]);
        command
    }

    /// Make the edit, run its test, and take the edit back.
    fn try_out(&self, sabotage: &Sabotage, workspace: &Workspace, tools: &Tools) -> Result<End> {
        let path = self.root.join(&sabotage.file);
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let write = |text: &str| {
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
        };
        write(&sabotage.apply(&text)?)?;
        let mut build = tools.cargo();
        build.args(["build", "--release", "--locked", "--package", PROGRAM]);
        let mut lines = Vec::new();
        let result =
            process::follow(self.here(&mut build), |line| lines.push(line)).and_then(|status| {
                match status.success() {
                    true => {
                        let mut test = self.test(sabotage, workspace, tools);
                        process::follow(&mut test, |line| lines.push(line)).map(drop)
                    }
                    false => Ok(()),
                }
            });
        write(&text)?;
        result?;
        Ok(end(&sabotage.test, &lines))
    }
}

/// What `lines` of cargo tell of `test`.
fn end(test: &str, lines: &[String]) -> End {
    let has = |result: &str| {
        let line = format!("test {test} ... {result}");
        lines.contains(&line)
    };
    match (has("FAILED"), has("ok")) {
        (true, _) => End::Found,
        (false, true) => End::Missed,
        (false, false) => {
            let error = lines.iter().find(|line| line.starts_with("error"));
            End::Unclear(error.map_or_else(|| "no such test".to_owned(), Clone::clone))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn every_edit_can_be_made() {
        let list = read(&root()).expect("a list");
        assert!(list.len() >= 30, "{}", list.len());
        for sabotage in &list {
            let text = fs::read_to_string(root().join(&sabotage.file)).expect("such a file");
            sabotage.apply(&text).expect("the edit can be made");
        }
        let names: BTreeSet<_> = list.iter().map(|sabotage| &sabotage.name).collect();
        assert_eq!(names.len(), list.len());
    }

    #[test]
    fn an_edit_is_made_in_one_place() {
        let sabotage = Sabotage {
            name: "x".to_owned(),
            breaks: "all".to_owned(),
            file: PathBuf::from("f"),
            from: "a".to_owned(),
            to: "b".to_owned(),
            test: "t".to_owned(),
        };
        assert_eq!(sabotage.apply("xay").expect("one place"), "xby");
        assert!(sabotage.apply("aa").is_err());
        assert!(sabotage.apply("").is_err());
    }

    #[test]
    fn a_test_that_did_not_run_found_nothing() {
        let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
        assert_eq!(end("a::b", &lines("test a::b ... FAILED")), End::Found);
        assert_eq!(end("a::b", &lines("test a::b ... ok")), End::Missed);
        let broken = lines("warning: x\nerror: could not compile `y`");
        let why = "error: could not compile `y`".to_owned();
        assert_eq!(end("a::b", &broken), End::Unclear(why));
        assert!(matches!(end("a::b", &lines("")), End::Unclear(_)));
    }
}
