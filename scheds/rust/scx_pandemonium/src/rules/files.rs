//! The directories of rules, and the files in them that are worth reading.
//!
//! A file may be anything: it is read only if it is a regular one of a bounded
//! size, be it through a link, and taken for text only if it is UTF-8.
//!
//! Not here: what a file says (toml_file, ananicy).

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};
use walkdir::{DirEntry, WalkDir};

use super::Problem;
use crate::home;

/// Where ananicy and its rules are installed.
const ANANICY_DIR: &str = "/etc/ananicy.d";

/// Ours of the distribution.
const DISTRIBUTION_DIR: &str = "/usr/lib/scx_pandemonium/rules.d";

/// Ours of the machine's owner.
const MACHINE_DIR: &str = "/etc/scx_pandemonium/rules.d";

/// Ours below the user's directory of settings.
const USER_DIR: &str = "scx_pandemonium/rules.d";

/// Bytes of a file: twenty times the largest that a distribution installs.
const FILE_LEN_MAX: u64 = 4 << 20;

/// What some editors begin a file with.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Levels below a directory of rules.
const DEPTH_MAX: usize = 8;

/// How a file is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Toml,
    Ananicy,
}

/// A directory of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dir {
    pub path: PathBuf,
    /// Whether rules of ours in it are those of the machine's owner or its user, and
    /// not of the distribution.
    pub is_own: bool,
    /// The home of the user whose rules are there, if they are a user's.
    pub home: Option<PathBuf>,
}

/// A file with rules.
#[derive(Debug)]
pub struct Found {
    pub path: PathBuf,
    pub kind: Kind,
    /// Those of its directory.
    pub is_own: bool,
    pub home: Option<PathBuf>,
}

/// The directories that are read unless that is turned off, the one that wins
/// last. They need not exist.
pub fn usual_directories() -> Vec<Dir> {
    let system = [ANANICY_DIR, DISTRIBUTION_DIR, MACHINE_DIR].map(|path| Dir {
        path: PathBuf::from(path),
        is_own: path == MACHINE_DIR,
        home: None,
    });
    let user = settings_of(|name| env::var_os(name)).map(|dir| dir.join(USER_DIR));
    system.into_iter().chain(user.map(of_user)).collect()
}

/// A directory of the user who started this program, be it by a program that makes it
/// root's.
pub fn of_user(path: PathBuf) -> Dir {
    let home = home_of(&|name: &str| env::var_os(name));
    // The kernel has the paths of programs without links.
    let home = home.map(|home| home.canonicalize().unwrap_or(home));
    let is_own = true;
    Dir { path, is_own, home }
}

/// The home of that user, by the environment that `variable` gives.
fn home_of(variable: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    match user_behind(variable) {
        Some(user) => Some(user.dir).filter(|home| home::is_usable(home)),
        None => home::directory(variable("HOME")),
    }
}

/// The directory of settings of that user.
fn settings_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(dir) = home::directory(variable("XDG_CONFIG_HOME")) {
        return Some(dir);
    }
    home_of(&variable).map(|home| home.join(".config"))
}

/// The user who started this program by sudo, pkexec or doas.
fn user_behind(variable: &impl Fn(&str) -> Option<OsString>) -> Option<User> {
    let by_uid = |name: &&str| {
        let uid = variable(name)?.to_str()?.parse().ok()?;
        User::from_uid(Uid::from_raw(uid)).ok().flatten()
    };
    // doas tells the name alone.
    let by_name = || {
        User::from_name(variable("DOAS_USER")?.to_str()?)
            .ok()
            .flatten()
    };
    ["SUDO_UID", "PKEXEC_UID"]
        .iter()
        .find_map(by_uid)
        .or_else(by_name)
}

/// How a file of this name is read.
fn kind(path: &Path) -> Option<Kind> {
    match path.extension()?.to_str()? {
        "toml" => Some(Kind::Toml),
        "rules" | "types" => Some(Kind::Ananicy),
        _ => None,
    }
}

/// The files with rules in `dir` and below, by name.
pub fn find(dir: &Dir, problems: &mut Vec<Problem>) -> Vec<Found> {
    let mut found = Vec::new();
    if !dir.path.exists() {
        return found;
    }
    let mut walk = WalkDir::new(&dir.path)
        .follow_links(true)
        .max_depth(DEPTH_MAX)
        .sort_by_file_name()
        .into_iter();
    while let Some(entry) = walk.next() {
        let file = entry.map_err(|err| describe(&dir.path, &err));
        match file.and_then(look) {
            Ok(Some((path, kind))) => found.push(Found {
                path,
                kind,
                is_own: dir.is_own,
                home: dir.home.clone(),
            }),
            Ok(None) => {}
            Err((problem, is_directory)) => {
                problems.push(problem);
                if is_directory {
                    walk.skip_current_dir();
                }
            }
        }
    }
    found
}

/// What the walk says no with, and that there is no directory to skip.
fn describe(dir: &Path, err: &walkdir::Error) -> (Problem, bool) {
    let what = match (err.loop_ancestor(), err.io_error()) {
        (Some(_), _) => "a link to a directory above it".to_owned(),
        (None, Some(err)) => err.to_string(),
        (None, None) => "cannot be read".to_owned(),
    };
    let path = err.path().unwrap_or(dir).to_owned();
    let line = None;
    (Problem { path, line, what }, false)
}

/// The file of an entry, if it has rules by its name; a directory of such a name
/// is a problem.
fn look(entry: DirEntry) -> Result<Option<(PathBuf, Kind)>, (Problem, bool)> {
    let Some(kind) = kind(entry.path()) else {
        return Ok(None);
    };
    let path = entry.path().to_owned();
    if !entry.file_type().is_dir() {
        return Ok(Some((path, kind)));
    }
    if entry.depth() == 0 {
        return Ok(None);
    }
    let problem = Problem {
        path,
        line: None,
        what: "is a directory, not a file".to_owned(),
    };
    Err((problem, true))
}

/// The text of a file, without a byte order mark, or why there is none.
pub fn read(path: &Path) -> Result<String, String> {
    let metadata = fs::metadata(path).map_err(|err| err.to_string())?;
    // To open a pipe or a device may wait for ever or do something.
    if !metadata.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes))
        .map_err(|err| err.to_string())?;
    if bytes.len() as u64 > FILE_LEN_MAX {
        return Err(format!("is larger than {} MiB", FILE_LEN_MAX >> 20));
    }
    let text = String::from_utf8(bytes).map_err(|err| {
        let at = err.utf8_error().valid_up_to();
        format!("is not text: byte {at} is no UTF-8")
    })?;
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text);
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_are_those_of_the_user_who_started_the_program() {
        let settings = |variables: &[(&str, &str)]| {
            settings_of(|name| {
                let found = variables.iter().find(|(other, _)| *other == name);
                found.map(|(_, value)| OsString::from(value))
            })
        };
        let dir = |path: &str| Some(PathBuf::from(path));
        let root = User::from_uid(Uid::from_raw(0)).unwrap().unwrap();
        let of_root = Some(root.dir.join(".config"));
        assert_eq!(settings(&[("HOME", "/home/one")]), dir("/home/one/.config"));
        assert_eq!(
            settings(&[("HOME", "/home/one"), ("SUDO_UID", "0")]),
            of_root
        );
        assert_eq!(
            settings(&[("HOME", "/home/one"), ("SUDO_UID", "nobody")]),
            dir("/home/one/.config")
        );
        assert_eq!(
            settings(&[("XDG_CONFIG_HOME", "/etc/mine"), ("HOME", "/home/one")]),
            dir("/etc/mine")
        );
        for none in ["", "mine"] {
            assert_eq!(
                settings(&[("XDG_CONFIG_HOME", none), ("HOME", "/home/one")]),
                dir("/home/one/.config")
            );
        }
        for (variable, root) in [("PKEXEC_UID", "0"), ("DOAS_USER", "root")] {
            let variables = [("HOME", "/home/one"), (variable, root)];
            assert_eq!(settings(&variables), of_root, "{variable}");
            let unknown = [("HOME", "/home/one"), (variable, "no such user")];
            assert_eq!(settings(&unknown), dir("/home/one/.config"), "{variable}");
        }
        for none in ["here", "", "/", "//", "/."] {
            assert_eq!(settings(&[("HOME", none)]), None);
            assert_eq!(settings(&[("XDG_CONFIG_HOME", none), ("HOME", "/")]), None);
        }
        assert_eq!(settings(&[]), None);
    }
}
