// SPDX-License-Identifier: GPL-2.0
//! Builds the kernel's own selftests of the cpu controller for a guest.
//!
//! *What does a judge from outside say of our cgroup weights?* `test_cpu`, of
//! `tools/testing/selftests/cgroup` in the kernel's sources, in the version of
//! the kernel that the guest boots.
//!
//!   1. The sources of the pinned kernel are downloaded once, about 160 MB, and
//!      the few files that are needed are kept in the cache.
//!   2. The program is built from them each time, which takes half a second. Not
//!      a line of it is changed.
//!
//! Its hogs are empty loops. An emulated CPU pays for jumps rather than for
//! instructions, and an empty loop is nothing but a jump; so clang lets each
//! block of the program call [`HOOK`] first, which does nothing for 2,000
//! instructions. To the guest, whose clock counts instructions, that is the same
//! hog, and the host needs a third of the time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use scx_guest::debian::{PINNED, SUITE};

use crate::process::run_quietly;
use crate::setup::{self, Tools};

/// What is kept of the sources, below [`SELFTESTS`].
const KEPT: &[&str] = &["kselftest.h", "cgroup", "clone3"];

/// Where the selftests are in the sources, below the name of the version.
const SELFTESTS: &str = "tools/testing/selftests";

/// How many directories that is, with the name of the version.
const NR_DIRS_ABOVE: usize = 4;

/// The program.
const PROGRAM: &str = "test_cpu";

/// What clang calls at the start of each block of a program.
const HOOK: &str = "\
	.text
	.globl __sanitizer_cov_trace_pc
__sanitizer_cov_trace_pc:
	.rept 2000
	nop
	.endr
	ret
	.section .note.GNU-stack,\"\",@progbits
";

/// Build the selftests into [`scx_guest::selftests_dir`].
///
/// # Errors
///
/// If the sources are not in the cache and cannot be fetched, or do not compile.
pub fn build(tools: &Tools) -> Result<()> {
    let dir = scx_guest::selftests_dir()?;
    let above = dir.parent().context("a cache has a directory above it")?;
    fs::create_dir_all(above).with_context(|| format!("making {}", above.display()))?;
    // Two runs at once must not fetch into the same place.
    let lock_path = above.join("lock");
    let lock =
        File::create(&lock_path).with_context(|| format!("making {}", lock_path.display()))?;
    lock.lock().context("locking the selftests")?;

    if !dir.is_dir() {
        fetch(&dir, above)?;
    }
    compile(&dir, tools)
}

/// Put what is kept of the sources into `dir`, which is in `above`.
fn fetch(dir: &Path, above: &Path) -> Result<()> {
    // Beside the result, since the archive is too much for many a /tmp.
    let scratch = tempfile::tempdir_in(above).context("making a directory for the sources")?;
    let archive = setup::download_source(PINNED.source, PINNED.version, SUITE, scratch.path())?;
    let unpacked = scratch.path().join("unpacked");
    fs::create_dir(&unpacked).context("making a directory for the sources")?;
    run_quietly(&mut unpack(&archive, &unpacked), "unpacking the selftests")?;
    // The name appears only once everything below it is there.
    fs::rename(&unpacked, dir).with_context(|| format!("writing {}", dir.display()))
}

/// tar, for what is kept of `archive`.
fn unpack(archive: &Path, dir: &Path) -> Command {
    let mut command = Command::new("tar");
    command.arg("-xf").arg(archive).arg("-C").arg(dir);
    command.arg(format!("--strip-components={NR_DIRS_ABOVE}"));
    command.arg("--wildcards");
    command.args(KEPT.iter().map(|name| format!("*/{SELFTESTS}/{name}")));
    command
}

/// Build the program in `dir` from the sources there.
fn compile(dir: &Path, tools: &Tools) -> Result<()> {
    let clang = tools.clang.as_ref().context("clang is missing")?;
    let tests = dir.join("cgroup");
    let source = tests.join(format!("{PROGRAM}.c"));
    ensure!(
        source.is_file(),
        "{} is missing: remove {} to have it fetched again",
        source.display(),
        dir.display()
    );
    let hook = dir.join("hook.S");
    fs::write(&hook, HOOK).with_context(|| format!("writing {}", hook.display()))?;

    let part = dir.join(format!(".{PROGRAM}.part"));
    let mut command = Command::new(clang);
    command
        .args(["-static", "-pthread", "-D_GNU_SOURCE="])
        .arg("-fsanitize-coverage=bb,no-prune,trace-pc")
        .arg("-fno-sanitize-link-runtime")
        .arg("-I")
        .arg(tests.join("lib/include"))
        .args([&source, &tests.join("lib/cgroup_util.c"), &hook])
        .arg("-o")
        .arg(&part);
    run_quietly(&mut command, "building the kernel's selftests")?;
    let program: PathBuf = dir.join(PROGRAM);
    fs::rename(&part, &program).with_context(|| format!("writing {}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_what_is_needed_is_unpacked_and_in_its_place() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = dir.path().join("linux-6.18.15");
        let selftests = top.join(SELFTESTS);
        fs::create_dir_all(selftests.join("cgroup/lib")).expect("directories");
        fs::create_dir_all(selftests.join("clone3")).expect("directories");
        fs::create_dir_all(selftests.join("bpf")).expect("directories");
        for name in ["kselftest.h", "cgroup/lib/a.c", "clone3/b.h", "bpf/cgroup"] {
            fs::write(selftests.join(name), name).expect("a file");
        }
        let archive = dir.path().join("a.tar");
        let mut pack = Command::new("tar");
        pack.arg("-cf").arg(&archive).arg("-C").arg(dir.path());
        assert!(pack.arg("linux-6.18.15").status().expect("tar").success());

        let out = dir.path().join("out");
        fs::create_dir(&out).expect("a directory");
        assert!(unpack(&archive, &out).status().expect("tar").success());
        for name in ["kselftest.h", "cgroup/lib/a.c", "clone3/b.h"] {
            assert_eq!(fs::read_to_string(out.join(name)).expect("a file"), name);
        }
        assert!(!out.join("bpf").exists());
    }

    #[test]
    fn sources_that_are_incomplete_are_named_with_what_to_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let tools = Tools {
            clang: Some(PathBuf::from("clang")),
            clang_format: None,
        };
        let error = compile(dir.path(), &tools).expect_err("nothing to build");
        let error = error.to_string();
        assert!(error.contains("test_cpu.c is missing: remove"), "{error}");
    }
}
