// SPDX-License-Identifier: GPL-2.0
//! A workspace of the monorepo's shape, made of its published crates, and what an
//! export makes of it.

use std::collections::BTreeSet;
use std::process::Command;

use serde::Deserialize;

use super::*;
use crate::install::output;
use crate::install::tests::top_level;

/// The published crates, and where the monorepo has them.
const CRATES: &[(&str, &str)] = &[
    ("scx_cargo", "rust/scx_cargo"),
    ("scx_stats", "rust/scx_stats"),
    ("scx_stats_derive", "rust/scx_stats/scx_stats_derive"),
    ("scx_utils", "rust/scx_utils"),
];

/// Keeps the scratch workspace of the test, as a place to build the export in.
const KEEP_ENV: &str = "SCX_EXPORT_DIR";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
}

fn cargo(dir: &Path, args: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let mut cargo = Command::new(cargo);
    cargo.args(args).current_dir(dir);
    String::from_utf8(output(&mut cargo).expect("it succeeds")).expect("text")
}

/// The target that this is built for, whose dependencies are on this machine.
fn target() -> String {
    let words = output(Command::new("rustc").arg("-vV")).expect("it runs");
    let words = String::from_utf8(words).expect("text");
    let host = words.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("it is told").to_string()
}

/// The directories of [`CRATES`] as cargo got them for our own build.
fn published() -> Vec<(PathBuf, &'static str)> {
    let target = target();
    let args = [
        "metadata",
        "--offline",
        "--format-version=1",
        "--filter-platform",
        &target,
    ];
    let metadata: Metadata = serde_json::from_str(&cargo(&top_level(), &args)).expect("it parses");
    let find = |name: &str| {
        let package = metadata
            .packages
            .iter()
            .find(|package| package.name == name);
        let path = &package.expect("the scheduler depends on it").manifest_path;
        path.parent().expect("it is in a directory").to_path_buf()
    };
    CRATES
        .iter()
        .map(|(name, path)| (find(name), *path))
        .collect()
}

/// A workspace of the monorepo's shape in `dir`.
fn scratch(dir: &Path) {
    let mut patches = String::new();
    for (from, path) in published() {
        for entry in WalkDir::new(&from) {
            let entry = entry.expect("readable");
            let below = entry.path().strip_prefix(&from).expect("it is below");
            if entry.file_type().is_file() {
                copy(entry.path(), &dir.join(path).join(below)).expect("it is copied");
            }
        }
        let name = Path::new(path)
            .file_name()
            .expect("it has one")
            .to_string_lossy();
        patches += &format!("{name} = {{ path = \"{path}\" }}\n");
    }
    // There, the crates depend on each other by paths and are members; what is published
    // names versions, and as members their own tests would have to be resolved too.
    let manifest = format!(
        "[workspace]\nmembers = [\n    \"scheds/rust/scx_other\",\n]\nexclude = [\"rust\"]\n\
         resolver = \"2\"\n\n[patch.crates-io]\n{patches}"
    );
    let other = "[package]\nname = \"scx_other\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    for (path, text) in [
        ("Cargo.toml", manifest.as_str()),
        ("scheds/rust/scx_other/Cargo.toml", other),
        ("scheds/rust/scx_other/src/main.rs", "fn main() {}\n"),
        ("scheds/rust/scx_pandemonium/src/old.rs", "Not ours.\n"),
        (
            "scheds/rust/scx_pandemonium/Cargo.toml",
            "[package]\nname = \"scx_pandemonium\"\nversion = \"5.23.1\"\n",
        ),
        (
            "scheds/experimental/README.md",
            "- [scx_flow](scx_flow/README.md)\n",
        ),
        (
            "scheds/rust/README.md",
            "- [scx_other](scx_other/README.md)\n",
        ),
        ("services/scx", "# List of scx_schedulers: scx_other\n"),
        (".github/workflows/ci.yml", "scheds:\n  - other\n"),
        ("CARGO_BUILD.md", "No table.\n"),
    ] {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("made");
        write(&path, text).expect("written");
    }
    copy(&top_level().join("Cargo.lock"), &dir.join("Cargo.lock")).expect("it is copied");
}

/// All files below `dir` with what they hold, but for what was built there.
fn contents(dir: &Path) -> BTreeSet<(PathBuf, Vec<u8>)> {
    let entries = WalkDir::new(dir).into_iter();
    let entries = entries.filter_entry(|entry| entry.file_name() != "target");
    let entries = entries.map(|entry| entry.expect("readable"));
    let files = entries.filter(|entry| entry.file_type().is_file());
    files
        .map(|file| {
            let bytes = fs::read(file.path()).expect("readable");
            (file.into_path(), bytes)
        })
        .collect()
}

#[test]
fn an_export_is_a_member_that_cargo_resolves_and_a_second_one_changes_nothing() {
    let temporary = tempfile::tempdir().expect("a directory");
    let dir = match std::env::var_os(KEEP_ENV) {
        Some(dir) => PathBuf::from(dir),
        None => temporary.path().to_path_buf(),
    };
    scratch(&dir);
    let ours = Target::new(PACKAGE, false);
    let done = export(&top_level(), &dir, &ours).expect("it exports");
    let replaced = "ours replaces the program of that name that was there, version 5.23.1;";
    assert!(done[0].contains(replaced), "{done:?}");
    let done = done.join("\n");
    let lists = "Cargo.toml: a member\nscheds/rust/README.md: listed\n\
                 CARGO_BUILD.md: names no schedulers as it used to: list scx_pandemonium by hand\n\
                 services/scx: listed\n.github/workflows/ci.yml: listed";
    assert!(done.ends_with(lists), "{done}");
    let first = contents(&dir);
    let again = export(&top_level(), &dir, &ours).expect("it exports again");
    assert!(first == contents(&dir));
    assert!(!again.join("\n").contains("replaces"), "{again:?}");

    let there = dir.join("scheds/rust/scx_pandemonium");
    for (file, is_there) in [
        ("src/old.rs", false),
        ("tests/guest/main.rs", false),
        ("bench-baseline.json", false),
        ("bench-bounds.json", false),
        ("tests/sources/main.rs", true),
        ("docs/REFERENCE.md", true),
        ("clippy.toml", true),
        ("veristat/4_cpus.json", true),
        ("LICENSE", true),
    ] {
        assert_eq!(there.join(file).exists(), is_there, "{file}");
    }
    let manifest = read(&there.join("Cargo.toml")).expect("readable");
    for line in [
        "edition = \"2024\"",
        "scx_stats_derive = { version = \"1.1.4\", path = \"../../../rust/scx_stats/scx_stats_derive\" }",
        "[lints.rust]",
        "proptest = \"1\"",
    ] {
        assert!(
            manifest.lines().any(|one| one == line),
            "{line}: {manifest}"
        );
    }
    for word in ["workspace", "scx_guest", "goblin", "[lints]"] {
        assert!(!manifest.contains(word), "{word}: {manifest}");
    }

    let args = [
        "tree",
        "--offline",
        "--package=scx_pandemonium",
        "--depth=1",
        "--prefix=none",
    ];
    let tree = cargo(&dir, &args);
    for (name, path) in CRATES {
        let is_theirs = |line: &str| line.starts_with(&format!("{name} v")) && line.contains(path);
        assert!(tree.lines().any(is_theirs), "{name}: {tree}");
    }
}

#[test]
fn another_name_and_place_leave_the_program_of_ours_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    scratch(dir);
    let theirs = contents(&dir.join("scheds/rust"));
    let target = Target::new("scx_pandora", true);
    let done = export(&top_level(), dir, &target).expect("it exports");
    assert!(!done.join("\n").contains("replaces"), "{done:?}");
    assert!(theirs == contents(&dir.join("scheds/rust")));
    let first = contents(dir);
    export(&top_level(), dir, &target).expect("it exports again");
    assert!(first == contents(dir));

    let there = dir.join("scheds/experimental/scx_pandora");
    for (file, words) in [
        ("Cargo.toml", "name = \"scx_pandora\"\n"),
        ("src/cli.rs", "name = \"scx_pandora\","),
        ("src/bpf/main.bpf.c", "= \"pandora\");"),
        ("src/check.rs", "\"pandora\""),
        ("install.list", "page scx_pandora-tasks.1 mandir"),
        ("docs/REFERENCE.md", "/etc/scx_pandora/rules.d"),
        ("docs/GUIDE.md", "](../scx_loader.toml)"),
        (
            "docs/DESIGN.md",
            "/scx_pandemonium/blob/main/docs/bench/report.html)",
        ),
        ("docs/DESIGN.md", "scx_pandemonium 5.23.1"),
        ("ARCHITECTURE.md", "](tests/sources)"),
    ] {
        let text = read(&there.join(file)).expect("readable");
        assert!(text.contains(words), "{file}: {words}");
    }
    for (path, bytes) in contents(&there) {
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        // But where our repository is.
        let url = "https://github.com/scx-pandemonium/scx_pandemonium";
        assert_eq!(target.rename_around(&text, url), text, "{}", path.display());
    }
    let listed = read(&dir.join("scheds/experimental/README.md")).expect("readable");
    assert!(listed.contains("- [scx_pandora](scx_pandora/README.md)\n"));
    let members = read(&dir.join("Cargo.toml")).expect("readable");
    assert!(members.contains("\"scheds/experimental/scx_pandora\""));
    let args = ["tree", "--offline", "--package=scx_pandora", "--depth=1"];
    assert!(cargo(dir, &args).starts_with("scx_pandora v"));
}

#[test]
fn a_name_is_one_of_a_scheduler_and_of_a_process() {
    for name in ["scx_pandora", "scx_p6", "scx_pandemonium"] {
        assert_eq!(parse_name(name).as_deref(), Ok(name));
    }
    for name in [
        "pandora",
        "scx_",
        "scx_6",
        "scx_Pandora",
        "scx_a-b",
        "scx_a/b",
        "scx_pandemonium6",
        "",
    ] {
        assert!(parse_name(name).is_err(), "{name}");
    }
}

#[test]
fn what_is_no_checkout_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let refused = || {
        let ours = Target::new(PACKAGE, false);
        let err = export(&top_level(), dir.path(), &ours).expect_err("it is refused");
        format!("{err:#}")
    };
    assert!(refused().contains("is no checkout of the scx monorepo"));
    fs::create_dir_all(dir.path().join("scheds/rust")).expect("made");
    let utils = dir.path().join("rust/scx_utils");
    fs::create_dir_all(&utils).expect("made");
    let old = "[package]\nname = \"scx_utils\"\nversion = \"1.1.2\"\n";
    write(&utils.join("Cargo.toml"), old).expect("written");
    write(&dir.path().join("Cargo.toml"), "[package]\n").expect("written");
    assert!(refused().contains("is no checkout of the scx monorepo"));
    write(
        &dir.path().join("Cargo.toml"),
        "[workspace]\nmembers = []\n",
    )
    .expect("written");
    let message = refused();
    assert!(
        message.contains("scx_utils is 1.1.2, and 1.1.4 is needed"),
        "{message}"
    );
    assert_eq!(contents(dir.path()).len(), 2);
}
