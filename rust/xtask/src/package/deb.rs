// SPDX-License-Identifier: GPL-2.0
//! The Debian package, by Debian's own tools.
//!
//! `dpkg-shlibdeps` says which packages, in which versions, have the libraries that
//! the program links, and `dpkg-deb` packs. So it is a package for the release that it
//! is made on and newer ones; elsewhere neither is there, nor are the libraries.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use walkdir::WalkDir;

use super::{About, LOADER, RELEASE, RELOAD, disable};
use crate::install::{Stage, output};

/// Where Debian's zsh looks for completions of packages; other distributions' is named
/// in `install.list`.
const ZSH_ELSEWHERE: &str = "usr/share/zsh/site-functions";
const ZSH: &str = "usr/share/zsh/vendor-completions";

/// The directory of the package's own files.
const CONTROL: &str = "DEBIAN";

/// Where the unit lets the scheduler keep its memory of programs.
const CACHE: &str = "/var/cache/pandemonium";

const MODE_EXECUTABLE: u32 = 0o755;
const BYTES_PER_KIB: u64 = 1024;

/// The packages that the program at `binary` links libraries of.
pub fn depends(binary: &Path) -> Result<String> {
    let dir = tempfile::tempdir().context("making a directory for dpkg-shlibdeps")?;
    // It works in the sources of a package only.
    let control = dir.path().join("debian/control");
    fs::create_dir_all(dir.path().join("debian"))
        .and_then(|()| fs::write(&control, "Source: x\n\nPackage: x\nArchitecture: any\n"))
        .with_context(|| format!("writing {}", control.display()))?;
    let mut shlibdeps = Command::new("dpkg-shlibdeps");
    shlibdeps
        .current_dir(dir.path())
        .args(["-O", "-e"])
        .arg(binary);
    let printed = output(&mut shlibdeps)?;
    let printed = String::from_utf8_lossy(&printed);
    let depends = printed.trim().strip_prefix("shlibs:Depends=");
    let depends = depends.with_context(|| format!("dpkg-shlibdeps printed {printed:?}"))?;
    Ok(depends.to_string())
}

/// Make it in `out` from `stage`, which is changed to what Debian expects; return the
/// file.
pub fn make(about: &About, mut stage: Stage, depends: &str, out: &Path) -> Result<PathBuf> {
    move_zsh(&mut stage)?;
    let arch = output(Command::new("dpkg").arg("--print-architecture"))?;
    let arch = String::from_utf8_lossy(&arch).trim().to_string();
    let (name, version) = (name(about), version(about));
    let control = control(about, &arch, depends, size_kib(&stage)?);
    let unit = stage.unit()?;

    let dir = stage.dir.join(CONTROL);
    fs::create_dir(&dir).with_context(|| format!("making {}", dir.display()))?;
    write(&dir.join("control"), &control)?;
    for (script, text) in scripts(&unit) {
        let path = dir.join(script);
        write(&path, &text)?;
        chmod(&path)?;
    }
    // Whatever the umask and the temporary directory are.
    for entry in WalkDir::new(&stage.dir) {
        let entry = entry.context("reading what is packed")?;
        if entry.file_type().is_dir() {
            chmod(entry.path())?;
        }
    }

    let path = out.join(format!("{name}_{version}_{arch}.deb"));
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "-Zxz", "--build"])
        .arg(&stage.dir)
        .arg(&path)
        .env("SOURCE_DATE_EPOCH", about.time.to_string());
    output(&mut pack)?;
    Ok(path)
}

/// Names of Debian's packages have no `_`.
fn name(about: &About) -> String {
    about.name.replace('_', "-")
}

fn version(about: &About) -> String {
    format!("{}-{RELEASE}", about.version_with_tilde())
}

fn move_zsh(stage: &mut Stage) -> Result<()> {
    for file in &mut stage.files {
        let Ok(below) = file.strip_prefix(ZSH_ELSEWHERE) else {
            continue;
        };
        let moved = Path::new(ZSH).join(below);
        let moving = || format!("moving {}", file.display());
        fs::create_dir_all(stage.dir.join(ZSH)).with_context(moving)?;
        fs::rename(stage.dir.join(&file), stage.dir.join(&moved)).with_context(moving)?;
        fs::remove_dir(stage.dir.join(ZSH_ELSEWHERE)).with_context(moving)?;
        *file = moved;
    }
    Ok(())
}

/// What the files take on a disk, as Debian's policy counts it: each in whole KiB.
fn size_kib(stage: &Stage) -> Result<u64> {
    let mut sum = 0;
    for file in &stage.files {
        let file = stage.dir.join(file);
        let metadata =
            fs::metadata(&file).with_context(|| format!("reading {}", file.display()))?;
        sum += metadata.len().div_ceil(BYTES_PER_KIB);
    }
    Ok(sum)
}

fn control(about: &About, arch: &str, depends: &str, size_kib: u64) -> String {
    let (name, version) = (name(about), version(about));
    let About {
        authors,
        url,
        description,
        ..
    } = about;
    format!(
        "Package: {name}\n\
         Version: {version}\n\
         Architecture: {arch}\n\
         Maintainer: {authors}\n\
         Installed-Size: {size_kib}\n\
         Depends: {depends}\n\
         Suggests: {LOADER}\n\
         Section: admin\n\
         Priority: optional\n\
         Homepage: {url}\n\
         Description: {description}\n"
    )
}

/// What is run as the package comes and goes. The memory of programs goes with a purge.
fn scripts(unit: &str) -> [(&'static str, String); 3] {
    let script = |text: &str| format!("#!/bin/sh\nset -e\n{text}");
    let when = |argument: &str, text: &str| format!("if [ \"$1\" = {argument} ]; then\n{text}fi\n");
    let purge = when("purge", &format!("\trm -rf {CACHE}\n"));
    [
        ("postinst", script(RELOAD)),
        ("prerm", script(&when("remove", &disable(unit)))),
        ("postrm", script(&format!("{RELOAD}{purge}"))),
    ]
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

fn chmod(path: &Path) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(MODE_EXECUTABLE))
        .with_context(|| format!("changing the mode of {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::tests::{about, stage};
    use super::*;

    #[test]
    fn the_control_file_says_what_cargo_toml_says() {
        let text = control(&about(), "amd64", "libc6 (>= 2.36)", 7);
        for line in [
            "Package: scx-pandemonium",
            "Version: 6.1.0~rc.1-1",
            "Depends: libc6 (>= 2.36)",
            "Suggests: scx-tools",
            "Installed-Size: 7",
            "Description: A scheduler that's a test",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
    }

    #[test]
    fn scripts_disable_when_it_is_removed_and_only_then() {
        let scripts = scripts("x.service");
        let [(_, postinst), (_, prerm), (_, postrm)] = &scripts;
        assert!(!postinst.contains("disable") && !postinst.contains("rm "));
        assert!(prerm.contains("[ \"$1\" = remove ]") && prerm.contains("disable x.service"));
        assert!(postrm.contains("[ \"$1\" = purge ]") && postrm.contains("rm -rf /var/cache/"));
        for (name, text) in &scripts {
            let mut sh = Command::new("sh");
            output(sh.args(["-n", "-c", text])).expect(name);
        }
    }

    #[test]
    fn the_cache_is_that_of_the_unit() {
        let dir = tempfile::tempdir().expect("a directory");
        let stage = stage(dir.path());
        let unit = stage.unit().expect("there is one");
        let unit = stage.dir.join("usr/lib/systemd/system").join(unit);
        let unit = fs::read_to_string(unit).expect("readable");
        let name = CACHE.trim_start_matches("/var/cache/");
        assert!(unit.contains(&format!("\nCacheDirectory={name}\n")));
    }

    #[test]
    fn it_holds_what_the_list_says_and_the_same_bytes_each_time() {
        if Command::new("dpkg-deb").arg("--version").output().is_err() {
            println!(
                "skipped: package::deb::it_holds_what_the_list_says_and_the_same_bytes_each_time: no dpkg-deb"
            );
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let make = |name: &str| {
            let dir = dir.path().join(name);
            fs::create_dir(&dir).expect("made");
            let stage = stage(&dir);
            let files = stage.files.clone();
            // As a temporary directory is, or all of them with another umask.
            fs::set_permissions(&stage.dir, Permissions::from_mode(0o700)).expect("ours");
            let path = make(&about(), stage, "libc6", &dir).expect("it is made");
            (files, path)
        };
        let (files, path) = make("a");
        let (_, again) = make("b");
        let read = |path| fs::read(path).expect("readable");
        assert!(read(&path) == read(&again));

        let list = output(Command::new("dpkg-deb").arg("--contents").arg(&path)).expect("it lists");
        let list = String::from_utf8(list).expect("text");
        let mut held = BTreeSet::new();
        for line in list.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [mode, owner, _, date, _, name] = words[..] else {
                panic!("{line}");
            };
            let is_executable = name.ends_with('/') || name.starts_with("./usr/bin");
            let bits = if is_executable {
                "rwxr-xr-x"
            } else {
                "rw-r--r--"
            };
            assert_eq!(&mode[1..], bits, "{line}");
            assert_eq!(owner, "root/root", "{line}");
            assert_eq!(date, "2023-11-14", "{line}");
            if !name.ends_with('/') {
                held.insert(name.to_string());
            }
        }
        let path = |file: &PathBuf| format!("./{}", file.display()).replace(ZSH_ELSEWHERE, ZSH);
        assert_eq!(held, files.iter().map(path).collect());
    }
}
