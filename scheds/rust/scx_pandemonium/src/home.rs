//! Where the environment says that a user keeps things.
//!
//! A service need not have a user: init systems other than systemd start it with
//! `HOME=/`, with an empty HOME or with none. Nobody keeps anything in the root
//! directory, so it counts as none, as a relative path does by the XDG Base Directory
//! Specification.
//!
//! Not here: what is kept in such a directory (procdb, rules).

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// The directory that a variable of the environment names, if it can be a user's.
pub fn directory(value: Option<OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| is_usable(path))
}

/// Whether `path` can be the directory of a user: absolute, and not the root directory
/// by any of its spellings.
pub fn is_usable(path: &Path) -> bool {
    path.is_absolute() && depth(path) > 0
}

/// How many directories below the root directory `path` is, by its words alone.
fn depth(path: &Path) -> usize {
    path.components().fold(0, |depth, part| match part {
        Component::Normal(_) => depth + 1,
        Component::ParentDir => depth.saturating_sub(1),
        _ => depth,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_directory_by_any_spelling_is_nobodys() {
        for (value, is_usable) in [
            ("/root", true),
            ("/home/one/", true),
            ("/home/../one", true),
            ("/", false),
            ("//", false),
            ("/.", false),
            ("/./", false),
            ("/..", false),
            ("/home/..", false),
            ("", false),
            ("home/one", false),
            ("~", false),
        ] {
            let found = directory(Some(OsString::from(value)));
            assert_eq!(found.is_some(), is_usable, "{value:?}");
        }
        assert_eq!(directory(None), None);
    }
}
