// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask install` and `cargo xtask uninstall`.
//!
//! What goes where stands in `install.list` at the top level, which `meson.build`
//! reads as well. Manual pages and completions are those that the built program
//! prints.
//!
//! Not here: settings of the machine and the memory of programs. Neither command
//! makes or removes any, and neither starts or stops the service.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::setup::{self, Purpose};
use crate::workspace::Workspace;

/// The list, from the top level.
const LIST: &str = "install.list";

/// The package whose program is installed, and the name of directories that are
/// its alone.
pub const PACKAGE: &str = "scx_pandemonium";

const MODE_PROGRAM: u32 = 0o755;
const MODE_DATA: u32 = 0o644;

/// Where files are put.
#[derive(Debug, clap::Args)]
pub struct Place {
    /// Where the program will be run from: bin, lib and share are below it
    #[arg(long, value_name = "DIR", default_value = "/usr/local")]
    prefix: PathBuf,
    /// A directory that stands for /, for packages
    #[arg(long, value_name = "DIR")]
    destdir: Option<PathBuf>,
}

/// The arguments of `cargo xtask install`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// Install what `cargo build --release` has made, without looking whether it is the newest
    #[arg(long)]
    no_build: bool,
}

/// What a file is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Program,
    Page,
    Completion,
    File,
    Unit,
}

/// A line of the list.
#[derive(Debug)]
struct Item {
    kind: Kind,
    source: String,
    /// Below the prefix.
    target: PathBuf,
}

/// Build, and put each file where it belongs.
pub fn main(args: &Args) -> Result<()> {
    let tools = setup::ensure(&[Purpose::Build][usize::from(args.no_build)..], false)?;
    let workspace = Workspace::find(&tools)?;
    if !args.no_build {
        workspace.build(&tools, PACKAGE)?;
    }
    let items = read_list(workspace.root())?;
    install(
        &items,
        workspace.root(),
        &workspace.binary(PACKAGE),
        &args.place,
    )?;
    println!(
        "{} files installed below {}",
        items.len(),
        args.place.root()?.display()
    );
    Ok(())
}

/// What packages are made from: the files as they are installed with the prefix /usr.
#[derive(Debug)]
pub struct Stage {
    /// The directory that stands for /.
    pub dir: PathBuf,
    /// From there.
    pub files: Vec<PathBuf>,
}

impl Stage {
    /// Install the tree at `root`, whose program is `binary`, below `dir`, which is made.
    pub fn lay(root: &Path, binary: &Path, dir: &Path) -> Result<Stage> {
        let place = Place {
            prefix: PathBuf::from("/usr"),
            destdir: Some(dir.to_path_buf()),
        };
        let items = read_list(root)?;
        install(&items, root, binary, &place)?;
        let mut stage = Stage {
            dir: dir.to_path_buf(),
            files: Vec::new(),
        };
        for item in &items {
            stage.files.push(Path::new("usr").join(&item.target));
        }
        Ok(stage)
    }

    /// The directories that are ours alone, from there.
    pub fn own_dirs(&self) -> BTreeSet<&Path> {
        let dirs = self.files.iter().filter_map(|file| file.parent());
        dirs.filter(|dir| dir.ends_with(PACKAGE)).collect()
    }

    /// The name of the systemd unit.
    pub fn unit(&self) -> Result<String> {
        let mut names = self.files.iter().filter_map(|file| file.file_name());
        let unit = names.find(|name| Path::new(name).extension() == Some("service".as_ref()));
        let unit = unit.with_context(|| format!("{LIST} has no systemd unit"))?;
        Ok(unit.to_string_lossy().into_owned())
    }
}

/// Remove each file that [`main`] installs there.
pub fn uninstall(place: &Place) -> Result<()> {
    let tools = setup::ensure(&[], false)?;
    let workspace = Workspace::find(&tools)?;
    let nr_removed = remove(&read_list(workspace.root())?, place)?;
    println!(
        "{nr_removed} files removed below {}",
        place.root()?.display()
    );
    Ok(())
}

impl Place {
    /// The directory that the prefix is while files are put there.
    fn root(&self) -> Result<PathBuf> {
        let below = self.prefix.strip_prefix("/").ok();
        let below = below.filter(|below| {
            below
                .components()
                .all(|part| matches!(part, Component::Normal(_)))
        });
        let below = below.with_context(|| {
            format!(
                "--prefix is an absolute path without `..`, and {} is none",
                self.prefix.display()
            )
        })?;
        let destdir = self.destdir.as_deref().unwrap_or(Path::new("/"));
        Ok(destdir.join(below))
    }
}

/// The list of the tree whose top level is `root`.
fn read_list(root: &Path) -> Result<Vec<Item>> {
    let path = root.join(LIST);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| parse_line(line).with_context(|| format!("{LIST}: {line}")))
        .collect()
}

fn parse_line(line: &str) -> Result<Item> {
    let words: Vec<&str> = line.split(' ').collect();
    let [kind, source, dir, target] = words[..] else {
        bail!("a line is a kind, a source, a directory and a name");
    };
    let kind = match kind {
        "program" => Kind::Program,
        "page" => Kind::Page,
        "completion" => Kind::Completion,
        "file" => Kind::File,
        "unit" => Kind::Unit,
        _ => bail!("there is no kind {kind}"),
    };
    // As meson has them by default.
    let dir = match dir {
        "bindir" => "bin",
        "mandir" => "share/man",
        "datadir" => "share",
        "unitdir" => "lib/systemd/system",
        _ => bail!("there is no directory {dir}"),
    };
    Ok(Item {
        kind,
        source: source.to_string(),
        target: Path::new(dir).join(target),
    })
}

/// Put `items` of the tree at `root`, whose program is `binary`, to `place`.
fn install(items: &[Item], root: &Path, binary: &Path, place: &Place) -> Result<()> {
    let prefix = place.root()?;
    ensure!(
        binary.is_file(),
        "there is no {}: run `cargo build --release` first",
        binary.display()
    );
    let pages = tempfile::tempdir().context("making a directory for manual pages")?;
    let mut man = Command::new(binary);
    output(man.arg("man").arg("--output-dir").arg(pages.path()))?;
    for item in items {
        let bytes = match item.kind {
            Kind::Program => read(binary)?,
            Kind::Page => read(&pages.path().join(&item.source))?,
            Kind::Completion => output(Command::new(binary).args(["completions", &item.source]))?,
            Kind::File => read(&root.join(&item.source))?,
            Kind::Unit => {
                let text = String::from_utf8(read(&root.join(&item.source))?)
                    .with_context(|| format!("reading {}", item.source))?;
                let bindir = place.prefix.join("bin");
                text.replace("@bindir@", &bindir.to_string_lossy()).into()
            }
        };
        let mode = match item.kind {
            Kind::Program => MODE_PROGRAM,
            _ => MODE_DATA,
        };
        put(&prefix.join(&item.target), &bytes, mode)?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}

/// What `command` prints.
pub fn output(command: &mut Command) -> Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("starting {name}"))?;
    ensure!(
        output.status.success(),
        "{name} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(output.stdout)
}

/// Let `path` be a file of these bytes. A program that runs keeps the one it has.
fn put(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let installing = || format!("installing {}", path.display());
    let dir = path.parent().with_context(installing)?;
    fs::create_dir_all(dir).with_context(installing)?;
    let file = tempfile::NamedTempFile::new_in(dir).with_context(installing)?;
    fs::write(file.path(), bytes).with_context(installing)?;
    // Apart from the umask, as other programs that install do.
    fs::set_permissions(file.path(), Permissions::from_mode(mode)).with_context(installing)?;
    file.persist(path).with_context(installing)?;
    Ok(())
}

/// Remove `items` from `place`, and the directories that were only theirs; return
/// how many were there.
fn remove(items: &[Item], place: &Place) -> Result<usize> {
    let prefix = place.root()?;
    let mut nr_removed = 0;
    for item in items {
        let path = prefix.join(&item.target);
        match fs::remove_file(&path) {
            Ok(()) => nr_removed += 1,
            Err(err) if err.kind() == ErrorKind::NotFound => {}
            Err(err) => return Err(err).with_context(|| format!("removing {}", path.display())),
        }
        if let Some(dir) = path.parent().filter(|dir| dir.ends_with(PACKAGE)) {
            // It stays while it holds other files.
            let _ = fs::remove_dir(dir);
        }
    }
    Ok(nr_removed)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A program that answers as ours does, as far as it is asked.
    const PROGRAM: &str = "#!/bin/sh
        case $1 in
        completions) echo \"for $2\" ;;
        man) while read -r kind page _; do
            if [ \"$kind\" = page ]; then echo .TH > \"$3/$page\"; fi
        done < LIST ;;
        esac\n";

    pub fn top_level() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    /// A program may not be started while it is open for writing, and a test in another
    /// thread that forks has each file of this one open until it execs (`ETXTBSY`). So
    /// another process writes it.
    pub fn fake_program(dir: &Path) -> PathBuf {
        let (text, path) = (dir.join("text"), dir.join(PACKAGE));
        let list = top_level().join(LIST).display().to_string();
        fs::write(&text, PROGRAM.replace("LIST", &list)).expect("it is written");
        let mut copy = Command::new("install");
        output(copy.arg("--mode=755").arg(&text).arg(&path)).expect("it is copied");
        path
    }

    /// The files below `dir`, by their paths from there.
    fn files(dir: &Path) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut dirs = vec![dir.to_path_buf()];
        while let Some(next) = dirs.pop() {
            for entry in fs::read_dir(next).expect("readable") {
                let path = entry.expect("readable").path();
                if path.is_dir() {
                    dirs.push(path);
                } else {
                    found.insert(path.strip_prefix(dir).expect("below").to_path_buf());
                }
            }
        }
        found
    }

    fn place(prefix: &str, destdir: &Path) -> Place {
        Place {
            prefix: PathBuf::from(prefix),
            destdir: Some(destdir.to_path_buf()),
        }
    }

    #[test]
    fn what_is_installed_is_what_the_list_says_and_all_that_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let program = fake_program(dir.path());
        let stage = dir.path().join("stage");
        let usr = place("/usr", &stage);
        let items = read_list(&top_level()).expect("it parses");
        // Twice: what is there is replaced.
        for _ in 0..2 {
            install(&items, &top_level(), &program, &usr).expect("it installs");
        }

        let expected: BTreeSet<PathBuf> = items
            .iter()
            .map(|item| Path::new("usr").join(&item.target))
            .collect();
        assert_eq!(files(&stage), expected);
        for path in [
            "usr/bin/scx_pandemonium",
            "usr/share/man/man1/scx_pandemonium.1",
            "usr/share/bash-completion/completions/scx_pandemonium.bash",
            "usr/share/zsh/site-functions/_scx_pandemonium",
            "usr/share/fish/vendor_completions.d/scx_pandemonium.fish",
            "usr/lib/systemd/system/scx_pandemonium.service",
            "usr/share/doc/scx_pandemonium/scx_loader.toml",
            "usr/share/licenses/scx_pandemonium/LICENSE",
        ] {
            let file = fs::metadata(stage.join(path)).expect(path);
            let mode = if path.starts_with("usr/bin") {
                0o755
            } else {
                0o644
            };
            assert_eq!(file.permissions().mode() & 0o777, mode, "{path}");
        }
        let zsh = stage.join("usr/share/zsh/site-functions/_scx_pandemonium");
        assert_eq!(fs::read_to_string(zsh).expect("readable"), "for zsh\n");
        let unit = stage.join("usr/lib/systemd/system/scx_pandemonium.service");
        let unit = fs::read_to_string(unit).expect("readable");
        assert!(unit.contains("\nExecStart=/usr/bin/scx_pandemonium "));
        assert!(!unit.contains('@'));

        let other = stage.join("usr/share/doc/scx_pandemonium/other");
        fs::write(&other, "").expect("written");
        assert_eq!(remove(&items, &usr).expect("it removes"), items.len());
        assert_eq!(files(&stage).len(), 1);
        assert!(other.exists());
        assert!(!stage.join("usr/share/licenses/scx_pandemonium").exists());
        assert_eq!(remove(&items, &usr).expect("it removes"), 0);
    }

    #[test]
    fn a_place_that_is_none_and_a_program_that_is_not_built_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        for prefix in ["usr", "", "/usr/../.."] {
            let err = place(prefix, dir.path()).root().expect_err("it is refused");
            assert!(err.to_string().contains("--prefix"), "{err}");
        }
        let usr = place("/usr", dir.path());
        let none = dir.path().join("none");
        let err = install(&[], dir.path(), &none, &usr).expect_err("it is refused");
        assert!(err.to_string().contains("cargo build --release"), "{err}");
        assert_eq!(files(dir.path()).len(), 0);
    }

    #[test]
    fn a_line_of_the_list_is_four_words_that_are_known() {
        let item = parse_line("page a.1 mandir man1/a.1").expect("it parses");
        assert_eq!(item.kind, Kind::Page);
        assert_eq!(item.target, Path::new("share/man/man1/a.1"));
        for bad in ["page a.1 mandir", "x a bindir a", "file a etcdir a", ""] {
            assert!(parse_line(bad).is_err(), "{bad}");
        }
    }
}
