// SPDX-License-Identifier: GPL-2.0
//! The PKGBUILD, with the archive of the sources that it builds.
//!
//! The archive is of the commit, so what is changed and not committed is not in it.
//! `makepkg` takes it from beside the PKGBUILD, and from the release where it is not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use super::About;
use super::linked::Linked;
use crate::install::output;

const TEMPLATE: &str = "packaging/PKGBUILD.in";

/// Which package of Arch has a library, by how its name begins.
const PACKAGES: &[(&str, &str)] = &[
    ("ld-linux", "glibc"),
    ("libc.so", "glibc"),
    ("libelf.so", "libelf"),
    ("libgcc_s.so", "gcc-libs"),
    ("libm.so", "glibc"),
    ("libz.so", "zlib"),
];

/// Make both in `out` from the checkout at `root`; return the files.
pub fn make(about: &About, root: &Path, linked: &Linked, out: &Path) -> Result<[PathBuf; 2]> {
    let name = format!("{}-{}", about.name, version(about));
    let archive = std::path::absolute(out.join(format!("{name}.tar.gz")))
        .with_context(|| format!("resolving {}", out.display()))?;
    let mut git = Command::new("git");
    git.current_dir(root)
        .args([
            "archive",
            "--format=tar.gz",
            &format!("--prefix={name}/"),
            "-o",
        ])
        .arg(&archive)
        .arg("HEAD");
    output(&mut git).context("the sources are taken from a git checkout")?;
    let bytes = fs::read(&archive).with_context(|| format!("reading {}", archive.display()))?;
    let digest = Sha256::digest(bytes);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();

    let template = root.join(TEMPLATE);
    let template =
        fs::read_to_string(&template).with_context(|| format!("reading {}", template.display()))?;
    let path = out.join("PKGBUILD");
    fs::write(&path, fill(&template, about, &depends(linked)?, &digest)?)
        .with_context(|| format!("writing {}", path.display()))?;
    Ok([path, archive])
}

/// Versions of Arch's packages have no `-`, and a letter sorts before the release.
fn version(about: &About) -> String {
    about.version.replacen('-', "", 1)
}

/// The packages that have what is linked.
fn depends(linked: &Linked) -> Result<String> {
    let mut packages = Vec::new();
    for library in &linked.libraries {
        let mut known = PACKAGES.iter();
        let known = known.find(|(start, _)| library.starts_with(start));
        let (_, package) = known.with_context(|| {
            format!(
                "the program links {library}, and {} knows no package of Arch that has it",
                file!()
            )
        })?;
        packages.push(*package);
    }
    packages.sort_unstable();
    packages.dedup();
    ensure!(!packages.is_empty(), "the program links no library");
    Ok(packages.join(" "))
}

/// The template with what is between two `@` filled in.
fn fill(template: &str, about: &About, depends: &str, digest: &str) -> Result<String> {
    let mut text = String::new();
    // Every other part is a name.
    for (index, part) in template.split('@').enumerate() {
        text += &match part {
            part if index % 2 == 0 => part.to_string(),
            "authors" => about.authors.clone(),
            "name" => about.name.clone(),
            "pkgver" => version(about),
            "version" => about.version.clone(),
            // Within a shell's quotes.
            "description" => about.description.replace('\'', r"'\''"),
            "url" => about.url.clone(),
            "license" => about.license.clone(),
            "depends" => depends.to_string(),
            "sha256" => digest.to_string(),
            part => bail!("{TEMPLATE} has @{part}@, which is nothing"),
        };
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::tests::about;
    use super::*;
    use crate::install::tests::top_level;

    fn linked(libraries: &[&str]) -> Linked {
        Linked {
            libraries: libraries.iter().map(ToString::to_string).collect(),
            versions: BTreeSet::new(),
            is_64: true,
        }
    }

    #[test]
    fn packages_are_those_that_have_the_libraries() {
        let some = linked(&["libc.so.6", "libm.so.6", "libelf.so.1", "libz.so.1"]);
        assert_eq!(depends(&some).expect("they are known"), "glibc libelf zlib");
        let err = depends(&linked(&["libx.so.1"])).expect_err("it is not known");
        assert!(err.to_string().contains("libx.so.1"), "{err}");
        assert!(depends(&linked(&[])).is_err());
    }

    /// The shell reads it, as makepkg does.
    #[test]
    fn the_template_is_filled_to_what_a_shell_reads() {
        let template = fs::read_to_string(top_level().join(TEMPLATE)).expect("readable");
        let text = fill(&template, &about(), "glibc zlib", "abc").expect("it is filled");
        let asked = "\necho \"$pkgname $pkgver $pkgdesc ${depends[1]} ${source[0]}\"";
        let printed = output(Command::new("bash").args(["-c", &(text + asked)])).expect("it runs");
        let expected = "scx_pandemonium 6.1.0rc.1 A scheduler that's a test zlib \
                        https://example.org/scx/releases/download/v6.1.0-rc.1/\
                        scx_pandemonium-6.1.0rc.1.tar.gz\n";
        assert_eq!(String::from_utf8_lossy(&printed), expected);
        assert!(fill("@x@", &about(), "", "").is_err());
    }
}
