// SPDX-License-Identifier: GPL-2.0
//! What the front page shows is what the committed results give: the picture,
//! and the table between its marks.

#![allow(clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What renews both, from the root of the repository.
const RENEW: &str = "report docs/bench/results --label pandemonium=scx_pandemonium \
                     --picture docs/bench/frames.svg --score README.md";

const PAGES: [&str; 2] = ["docs/bench/frames.svg", "README.md"];

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("../..").canonicalize().expect("the repository")
}

#[test]
fn picture_and_table_are_made_from_the_committed_results() {
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
            "{page} is not what docs/bench/results gives; from the root of the repository: \
             cargo run --release -p scx_bench --bin scx_bench -- {RENEW}"
        );
    }
}
