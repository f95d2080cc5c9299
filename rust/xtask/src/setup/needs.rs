// SPDX-License-Identifier: GPL-2.0
//! What the commands need beside Rust, and how its presence is seen.
//!
//! One table, [`NEEDS`]. A need counts as met by whatever does the job (a
//! command with a high enough version, a library that pkg-config knows), so
//! that a machine with other package names, or a self-built tool, installs
//! nothing. The package names are Debian's.
//!
//! Not here: installing (apt).

use std::env;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a command is about to do; each purpose has its own needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Compile the workspace, the BPF half included.
    Build,
    /// Check how the C sources are formatted.
    Format,
    /// Boot a kernel.
    Guest,
    /// Load that kernel with the workloads and tests other projects use.
    Workload,
    /// Run programs of a desktop in that kernel.
    Desktop,
    /// Run scx_loader in that kernel, as a desktop does.
    Loader,
    /// Build a kernel from its sources.
    Kernel,
    /// Build the published schedulers to compare with.
    Peers,
    /// Make a Debian package.
    Debian,
    /// Install by meson, as packagers do.
    Meson,
}

/// A version, as far as a minimum needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Version {
    /// The first `major.minor` in `text`, which may be what `--version` prints
    /// or a package's version with its epoch.
    pub fn find_in(text: &str) -> Option<Version> {
        text.split(|c: char| !c.is_ascii_digit() && c != '.')
            .find_map(|word| {
                let mut parts = word.split('.');
                let major = parts.next()?.parse().ok()?;
                let minor = parts.next()?.parse().ok()?;
                Some(Version(major, minor))
            })
    }
}

/// How the presence of a need is seen.
#[derive(Debug)]
enum Seen {
    /// One of these commands is in PATH.
    Command(&'static [&'static str]),
    /// One of these commands is in PATH and at least this new.
    CommandSince(&'static [&'static str], Version),
    /// pkg-config knows this library.
    PkgConfig(&'static str),
    /// One of these files exists.
    File(&'static [&'static str]),
    /// A library whose file name starts so is where loaders look.
    Library(&'static str),
}

/// One row of the table.
#[derive(Debug)]
pub struct Need {
    /// What a person calls it.
    pub name: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
    purposes: &'static [Purpose],
    seen: Seen,
}

impl Need {
    /// The lowest version that will do, if it matters.
    pub fn min_version(&self) -> Option<Version> {
        match self.seen {
            Seen::CommandSince(_, min) => Some(min),
            _ => None,
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match self.min_version() {
            Some(min) => write!(f, " >= {min}"),
            None => Ok(()),
        }
    }
}

/// The compilers that can build the BPF half, best first: one version for
/// everybody, then whatever is new enough.
pub const CLANGS: &[&str] = &[
    "clang-19", "clang", "clang-20", "clang-21", "clang-22", "clang-18",
];

/// The formatters, best first: another version may format differently.
pub const CLANG_FORMATS: &[&str] = &["clang-format-19", "clang-format"];

/// The first version whose BPF backend has what libbpf's macros ask for.
const CLANG_MIN: Version = Version(18, 0);

/// The first version that shares an instruction budget fairly among virtual CPUs.
const QEMU_MIN: Version = Version(8, 1);

/// What `meson.build` asks for.
const MESON_MIN: Version = Version(1, 0);

/// Everything the commands need.
pub const NEEDS: &[Need] = &[
    Need {
        name: "a C compiler",
        package: "gcc",
        purposes: &[Purpose::Build, Purpose::Kernel],
        seen: Seen::Command(&["cc"]),
    },
    Need {
        name: "the C library's headers",
        package: "libc6-dev",
        purposes: &[Purpose::Build, Purpose::Kernel],
        seen: Seen::File(&["/usr/include/stdio.h"]),
    },
    Need {
        name: "make",
        package: "make",
        purposes: &[Purpose::Build, Purpose::Kernel],
        seen: Seen::Command(&["make"]),
    },
    Need {
        name: "pkg-config",
        package: "pkg-config",
        purposes: &[Purpose::Build, Purpose::Kernel],
        seen: Seen::Command(&["pkg-config"]),
    },
    Need {
        name: "libelf's headers",
        package: "libelf-dev",
        purposes: &[Purpose::Build, Purpose::Kernel],
        seen: Seen::PkgConfig("libelf"),
    },
    Need {
        name: "zlib's headers",
        package: "zlib1g-dev",
        purposes: &[Purpose::Build, Purpose::Kernel],
        seen: Seen::PkgConfig("zlib"),
    },
    Need {
        name: "clang",
        package: "clang-19",
        purposes: &[Purpose::Build],
        seen: Seen::CommandSince(CLANGS, CLANG_MIN),
    },
    Need {
        name: "libclang",
        package: "libclang1-19",
        purposes: &[Purpose::Build],
        seen: Seen::Library("libclang"),
    },
    Need {
        name: "clang-format",
        package: "clang-format-19",
        purposes: &[Purpose::Format],
        seen: Seen::CommandSince(CLANG_FORMATS, CLANG_MIN),
    },
    Need {
        name: "QEMU",
        package: "qemu-system-x86",
        purposes: &[Purpose::Guest],
        seen: Seen::CommandSince(&["qemu-system-x86_64"], QEMU_MIN),
    },
    Need {
        name: "busybox",
        package: "busybox-static",
        purposes: &[Purpose::Guest],
        seen: Seen::Command(&["busybox"]),
    },
    Need {
        name: "stress-ng",
        package: "stress-ng",
        purposes: &[Purpose::Workload],
        seen: Seen::Command(&["stress-ng"]),
    },
    Need {
        name: "cyclictest",
        package: "rt-tests",
        purposes: &[Purpose::Workload],
        seen: Seen::Command(&["cyclictest"]),
    },
    Need {
        name: "tcc",
        package: "tcc",
        purposes: &[Purpose::Workload],
        seen: Seen::Command(&["tcc"]),
    },
    Need {
        name: "PipeWire",
        package: "pipewire",
        purposes: &[Purpose::Desktop],
        seen: Seen::Command(&["pw-profiler"]),
    },
    Need {
        name: "Weston",
        package: "weston",
        purposes: &[Purpose::Desktop],
        seen: Seen::Command(&["weston-presentation-shm"]),
    },
    Need {
        name: "rt-app",
        package: "rt-app",
        purposes: &[Purpose::Desktop],
        seen: Seen::Command(&["rt-app"]),
    },
    Need {
        name: "dbus-daemon",
        package: "dbus-daemon",
        purposes: &[Purpose::Loader],
        seen: Seen::Command(&["dbus-daemon"]),
    },
    Need {
        name: "dbus-send",
        package: "dbus-bin",
        purposes: &[Purpose::Loader],
        seen: Seen::Command(&["dbus-send"]),
    },
    Need {
        name: "the system bus's configuration",
        package: "dbus-system-bus-common",
        purposes: &[Purpose::Loader],
        seen: Seen::File(&["/usr/share/dbus-1/system.conf"]),
    },
    Need {
        name: "polkitd",
        package: "polkitd",
        purposes: &[Purpose::Loader],
        seen: Seen::File(&["/usr/lib/polkit-1/polkitd"]),
    },
    Need {
        name: "flex",
        package: "flex",
        purposes: &[Purpose::Kernel],
        seen: Seen::Command(&["flex"]),
    },
    Need {
        name: "bison",
        package: "bison",
        purposes: &[Purpose::Kernel],
        seen: Seen::Command(&["bison"]),
    },
    Need {
        name: "bc",
        package: "bc",
        purposes: &[Purpose::Kernel],
        seen: Seen::Command(&["bc"]),
    },
    Need {
        name: "pahole",
        package: "dwarves",
        purposes: &[Purpose::Kernel],
        seen: Seen::Command(&["pahole"]),
    },
    Need {
        name: "Debian's tools for packages",
        package: "dpkg-dev",
        purposes: &[Purpose::Debian],
        seen: Seen::Command(&["dpkg-shlibdeps"]),
    },
    Need {
        name: "meson",
        package: "meson",
        purposes: &[Purpose::Meson],
        seen: Seen::CommandSince(&["meson"], MESON_MIN),
    },
    Need {
        name: "libseccomp's headers",
        package: "libseccomp-dev",
        purposes: &[Purpose::Peers],
        seen: Seen::PkgConfig("libseccomp"),
    },
    Need {
        name: "xz",
        package: "xz-utils",
        purposes: &[Purpose::Kernel, Purpose::Workload],
        seen: Seen::Command(&["xz"]),
    },
];

/// Where a machine keeps commands and libraries.
#[derive(Debug)]
pub struct Machine {
    path: Vec<PathBuf>,
    library_dirs: Vec<PathBuf>,
}

impl Machine {
    /// This machine: PATH, and the directories in which libclang is looked for.
    pub fn current() -> Machine {
        let path = env::var_os("PATH").unwrap_or_default();
        Machine {
            path: env::split_paths(&path).collect(),
            library_dirs: library_dirs(Path::new("/usr")),
        }
    }

    /// The needs of `purposes` that are not met here.
    pub fn missing(&self, purposes: &[Purpose]) -> Vec<&'static Need> {
        NEEDS
            .iter()
            .filter(|need| {
                need.purposes
                    .iter()
                    .any(|purpose| purposes.contains(purpose))
            })
            .filter(|need| !self.has(&need.seen))
            .collect()
    }

    /// The first of `names` that is in PATH and, where `min` is given, new enough.
    pub fn find_command(&self, names: &[&str], min: Option<Version>) -> Option<PathBuf> {
        names.iter().find_map(|name| {
            let command = self
                .path
                .iter()
                .map(|dir| dir.join(name))
                .find(|p| is_executable(p))?;
            let Some(min) = min else { return Some(command) };
            (command_version(&command)? >= min).then_some(command)
        })
    }

    /// The compiler for the BPF half.
    pub fn find_clang(&self) -> Option<PathBuf> {
        self.find_command(CLANGS, Some(CLANG_MIN))
    }

    /// The formatter for C.
    pub fn find_clang_format(&self) -> Option<PathBuf> {
        self.find_command(CLANG_FORMATS, Some(CLANG_MIN))
    }

    fn has(&self, seen: &Seen) -> bool {
        match seen {
            Seen::Command(names) => self.find_command(names, None).is_some(),
            Seen::CommandSince(names, min) => self.find_command(names, Some(*min)).is_some(),
            Seen::PkgConfig(library) => self.pkg_config_knows(library),
            Seen::File(files) => files.iter().any(|file| Path::new(file).exists()),
            Seen::Library(prefix) => self.library_dirs.iter().any(|dir| has_library(dir, prefix)),
        }
    }

    fn pkg_config_knows(&self, library: &str) -> bool {
        let Some(pkg_config) = self.find_command(&["pkg-config"], None) else {
            return false;
        };
        Command::new(pkg_config)
            .args(["--exists", library])
            .stdin(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }
}

/// Whether `path` is a file that may be run.
fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// What `command --version` says.
fn command_version(command: &Path) -> Option<Version> {
    let output = Command::new(command)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    Version::find_in(&String::from_utf8_lossy(&output.stdout))
}

/// `usr`'s library directories, and LLVM's own ones below them.
fn library_dirs(usr: &Path) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = env::var_os("LIBCLANG_PATH")
        .map(PathBuf::from)
        .into_iter()
        .collect();
    for lib in ["lib", "lib64", "local/lib"] {
        let lib = usr.join(lib);
        let below = fs::read_dir(&lib)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        for dir in below.filter(|path| path.is_dir()) {
            dirs.push(dir.join("lib"));
            dirs.push(dir);
        }
        dirs.push(lib);
    }
    dirs
}

/// Whether `dir` holds `prefix.so*` or `prefix-VERSION.so*`.
fn has_library(dir: &Path, prefix: &str) -> bool {
    let Ok(entries) = fs::read_dir(dir) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(prefix)) else {
            return false;
        };
        let kind = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
        kind == "so" || kind.starts_with("so.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that has only the given commands, each printing its text as its version.
    fn machine_with(commands: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, version) in commands {
            let path = dir.path().join(name);
            // Written by a child: what another test forks meanwhile would inherit
            // the open file, and nothing that is open for writing can be run.
            let made = Command::new("sh")
                .args([
                    "-c",
                    "printf '#!/bin/sh\\necho \"%s\"\\n' \"$2\" >\"$1\" && chmod 755 \"$1\"",
                ])
                .arg("sh")
                .arg(&path)
                .arg(version)
                .status()
                .expect("sh");
            assert!(made.success(), "{} was not made", path.display());
        }
        let machine = Machine {
            path: vec![dir.path().to_path_buf()],
            library_dirs: vec![dir.path().to_path_buf()],
        };
        (dir, machine)
    }

    fn missing_packages(machine: &Machine, purpose: Purpose) -> Vec<&'static str> {
        machine
            .missing(&[purpose])
            .iter()
            .map(|need| need.package)
            .collect()
    }

    #[test]
    fn versions_are_read_from_what_tools_print() {
        let debian_clang = "Debian clang version 19.1.7 (3~deb12u1)";
        assert_eq!(Version::find_in(debian_clang), Some(Version(19, 1)));
        assert_eq!(
            Version::find_in("QEMU emulator version 7.2.15 (Debian 1:7.2)"),
            Some(Version(7, 2))
        );
        assert_eq!(
            Version::find_in("1:10.0.2+ds-2+deb13u1~bpo12+1"),
            Some(Version(10, 0))
        );
        assert_eq!(Version::find_in("no digits"), None);
    }

    #[test]
    fn an_empty_machine_misses_all_of_a_purpose_and_nothing_else() {
        let (_dir, machine) = machine_with(&[]);
        assert_eq!(
            missing_packages(&machine, Purpose::Guest),
            ["qemu-system-x86", "busybox-static"]
        );
        assert_eq!(
            missing_packages(&machine, Purpose::Workload),
            ["stress-ng", "rt-tests", "tcc", "xz-utils"]
        );
        assert_eq!(
            missing_packages(&machine, Purpose::Desktop),
            ["pipewire", "weston", "rt-app"]
        );
        assert!(missing_packages(&machine, Purpose::Build).contains(&"clang-19"));
        assert!(!missing_packages(&machine, Purpose::Build).contains(&"qemu-system-x86"));
    }

    #[test]
    fn a_tool_that_is_too_old_counts_as_missing() {
        let old = ("qemu-system-x86_64", "QEMU emulator version 7.2.15");
        let (_dir, machine) = machine_with(&[old, ("busybox", "")]);
        assert_eq!(
            missing_packages(&machine, Purpose::Guest),
            ["qemu-system-x86"]
        );
        let new = ("qemu-system-x86_64", "QEMU emulator version 10.0.2");
        let (_dir, machine) = machine_with(&[new, ("busybox", "")]);
        assert!(missing_packages(&machine, Purpose::Guest).is_empty());
    }

    #[test]
    fn clang_19_is_preferred_and_another_new_one_will_do() {
        let (dir, machine) = machine_with(&[
            ("clang", "clang version 20.1.0"),
            ("clang-19", "clang version 19.1.7"),
        ]);
        assert_eq!(machine.find_clang(), Some(dir.path().join("clang-19")));
        let (dir, machine) = machine_with(&[("clang", "clang version 20.1.0")]);
        assert_eq!(machine.find_clang(), Some(dir.path().join("clang")));
        let (_dir, machine) = machine_with(&[("clang", "clang version 14.0.6")]);
        assert_eq!(machine.find_clang(), None);
    }

    #[test]
    fn a_library_is_known_by_its_file_but_not_by_a_namesake() {
        let dir = tempfile::tempdir().expect("a directory");
        let has = |file: &str| {
            let path = dir.path().join(file);
            fs::write(&path, "").expect("a file");
            let found = has_library(dir.path(), "libclang");
            fs::remove_file(&path).expect("removal");
            found
        };
        assert!(has("libclang.so"));
        assert!(has("libclang-19.so.1"));
        assert!(has("libclang-19.1.7.so"));
        assert!(!has("libclang-cpp.so.19.1"));
        assert!(!has("libclang.a"));
    }

    #[test]
    fn every_need_has_a_purpose_and_a_package_of_its_own() {
        for (index, need) in NEEDS.iter().enumerate() {
            assert!(!need.purposes.is_empty(), "{need} serves nothing");
            let is_repeated = NEEDS
                .iter()
                .skip(index + 1)
                .any(|other| other.package == need.package);
            assert!(!is_repeated, "{} is listed twice", need.package);
        }
    }
}
