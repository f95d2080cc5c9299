// SPDX-License-Identifier: GPL-2.0
//! What the pages show is what the committed results give: the report, the front
//! picture, and README's tables between their marks.

#![allow(clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `cargo xtask report` runs from the root of the repository.
const RENEW: &str = "report docs/bench/results --label pandemonium=scx_pandemonium --html \
                     docs/bench/report.html --picture docs/bench/frames.svg --score README.md";

const PAGES: [&str; 3] = [
    "docs/bench/report.html",
    "docs/bench/frames.svg",
    "README.md",
];

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("../..").canonicalize().expect("the repository")
}

#[test]
fn all_pages_are_made_from_the_committed_results() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir_all(dir.path().join("docs/bench")).expect("directories");
    let results = "docs/bench/results";
    std::os::unix::fs::symlink(root().join(results), dir.path().join(results)).expect("a link");
    fs::copy(root().join("README.md"), dir.path().join("README.md")).expect("a copy");
    let output = Command::new(env!("CARGO_BIN_EXE_scx_bench"))
        .args(RENEW.split_whitespace())
        .current_dir(dir.path())
        .output()
        .expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    for page in PAGES {
        let read = |root: &Path| fs::read_to_string(root.join(page)).expect("it is there");
        assert!(
            read(dir.path()) == read(&root()),
            "{page} is not what docs/bench/results gives: cargo xtask report"
        );
    }
}
