// SPDX-License-Identifier: GPL-2.0
//! What the pages show is what the committed results give: reports, the front
//! picture, and tables in pages of text between their marks. The bounds that kernels
//! are held to are of the same results.

#![allow(clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use scx_bench::bounds::{Bound, Bounds};
use scx_bench::dataset::Dataset;

#[path = "../../xtask/src/pages.rs"]
mod list;

/// Options that name a file to be made.
const MADE: [&str; 3] = ["--html=", "--picture=", "--score="];

/// The option that names further results.
const READ: &str = "--caches=";

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("../..").canonicalize().expect("the repository")
}

#[test]
fn all_pages_are_made_from_the_committed_results() {
    let dir = tempfile::tempdir().expect("a directory");
    for pages in list::PAGES {
        let args = pages.args();
        let further = args.iter().filter_map(|arg| arg.strip_prefix(READ));
        for path in further.chain([pages.results]) {
            let link = dir.path().join(path);
            fs::create_dir_all(link.parent().expect("a parent")).expect("directories");
            std::os::unix::fs::symlink(root().join(path), link).expect("a link");
        }
        let made = |arg| {
            MADE.iter()
                .find_map(|option| str::strip_prefix(arg, option))
        };
        let made: Vec<&str> = args.iter().map(String::as_str).filter_map(made).collect();
        // What is renewed between marks has to be there.
        for page in made.iter().filter(|page| page.ends_with(".md")) {
            let copy = dir.path().join(page);
            fs::create_dir_all(copy.parent().expect("a parent")).expect("directories");
            fs::copy(root().join(page), copy).expect("a copy");
        }
        let output = Command::new(env!("CARGO_BIN_EXE_scx_bench"))
            .args(["report", pages.results])
            .args(&args)
            .current_dir(dir.path())
            .output()
            .expect("it starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        for page in made {
            let read = |root: &Path| fs::read_to_string(root.join(page)).expect("it is there");
            assert!(
                read(dir.path()) == read(&root()),
                "{page} is not what {} gives: cargo xtask report",
                pages.results
            );
        }
    }
}

#[test]
fn the_committed_results_are_within_the_bounds() {
    let bounds = root().join("scheds/rust/scx_pandemonium/bench-bounds.json");
    let bounds = Bounds::read(&bounds).expect("bounds");
    let mut dataset = Dataset::read(&root().join("docs/bench/results")).expect("results");
    let (subject, (topology, cpus)) = dataset.front().expect("a subject");
    let (subject, topology) = (subject.to_owned(), topology.to_owned());
    assert_eq!(cpus, bounds.cpus);
    dataset
        .samples
        .retain(|sample| sample.scheduler == subject && sample.topology == topology);
    for bound in &bounds.bounds {
        let worst = bound.worst(&dataset);
        let is_held = worst.is_some_and(|worst| bound.holds(worst));
        assert!(is_held, "{}: {worst:?}, {}", bound.title(), bound.from);
    }
}

#[test]
fn the_table_of_kernels_has_the_bounds() {
    let bounds = root().join("scheds/rust/scx_pandemonium/bench-bounds.json");
    let bounds = Bounds::read(&bounds).expect("bounds").bounds;
    let allowed: Vec<String> = bounds.iter().map(Bound::allowed).collect();
    let line = format!("| *bound* |  |  | {} |\n", allowed.join(" | "));
    let readme = fs::read_to_string(root().join("README.md")).expect("README");
    assert!(readme.contains(&line), "cargo xtask kernels --write");
}
