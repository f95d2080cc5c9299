// SPDX-License-Identifier: GPL-2.0
//! The guest's root: a cpio archive of everything that was put into it.
//!
//! *What does the guest see?* A small system of busybox, the programs with the
//! shared libraries they need, and the files. The archive is a pure function
//! of their contents: names in order, no times, no owners, no inode numbers of
//! the host.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use cpio::newc::{Builder, ModeFileType, trailer};
use lddtree::DependencyAnalyzer;

use crate::{Error, Result};

/// Directories in which the dynamic loader looks unasked, on any distribution.
const LOADER_DIRS: &[&str] = &["/lib", "/lib64", "/usr/lib", "/usr/lib64"];

/// The archive's directory that stands for all directories of programs.
const BIN: &str = "bin";

/// Empty directories that mounts and programs expect.
const DIRS: &[&str] = &[
    "dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "var", "var/tmp",
];

const MODE_PROGRAM: u32 = 0o755;
const MODE_FILE: u32 = 0o644;
const PERMISSIONS: u32 = 0o7777;

/// What programs and shared libraries begin with.
const ELF_MAGIC: &[u8] = b"\x7fELF";

/// The character device behind /dev/console.
const CONSOLE_DEV: (u32, u32) = (5, 1);

/// One name in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Dir,
    Bytes { mode: u32, bytes: Vec<u8> },
    Link { target: String },
    Console,
}

/// A root image while it is put together.
#[derive(Debug, Default)]
pub(crate) struct Root {
    nodes: BTreeMap<String, Node>,
    library_dirs: BTreeSet<String>,
}

impl Root {
    /// A system with busybox and its applets, and nothing else.
    pub(crate) fn with_busybox() -> Result<Self> {
        let mut root = Self::skeleton();
        let busybox = find_busybox()?;
        for applet in applets(&busybox)? {
            let link = Node::Link {
                target: "busybox".to_owned(),
            };
            root.insert(&format!("{BIN}/{applet}"), link)?;
        }
        root.add_program(&busybox, "busybox")?;
        Ok(root)
    }

    /// Directories, the console and the account of root.
    pub(crate) fn skeleton() -> Self {
        let mut root = Self::default();
        for dir in DIRS {
            root.nodes.insert((*dir).to_owned(), Node::Dir);
        }
        // Programs stand in one directory, by whichever name they are called.
        for (name, target) in [
            ("sbin", "bin"),
            ("usr/bin", "../bin"),
            ("usr/sbin", "../bin"),
        ] {
            root.nodes.insert(
                name.to_owned(),
                Node::Link {
                    target: target.to_owned(),
                },
            );
        }
        root.nodes.insert("dev/console".to_owned(), Node::Console);
        let files = [
            (
                "etc/passwd",
                "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
            ),
            ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
            ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
            (
                "etc/nsswitch.conf",
                "passwd: files\ngroup: files\nhosts: files\n",
            ),
        ];
        for (name, text) in files {
            let node = Node::Bytes {
                mode: MODE_FILE,
                bytes: text.into(),
            };
            root.nodes.insert(name.to_owned(), node);
        }
        root
    }

    /// Put a host program into /bin under `name`, with its shared libraries.
    pub(crate) fn add_program(&mut self, host_path: &Path, name: &str) -> Result<()> {
        let bytes = read(host_path)?;
        let is_elf = bytes.starts_with(ELF_MAGIC);
        self.insert(
            &format!("{BIN}/{name}"),
            Node::Bytes {
                mode: MODE_PROGRAM,
                bytes,
            },
        )?;
        if is_elf {
            self.add_libraries(host_path, None)
        } else {
            Ok(())
        }
    }

    /// Put a host file, or a directory with all that is below it, at
    /// `guest_path`.
    pub(crate) fn add_file(&mut self, host_path: &Path, guest_path: &str) -> Result<()> {
        let data = fs::metadata(host_path).map_err(|e| program_error(host_path, &e))?;
        if !data.is_dir() {
            let mode = data.permissions().mode() & PERMISSIONS;
            return self.insert(
                guest_path,
                Node::Bytes {
                    mode,
                    bytes: read(host_path)?,
                },
            );
        }
        self.insert(guest_path, Node::Dir)?;
        for path in list_dir(host_path)? {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let below = format!("{guest_path}/{name}");
            let data = fs::symlink_metadata(&path).map_err(|e| program_error(&path, &e))?;
            if data.is_symlink() {
                let target = fs::read_link(&path).map_err(|e| program_error(&path, &e))?;
                let target = target.to_string_lossy().into_owned();
                self.insert(&below, Node::Link { target })?;
            } else {
                self.add_file(&path, &below)?;
            }
        }
        Ok(())
    }

    /// Put a host file, or a directory with all that is below it, at its own
    /// path, with the shared libraries of all programs and plugins in it.
    pub(crate) fn add_installed(&mut self, host_path: &Path) -> Result<()> {
        self.add_file(host_path, &host_path.to_string_lossy())?;
        self.add_libraries_below(host_path)
    }

    fn add_libraries_below(&mut self, host_path: &Path) -> Result<()> {
        if host_path.is_dir() {
            for path in list_dir(host_path)? {
                // What a link means is in the directory, or was not asked for.
                if !path.is_symlink() {
                    self.add_libraries_below(&path)?;
                }
            }
            return Ok(());
        }
        match is_elf(host_path)? {
            // A plugin may need a library beside it that its program has loaded.
            true => self.add_libraries(host_path, host_path.parent()),
            false => Ok(()),
        }
    }

    /// Put `bytes` at `guest_path`; a program if `is_program`.
    pub(crate) fn add_bytes(&mut self, guest_path: &str, bytes: Vec<u8>) -> Result<()> {
        let is_script = bytes.starts_with(b"#!") || bytes.starts_with(ELF_MAGIC);
        let mode = if is_script { MODE_PROGRAM } else { MODE_FILE };
        self.insert(guest_path, Node::Bytes { mode, bytes })
    }

    /// Directories of libraries where the loader does not look by itself.
    pub(crate) fn library_path(&self) -> String {
        self.library_dirs
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(":")
    }

    /// Write the archive.
    pub(crate) fn write(&self, output: impl Write) -> io::Result<()> {
        let mut output = BufWriter::new(output);
        for (index, (name, node)) in self.nodes.iter().enumerate() {
            // Only distinct numbers matter: 1 and up, in the order of names.
            let ino = u32::try_from(index + 1).map_err(io::Error::other)?;
            let entry = Builder::new(name).ino(ino);
            let (entry, bytes): (Builder, &[u8]) = match node {
                Node::Dir => {
                    let entry = entry.mode(0o755).nlink(2);
                    (entry.set_mode_file_type(ModeFileType::Directory), &[])
                }
                Node::Bytes { mode, bytes } => (
                    entry.mode(*mode).set_mode_file_type(ModeFileType::Regular),
                    bytes,
                ),
                Node::Link { target } => {
                    let entry = entry.mode(0o777).set_mode_file_type(ModeFileType::Symlink);
                    (entry, target.as_bytes())
                }
                Node::Console => {
                    let (major, minor) = CONSOLE_DEV;
                    let entry = entry.mode(0o600).set_mode_file_type(ModeFileType::Char);
                    (entry.rdev_major(major).rdev_minor(minor), &[])
                }
            };
            let size_bytes = u32::try_from(bytes.len())
                .map_err(|_| io::Error::other(format!("/{name} is larger than 4 GB")))?;
            let mut writer = entry.write(&mut output, size_bytes);
            writer.write_all(bytes)?;
            writer.finish()?;
        }
        trailer(&mut output)?;
        output.flush()
    }

    /// The libraries and the loader of an ELF file, at the host's own paths. They
    /// may also be in `dir`.
    fn add_libraries(&mut self, program: &Path, dir: Option<&Path>) -> Result<()> {
        let tree = DependencyAnalyzer::default()
            .library_paths(dir.map(Path::to_owned).into_iter().collect())
            .analyze(program)
            .map_err(|error| Error::Program {
                path: program.to_owned(),
                reason: error.to_string(),
            })?;
        let libraries: BTreeMap<_, _> = tree.libraries.into_iter().collect();
        for (name, library) in libraries {
            let Some(real_path) = library.realpath else {
                return Err(Error::MissingLibrary {
                    program: program.to_owned(),
                    library: name,
                });
            };
            let guest_path = library.path.to_string_lossy().into_owned();
            if let Some(dir) = library.path.parent() {
                self.note_library_dir(dir);
            }
            self.insert(
                &guest_path,
                Node::Bytes {
                    mode: MODE_PROGRAM,
                    bytes: read(&real_path)?,
                },
            )?;
        }
        if let Some(loader) = tree.interpreter {
            let bytes = read(Path::new(&loader))?;
            self.insert(
                &loader,
                Node::Bytes {
                    mode: MODE_PROGRAM,
                    bytes,
                },
            )?;
        }
        Ok(())
    }

    fn note_library_dir(&mut self, dir: &Path) {
        // The multiarch directories are directly below those of the loader.
        let is_known = |dir: &Path| LOADER_DIRS.iter().any(|known| Path::new(known) == dir);
        let is_multiarch = dir.ends_with("x86_64-linux-gnu") && dir.parent().is_some_and(is_known);
        if !is_known(dir) && !is_multiarch {
            self.library_dirs.insert(dir.to_string_lossy().into_owned());
        }
    }

    /// Enter `node` under the normal form of `guest_path`, with its parents.
    fn insert(&mut self, guest_path: &str, node: Node) -> Result<()> {
        let name = normalize(guest_path)?;
        for (at, _) in name.match_indices('/') {
            self.nodes.entry(name[..at].to_owned()).or_insert(Node::Dir);
        }
        // A directory adds nothing to what is already there.
        if node == Node::Dir {
            self.nodes.entry(name).or_insert(node);
        } else {
            self.nodes.insert(name, node);
        }
        Ok(())
    }
}

/// The program that `name` means on the host: a path if it has a slash, else
/// the first in `$PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        let path = PathBuf::from(name);
        return path.is_file().then_some(path);
    }
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
}

/// Whether every guest has `name` from busybox.
pub fn has_applet(name: &str) -> Result<bool> {
    Ok(applets(&find_busybox()?)?
        .iter()
        .any(|applet| applet == name))
}

fn find_busybox() -> Result<PathBuf> {
    find_program("busybox").ok_or_else(|| Error::MissingTool {
        tool: "busybox".to_owned(),
        hint: "it is the guest's shell; on Debian install the package busybox-static".to_owned(),
    })
}

/// Which busybox the guest gets, in its own words.
pub(crate) fn busybox_version() -> Result<String> {
    let busybox = find_busybox()?;
    let output = Command::new(&busybox)
        .arg("--help")
        .output()
        .map_err(|e| Error::at("running", &busybox, e))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default();
    // Without what follows a version and package, such as "multi-call binary".
    let end = line.find(" multi-call").unwrap_or(line.len());
    Ok(line[..end].to_owned())
}

/// The names of busybox's applets, in order.
fn applets(busybox: &Path) -> Result<Vec<String>> {
    let output = Command::new(busybox)
        .arg("--list")
        .output()
        .map_err(|e| Error::at("running", busybox, e))?;
    let mut names: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    names.retain(|name| name != "busybox");
    names.sort();
    Ok(names)
}

/// A guest path without the leading slash, in the directory that stands for
/// its kind.
fn normalize(guest_path: &str) -> Result<String> {
    let bad = |reason: &str| Error::Program {
        path: PathBuf::from(guest_path),
        reason: format!("as a path in the guest, {reason}"),
    };
    let mut parts = Vec::new();
    for component in Path::new(guest_path).components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(part) => parts.push(part.to_str().ok_or(bad("it is not UTF-8"))?),
            _ => return Err(bad("it must not contain ..")),
        }
    }
    let name = match parts.as_slice() {
        [] => return Err(bad("it names no file")),
        ["dev" | "proc" | "sys", ..] => {
            return Err(bad("it would be hidden by the kernel's files"));
        }
        ["sbin", rest @ ..] | ["usr", "bin" | "sbin", rest @ ..] => {
            [&[BIN], rest].concat().join("/")
        }
        parts => parts.join("/"),
    };
    if name.contains('\0') {
        Err(bad("it has a zero byte"))
    } else {
        Ok(name)
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| program_error(path, &error))
}

/// What is in `dir`, in an order that does not depend on the file system.
fn list_dir(dir: &Path) -> Result<Vec<PathBuf>> {
    let paths: std::io::Result<Vec<PathBuf>> =
        fs::read_dir(dir).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut paths = paths.map_err(|e| Error::at("reading", dir, e))?;
    paths.sort();
    Ok(paths)
}

fn is_elf(path: &Path) -> Result<bool> {
    let mut magic = [0; ELF_MAGIC.len()];
    let file = File::open(path).map_err(|error| program_error(path, &error))?;
    let nr_bytes = file
        .take(magic.len() as u64)
        .read(&mut magic)
        .map_err(|error| program_error(path, &error))?;
    Ok(&magic[..nr_bytes] == ELF_MAGIC)
}

fn program_error(path: &Path, error: &io::Error) -> Error {
    let reason = match error.kind() {
        ErrorKind::NotFound => "there is no such file".to_owned(),
        _ => error.to_string(),
    };
    Error::Program {
        path: path.to_owned(),
        reason,
    }
}

/// Write `root` to a file without a name, which goes away with its last user.
pub(crate) fn write_unnamed(root: &Root) -> Result<File> {
    let what = || {
        format!(
            "writing the guest's root image below {}",
            env::temp_dir().display()
        )
    };
    let file = tempfile::tempfile().map_err(|e| Error::io(what(), e))?;
    root.write(&file).map_err(|e| Error::io(what(), e))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(root: &Root) -> Vec<u8> {
        let mut bytes = Vec::new();
        root.write(&mut bytes).unwrap();
        bytes
    }

    fn names(archive: &[u8]) -> Vec<String> {
        let mut names = Vec::new();
        let mut reader = cpio::NewcReader::new(archive).unwrap();
        while !reader.entry().is_trailer() {
            names.push(reader.entry().name().to_owned());
            reader = cpio::NewcReader::new(reader.finish().unwrap()).unwrap();
        }
        names
    }

    #[test]
    fn the_same_contents_give_the_same_bytes() {
        let build = |order: [&str; 3]| {
            let mut root = Root::skeleton();
            for name in order {
                root.add_bytes(name, name.as_bytes().to_vec()).unwrap();
            }
            archive(&root)
        };
        assert_eq!(build(["/a/b", "/c", "/a/d"]), build(["/c", "/a/d", "/a/b"]));
    }

    #[test]
    fn times_and_owners_of_the_host_do_not_matter() {
        let dir = tempfile::tempdir().unwrap();
        let build = |name: &str| {
            let path = dir.path().join(name);
            fs::write(&path, "same").unwrap();
            let mut root = Root::skeleton();
            root.add_file(&path, "/data").unwrap();
            archive(&root)
        };
        assert_eq!(build("one"), build("two"));
    }

    #[test]
    fn every_parent_stands_before_its_children() {
        let mut root = Root::skeleton();
        root.add_bytes("/opt/deep/er/file", b"x".to_vec()).unwrap();
        let names = names(&archive(&root));
        for name in &names {
            if let Some((parent, _)) = name.rsplit_once('/') {
                let at = names.iter().position(|other| other == parent).expect(name);
                assert!(
                    at < names.iter().position(|other| other == name).unwrap(),
                    "{name}"
                );
            }
        }
        assert!(names.iter().any(|name| name == "opt/deep/er/file"));
    }

    #[test]
    fn programs_meet_in_one_directory() {
        for path in ["/usr/bin/x", "/usr/sbin/x", "/sbin/x", "bin/x", "//bin/./x"] {
            assert_eq!(normalize(path).unwrap(), "bin/x");
        }
        assert!(normalize("/a/../b").is_err());
        assert!(normalize("/").is_err());
        assert!(normalize("/dev/null").is_err());
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Root::skeleton()
            .add_program(Path::new("/no/such"), "such")
            .unwrap_err();
        assert!(error.to_string().contains("/no/such"), "{error}");
    }

    #[test]
    fn a_dynamic_program_brings_its_loader_and_libraries() {
        let mut root = Root::skeleton();
        root.add_program(&env::current_exe().unwrap(), "test")
            .unwrap();
        let has = |part: &str| root.nodes.keys().any(|name| name.contains(part));
        assert!(has("bin/test") && has("ld-linux") && has("libc.so.6"));
        assert_eq!(root.library_path(), "");
    }

    #[test]
    fn a_directory_of_plugins_brings_their_libraries_and_keeps_its_path() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("plugins")).unwrap();
        fs::copy(
            env::current_exe().unwrap(),
            dir.path().join("plugins/one.so"),
        )
        .unwrap();
        fs::write(dir.path().join("plugins/table"), "x").unwrap();
        fs::write(dir.path().join("empty"), "").unwrap();
        let mut root = Root::skeleton();
        root.add_installed(dir.path()).unwrap();
        let has = |part: &str| root.nodes.keys().any(|name| name.contains(part));
        let path = dir.path().to_string_lossy().into_owned();
        let path = path.trim_start_matches('/');
        for name in ["plugins/one.so", "plugins/table", "empty"] {
            assert!(root.nodes.contains_key(&format!("{path}/{name}")), "{name}");
        }
        assert!(has("ld-linux") && has("libc.so.6"));
    }

    #[test]
    fn a_directory_is_taken_with_its_links() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/file"), "x").unwrap();
        std::os::unix::fs::symlink("sub/file", dir.path().join("link")).unwrap();
        let mut root = Root::default();
        root.add_file(dir.path(), "/data").unwrap();
        assert_eq!(
            names(&archive(&root)),
            ["data", "data/link", "data/sub", "data/sub/file"]
        );
    }
}
