// SPDX-License-Identifier: GPL-2.0
//! Builds the published programs that guest tests run beside the scheduler.
//!
//! *Does it work with what a user has?* `scx_loader`, its client and another
//! scheduler, as they are on the package registry. Names and versions are data:
//! `published.json` beside the tests.
//!
//! Each is built once, by `cargo install --locked`, into a directory of the cache
//! for that version. What they are built of is removed again.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::process::run_quietly;
use crate::setup::Tools;
use crate::workspace::Workspace;

/// Which programs there are.
const LIST: &str = "scheds/rust/scx_pandemonium/tests/guest/published.json";

/// A program, which has the name of its package.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    name: String,
    version: String,
}

/// Build those that are not in [`scx_guest::published_dir`] yet.
///
/// # Errors
///
/// If one of them cannot be fetched or does not build.
pub fn build(workspace: &Workspace, tools: &Tools) -> Result<()> {
    let dir = scx_guest::published_dir()?;
    fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
    // Two runs at once must not build in the same place.
    let lock_path = dir.join("lock");
    let lock =
        File::create(&lock_path).with_context(|| format!("making {}", lock_path.display()))?;
    lock.lock().context("locking the published programs")?;

    let list = read(&workspace.root().join(LIST))?;
    let mut missing = Vec::new();
    for published in list {
        let program = scx_guest::published_program(&published.name, &published.version)?;
        if !program.is_file() {
            missing.push((published, program));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let objects = tempfile::tempdir_in(&dir).context("making a directory for the build")?;
    for (published, program) in missing {
        let mut command = install(&published, &dir, objects.path(), tools);
        let what = format!("building {} {}", published.name, published.version);
        run_quietly(&mut command, &what)?;
        ensure!(program.is_file(), "{what} made no such program");
    }
    Ok(())
}

fn read(list: &Path) -> Result<Vec<Published>> {
    let reading = || format!("reading {}", list.display());
    let text = fs::read_to_string(list).with_context(reading)?;
    serde_json::from_str(&text).with_context(reading)
}

/// cargo, for one of them. It puts the program in its place in one piece.
fn install(published: &Published, dir: &Path, objects: &Path, tools: &Tools) -> Command {
    let Published { name, version } = published;
    let mut command = tools.cargo();
    command
        .args(["install", "--locked", "--force"])
        .arg(format!("{name}@{version}"))
        .arg("--root")
        .arg(dir.join(format!("{name}-{version}")))
        // Not the settings of this repository.
        .current_dir(dir)
        // Tests ask what they do and not how fast, so the build may be quick.
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_TARGET_DIR", objects);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_read_and_a_program_is_put_where_tests_look() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let list = read(&top.join(LIST)).expect("a list");
        let loader = &list[0];
        assert_eq!(loader.name, "scx_loader");

        let tools = Tools {
            clang: None,
            clang_format: None,
        };
        let dir = scx_guest::published_dir().expect("a directory");
        let command = install(loader, &dir, Path::new("/objects"), &tools);
        let words: Vec<_> = command
            .get_args()
            .filter_map(|word| word.to_str())
            .collect();
        let root = Path::new(words[words.len() - 1]).join("bin/scx_loader");
        let program = scx_guest::published_program(&loader.name, &loader.version);
        assert_eq!(root, program.expect("a path"));
        assert!(words.contains(&format!("scx_loader@{}", loader.version).as_str()));
    }
}
