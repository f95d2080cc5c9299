//! Patterns of rules that can never match, and what to write instead.
//!
//! A rule with one is read like any other, since another of its patterns may do;
//! what is said here is for the user who wrote it.
//!
//! The file system is looked at for a path that is a link, a directory or a script:
//! the kernel has the file behind the link, and the interpreter of the script.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use super::basename;
use super::pattern::Pattern;
use crate::bpf_intf::intf_consts_COMM_LEN;

/// Bytes of a file's name, by the kernel.
const NAME_LEN_MAX: usize = 255;

/// Bytes of a thread's name that the kernel keeps.
const COMM_LEN_MAX: usize = intf_consts_COMM_LEN as usize - 1;

/// Where the cgroups are mounted, which is no part of their paths.
const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// What a script begins with.
const SHEBANG: &[u8] = b"#!";

/// Why no program is called so.
pub fn name(pattern: &Pattern) -> Option<String> {
    let text = pattern.text();
    let is_path = text.starts_with(['/', '~'])
        || text.starts_with("./")
        || text.starts_with("../")
        || text.contains('\\')
        || has_drive(text)
        // Of what the kernel calls a thread, some names have a slash.
        || (text.contains('/') && text.len() > COMM_LEN_MAX);
    if is_path {
        let advice = match (basename(text), text.starts_with('/')) {
            (Some(last), true) => format!(
                "write name = {} or path = {pattern}",
                shown(last, pattern.is_prefix())
            ),
            (Some(last), false) => format!("write name = {}", shown(last, pattern.is_prefix())),
            (None, true) => format!("write path = {pattern}"),
            (None, false) => "write the names of the programs there".to_owned(),
        };
        return Some(never(
            "name",
            pattern,
            &format!("a name is what is behind the last separator; {advice}"),
        ));
    }
    if text.len() > NAME_LEN_MAX {
        let why = format!("no file has a name of more than {NAME_LEN_MAX} bytes");
        return Some(never("name", pattern, &why));
    }
    spaces("name", pattern)
}

/// Why no program has such a file.
pub fn path(pattern: &Pattern) -> Option<String> {
    let text = pattern.text();
    let never = |why: &str| Some(never("path", pattern, why));
    if let Some(advice) = spaces("path", pattern) {
        return Some(advice);
    }
    if has_drive(text) || (text.contains('\\') && !text.contains('/')) {
        return never(&match basename(text) {
            Some(last) => format!(
                "the file of what runs under Wine is Wine's; write name = {}",
                shown(last, pattern.is_prefix())
            ),
            None => "the file of what runs under Wine is Wine's; write names".to_owned(),
        });
    }
    if text.starts_with('~') {
        return never(
            "only ~/ is replaced, and only in rules of a user or of --rules; write the whole path",
        );
    }
    if !text.starts_with('/') {
        return never("a path begins with /, and no variable is replaced; write the whole path");
    }
    if !pattern.is_prefix() && text.ends_with('/') {
        return never(&format!(
            "it is a directory; write path = {}",
            shown(text, true)
        ));
    }
    // The last part of a prefix is the beginning of a name, such as a dot.
    let plain = match text.rsplit_once('/') {
        Some((dir, rest)) if pattern.is_prefix() => {
            format!("{}/{rest}", without_detours(dir).trim_end_matches('/'))
        }
        _ => without_detours(text),
    };
    if plain != text {
        let instead = shown(&plain, pattern.is_prefix());
        return never(&format!(
            "the kernel's paths are plain; write path = {instead}"
        ));
    }
    on_disk(pattern).and_then(|why| never(&why))
}

/// The same by what is there now.
fn on_disk(pattern: &Pattern) -> Option<String> {
    let text = pattern.text();
    let (dir, rest) = match pattern.is_prefix() {
        true => text.rsplit_once('/')?,
        false => (text, ""),
    };
    let real = match dir {
        "" => return None,
        dir => fs::canonicalize(dir).ok()?,
    };
    let real = real.to_str()?;
    if real != dir {
        let instead = match pattern.is_prefix() {
            true => shown(&format!("{real}/{rest}"), true),
            false => shown(real, false),
        };
        return Some(format!("{dir} is a link; write path = {instead}"));
    }
    if pattern.is_prefix() {
        return None;
    }
    if Path::new(text).is_dir() {
        let instead = shown(&format!("{text}/"), true);
        return Some(format!("it is a directory; write path = {instead}"));
    }
    is_script(Path::new(text)).then(|| {
        let name = basename(text).map_or("", comm);
        let instead = shown(name, false);
        format!("it is a script, whose file is its interpreter's; write name = {instead}")
    })
}

/// Why no cgroup has this path.
pub fn cgroup(path: &str) -> Option<String> {
    let never = |why: &str| Some(format!("cgroup = {path:?} never matches: {why}"));
    if path.trim() != path {
        return never(&format!("write cgroup = {:?}", path.trim()));
    }
    if let Some(below) = path.strip_prefix(CGROUP_ROOT)
        && (below.is_empty() || below.starts_with('/'))
    {
        return never(&match below.trim_end_matches('/') {
            "" => "all are below that".to_owned(),
            below => format!("it begins below {CGROUP_ROOT}; write cgroup = {below:?}"),
        });
    }
    let plain = without_detours(path);
    if plain != path {
        return never(&format!(
            "the kernel's paths are plain; write cgroup = {plain:?}"
        ));
    }
    None
}

/// A pattern with a space where none is to be expected.
fn spaces(key: &str, pattern: &Pattern) -> Option<String> {
    let text = pattern.text();
    let trimmed = match pattern.is_prefix() {
        true => text.trim_start(),
        false => text.trim(),
    };
    if trimmed == text {
        return None;
    }
    let instead = shown(trimmed, pattern.is_prefix());
    let why = format!("the space at its end counts; write {key} = {instead}");
    Some(never(key, pattern, &why))
}

fn never(key: &str, pattern: &Pattern, why: &str) -> String {
    format!("{key} = {pattern} never matches: {why}")
}

/// A pattern as it is written.
fn shown(text: &str, is_prefix: bool) -> String {
    let star = if is_prefix { "*" } else { "" };
    format!("{:?}", format!("{text}{star}"))
}

/// Whether it begins as a path of Windows.
fn has_drive(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.next() == Some(':')
        && matches!(chars.next(), Some('/' | '\\'))
}

/// An absolute path without `//`, `/./` and `/../`.
fn without_detours(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// What the kernel keeps of a name.
fn comm(name: &str) -> &str {
    let mut len = name.len().min(COMM_LEN_MAX);
    while !name.is_char_boundary(len) {
        len -= 1;
    }
    &name[..len]
}

fn is_script(path: &Path) -> bool {
    // To open a pipe or a device may wait for ever or do something.
    if !path.is_file() {
        return false;
    }
    let mut beginning = [0; SHEBANG.len()];
    File::open(path)
        .and_then(|mut file| file.read_exact(&mut beginning))
        .is_ok_and(|()| beginning == SHEBANG)
}
