// SPDX-License-Identifier: GPL-2.0
//! The RPM, as Fedora and openSUSE have them.
//!
//! It requires what `rpmbuild` would find out for the program: libraries with the
//! versions of their symbols, by the names under which those distributions' packages
//! provide them.

use std::env::consts::ARCH;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rpm::{BuildConfig, CompressionType, Dependency, FileOptions, PackageBuilder};

use super::linked::Linked;
use super::{About, LOADER, RELEASE, RELOAD, disable};
use crate::install::Stage;

const MODE_DIR: u16 = 0o755;
const MODE_BITS: u32 = 0o777;

/// Make it in `out`; return the file.
pub fn make(about: &About, stage: &Stage, linked: &Linked, out: &Path) -> Result<PathBuf> {
    let config = BuildConfig::v4()
        .compression(CompressionType::Gzip)
        .source_date(about.time);
    let version = about.version_with_tilde();
    let mut package = PackageBuilder::new(
        &about.name,
        &version,
        &about.license,
        ARCH,
        &about.description,
    );
    package
        .using_config(config)
        .release(RELEASE)
        .url(&about.url)
        .vendor(&about.authors)
        .description(&about.description)
        .suggests(Dependency::any(LOADER));
    for name in requires(linked) {
        package.requires(Dependency::any(name));
    }
    for dir in stage.own_dirs() {
        package.with_dir_entry(FileOptions::dir(target(dir)).permissions(MODE_DIR))?;
    }
    for file in &stage.files {
        let path = stage.dir.join(file);
        let reading = || format!("reading {}", path.display());
        let mode = fs::metadata(&path)
            .with_context(reading)?
            .permissions()
            .mode();
        let mode = u16::try_from(mode & MODE_BITS).with_context(reading)?;
        let bytes = fs::read(&path).with_context(reading)?;
        let options = FileOptions::new(target(file)).permissions(mode);
        let options = match file {
            file if file.starts_with("usr/share/licenses") => options.license(),
            file if file.starts_with("usr/share/doc") => options.doc(),
            file if file.starts_with("usr/share/man") => options.doc(),
            _ => options,
        };
        package.with_file_contents(bytes, options)?;
    }
    let unit = stage.unit()?;
    // The argument is how many versions are left: 0 when it is removed, not replaced.
    let disable = format!("if [ \"$1\" -eq 0 ]; then\n{}fi\n", disable(&unit));
    package
        .post_install_script(RELOAD)
        .pre_uninstall_script(disable.as_str())
        .post_uninstall_script(RELOAD);

    let package = package.build().context("making the RPM")?;
    let path = out.join(format!("{}-{version}-{RELEASE}.{ARCH}.rpm", about.name));
    package
        .write_file(&path)
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// Where a file is once it is installed.
fn target(file: &Path) -> String {
    Path::new("/").join(file).to_string_lossy().into_owned()
}

/// The names under which packages provide what is linked.
fn requires(linked: &Linked) -> Vec<String> {
    let bits = if linked.is_64 { "(64bit)" } else { "" };
    let plain = linked.libraries.iter().map(|library| match bits {
        "" => library.clone(),
        bits => format!("{library}(){bits}"),
    });
    let versions = linked.versions.iter();
    let versions = versions.map(|(library, version)| format!("{library}({version}){bits}"));
    plain.chain(versions).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::tests::{about, stage};
    use super::*;

    fn linked() -> Linked {
        Linked {
            libraries: BTreeSet::from(["libc.so.6".to_string()]),
            versions: BTreeSet::from([("libc.so.6".to_string(), "GLIBC_2.34".to_string())]),
            is_64: true,
        }
    }

    #[test]
    fn libraries_are_required_as_rpmbuild_names_them() {
        let mut linked = linked();
        let wanted = ["libc.so.6()(64bit)", "libc.so.6(GLIBC_2.34)(64bit)"];
        assert_eq!(requires(&linked), wanted);
        linked.is_64 = false;
        assert_eq!(requires(&linked), ["libc.so.6", "libc.so.6(GLIBC_2.34)"]);
    }

    #[test]
    fn it_holds_what_the_list_says_and_the_same_bytes_each_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let stage = stage(dir.path());
        let path = make(&about(), &stage, &linked(), dir.path()).expect("it is made");
        let first = fs::read(&path).expect("readable");
        make(&about(), &stage, &linked(), dir.path()).expect("it is made");
        assert!(first == fs::read(&path).expect("readable"));

        let package = rpm::Package::open(&path).expect("it is an RPM");
        let header = &package.metadata;
        assert_eq!(header.get_version().expect("there"), "6.1.0~rc.1");
        let mut expected: BTreeSet<PathBuf> = stage
            .files
            .iter()
            .map(|file| Path::new("/").join(file))
            .collect();
        expected.extend(stage.own_dirs().iter().map(|dir| Path::new("/").join(dir)));
        let files = header.get_file_paths().expect("there");
        assert_eq!(BTreeSet::from_iter(files), expected);
        for entry in header.get_file_entries().expect("there") {
            let is_program = entry.path().starts_with("/usr/bin");
            let is_dir = stage
                .dir
                .join(entry.path().strip_prefix("/").expect("absolute"))
                .is_dir();
            let mode = if is_program || is_dir { 0o755 } else { 0o644 };
            assert_eq!(
                entry.mode().permissions(),
                mode,
                "{}",
                entry.path().display()
            );
        }
        let script = header.get_pre_uninstall_script().expect("there").script;
        assert!(
            script.contains("disable scx_pandemonium.service"),
            "{script}"
        );
    }
}
