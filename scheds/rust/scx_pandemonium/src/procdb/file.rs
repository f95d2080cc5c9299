//! The file of the memory: where it is, what is in it, how it is read and written.
//!
//! A line with the name, the version and a checksum, then JSON, so that it can be
//! looked at. The entries are sorted: the same memory gives the same bytes.
//!
//! It is written to a new file that then takes the name of the old one, so there
//! is always a whole one, and a link in its place is replaced, never followed. A
//! file that cannot be used is put aside, not overwritten. One that was named on the
//! command line is that only if it begins as ours: it may be anything.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use log::{debug, warn};
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::{Entry, Key, NR_ENTRIES_MAX, Procdb};
use crate::home;

/// What the first line begins with, and the version behind it.
const MAGIC: &str = "scx_pandemonium procdb";
const VERSION: u32 = 1;

/// Bytes of a file: twice what the most entries with the longest names of usual
/// programs take.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Bytes of the first line.
const HEADER_LEN_MAX: usize = 64;

/// Where it is kept if the environment names no place.
const SYSTEM_DIR: &str = "/var/cache/pandemonium";

/// Below the directory of caches of a user.
const USER_DIR: &str = "pandemonium";

const FILE_NAME: &str = "procdb";

/// What a file that cannot be used is called: the first of these that is free, or
/// the last.
const ASIDE: &[&str] = &["bad", "bad.1", "bad.2", "bad.3"];

/// One entry in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: Key,
    entry: Entry,
}

/// The file that is used unless one is named: of the service's cache directory,
/// of the user's, or of the machine's.
pub fn usual_path() -> PathBuf {
    path_by(|name| env::var_os(name))
}

/// The same, by the environment that `variable` gives.
pub(super) fn path_by(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let of_service = || {
        let value = variable("CACHE_DIRECTORY")?;
        // Of several directories of a service the first.
        let first = value.as_bytes().split(|byte| *byte == b':').next()?;
        home::directory(Some(OsStr::from_bytes(first).to_owned()))
    };
    let of_user = || {
        let cache = home::directory(variable("XDG_CACHE_HOME"));
        let cache = cache.or_else(|| Some(home::directory(variable("HOME"))?.join(".cache")));
        Some(cache?.join(USER_DIR))
    };
    let dir = of_service().or_else(of_user);
    dir.unwrap_or_else(|| PathBuf::from(SYSTEM_DIR))
        .join(FILE_NAME)
}

/// The bytes of a file with this memory.
pub fn encode(procdb: &Procdb) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    // One entry a line.
    for (key, entry) in &procdb.entries {
        let (key, entry) = (key.clone(), entry.clone());
        serde_json::to_writer(&mut body, &Line { key, entry }).context("writing an entry")?;
        body.push(b'\n');
    }
    let mut bytes = format!("{MAGIC} {VERSION} {:08x}\n", crc32fast::hash(&body)).into_bytes();
    bytes.extend(body);
    Ok(bytes)
}

/// The memory in the bytes of a file.
///
/// # Errors
///
/// If the bytes are not those of such a file, whole and of this version.
pub fn decode(bytes: &[u8]) -> Result<Procdb> {
    let mut halves = bytes.splitn(2, |byte| *byte == b'\n');
    let header = halves.next().unwrap_or_default();
    let body = halves.next().context("it is not a memory of programs")?;
    ensure!(
        header.len() <= HEADER_LEN_MAX,
        "it is not a memory of programs"
    );
    let header = String::from_utf8_lossy(header);
    let rest = header.strip_prefix(MAGIC);
    let rest = rest.and_then(|rest| rest.strip_prefix(' '));
    let (version, checksum) = rest
        .and_then(|rest| rest.split_once(' '))
        .context("it is not a memory of programs")?;
    ensure!(
        version == VERSION.to_string(),
        "it is of version {version}, this program writes {VERSION}"
    );
    ensure!(
        checksum == format!("{:08x}", crc32fast::hash(body)),
        "it is damaged: its checksum differs"
    );
    let mut entries = BTreeMap::new();
    for line in body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let Line { key, entry } = serde_json::from_slice(line).context("it has a wrong entry")?;
        ensure!(
            key.is_sound() && entry.profile.is_sound(),
            "it has an entry that cannot be"
        );
        entries.insert(key, entry);
        ensure!(entries.len() <= NR_ENTRIES_MAX, "it has too many entries");
    }
    Ok(Procdb { entries })
}

/// Read the memory at `path`; `None` if there is none yet.
///
/// # Errors
///
/// If there is something that is no such file, or may not be read.
pub fn read(path: &Path) -> Result<Option<Procdb>> {
    let file = match open(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) if path.is_symlink() => bail!("it is a symbolic link"),
        opened => opened?,
    };
    ensure!(file.metadata()?.is_file(), "it is not a regular file");
    let mut bytes = Vec::new();
    file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() as u64 <= FILE_LEN_MAX,
        "it is larger than {} KiB",
        FILE_LEN_MAX >> 10
    );
    decode(&bytes).map(Some)
}

/// Read the memory at `path`, or begin a new one. What cannot be used is put
/// aside, with one warning.
pub fn load(path: &Path) -> Procdb {
    match read(path) {
        Ok(procdb) => procdb.unwrap_or_default(),
        Err(err) => {
            let what = match put_aside(path) {
                Ok(aside) => format!("kept as {}", aside.display()),
                Err(err) => format!("cannot be put aside: {err}"),
            };
            let path = path.display();
            warn!("cannot use the memory of programs {path}: {err:#}; {what}, a new one begins");
            Procdb::default()
        }
    }
}

/// As [`load`] of the file that `--procdb` names, which may be anything:
/// what is not ours, damaged or not, stays as it is, and nothing is to be saved
/// there.
pub fn load_named(path: &Path) -> (Procdb, Option<PathBuf>) {
    match read(path) {
        Err(err) if !begins_as_ours(path) => {
            let path = path.display();
            warn!(
                "cannot use the memory of programs {path}: {err:#}; it is left alone and nothing \
                 is saved: give --procdb the name of a file of its own"
            );
            (Procdb::default(), None)
        }
        _ => (load(path), Some(path.to_owned())),
    }
}

/// Whether a regular file is at `path` that begins as ours, as far as it goes.
fn begins_as_ours(path: &Path) -> bool {
    let mut bytes = Vec::new();
    let file = open(path).and_then(|file| Ok(file.metadata()?.is_file().then_some(file)));
    let Ok(Some(file)) = file else {
        return false;
    };
    let read = file.take(MAGIC.len() as u64).read_to_end(&mut bytes);
    read.is_ok() && MAGIC.as_bytes().starts_with(&bytes)
}

/// Open what is at `path` itself, without a wait.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        // A link may point anywhere, and a pipe would be waited for.
        .custom_flags(O_NOFOLLOW | O_NONBLOCK)
        .open(path)
}

/// Give what is at `path` another name.
fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let names = ASIDE.iter().map(|ending| {
        let mut name = path.as_os_str().to_owned();
        name.push(".");
        name.push(ending);
        PathBuf::from(name)
    });
    let names: Vec<PathBuf> = names.collect();
    let free = names.iter().find(|name| name.symlink_metadata().is_err());
    let aside = free.or(names.last()).ok_or(io::ErrorKind::NotFound)?;
    fs::rename(path, aside)?;
    Ok(aside.clone())
}

/// Write the memory to `path`, which is replaced as a whole.
///
/// # Errors
///
/// If its directory cannot be made or written to, or belongs to another user.
pub fn save(procdb: &Procdb, path: &Path) -> Result<()> {
    let dir = directory(path)?;
    let bytes = encode(procdb)?;
    let mut file =
        NamedTempFile::new_in(dir).with_context(|| format!("writing in {}", dir.display()))?;
    file.write_all(&bytes).context("writing it")?;
    sync(file.as_file())?;
    file.persist(path)
        .map_err(|err| anyhow!(err.error))
        .context("replacing it")?;
    File::open(dir)
        .map_err(Into::into)
        .and_then(|dir| sync(&dir))
}

/// The directory of `path`, made if it is missing.
fn directory(path: &Path) -> Result<&Path> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = dir.unwrap_or(Path::new("."));
    let mut builder = DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o755)
        .create(dir)
        .with_context(|| format!("making {}", dir.display()))?;
    // Where another user may replace files, that user would be believed; and a link
    // of another user may lead anywhere.
    for metadata in [fs::metadata(dir)?, fs::symlink_metadata(dir)?] {
        let owner = metadata.uid();
        ensure!(
            owner == geteuid().as_raw() || owner == 0,
            "{} belongs to another user",
            dir.display()
        );
    }
    Ok(dir)
}

/// Wait until `file` is on the disk. A service may be forbidden to; then the
/// kernel writes it when it sees fit.
fn sync(file: &File) -> Result<()> {
    match file.sync_all() {
        Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {
            debug!("the memory of programs is not synced: {err}");
            Ok(())
        }
        result => result.context("syncing it"),
    }
}
