//! Enough of C to look at our own sources: no comments, words, writes, bodies.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Files of the BPF half, and which room they belong to.
pub struct Room {
    /// What comes before `.bpf.c` in the names of its files.
    pub name: String,
    /// Both of them without comments.
    pub code: String,
    /// Its header without comments; empty if it has none.
    pub header: String,
}

/// A file as it is.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// A file below `src`.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name)
}

/// All C files of the BPF half, the policy headers among them.
pub fn files() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for dir in [source("bpf"), source("bpf/policy")] {
        for entry in fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))? {
            let path = entry?.path();
            if path.is_file() {
                files.push(path);
            }
        }
    }
    files.sort();
    ensure!(files.len() > 20, "only {} files were found", files.len());
    Ok(files)
}

/// All rooms, `main` among them.
pub fn rooms() -> Result<Vec<Room>> {
    let mut rooms = Vec::new();
    for path in files()? {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = file.strip_suffix(".bpf.c") else {
            continue;
        };
        let body = read(&path)?;
        let header_path = path.with_file_name(format!("{name}.bpf.h"));
        let header = match header_path.exists() {
            true => read(&header_path)?,
            false => String::new(),
        };
        rooms.push(Room {
            name: name.to_owned(),
            code: without_comments(&header) + &without_comments(&body),
            header: without_comments(&header),
        });
    }
    ensure!(rooms.len() > 5, "only {} rooms were found", rooms.len());
    Ok(rooms)
}

/// C without its comments.
pub fn without_comments(code: &str) -> String {
    let mut rest = code;
    let mut kept = String::new();
    while let Some((before, comment)) = rest.split_once("/*") {
        kept += before;
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    kept + rest
}

/// What stands between the braces of `what`, such as `struct knobs`, in `code`.
pub fn body<'a>(code: &'a str, what: &str) -> Result<&'a str> {
    let start = code.find(&format!("{what} {{"));
    let (_, rest) = code
        .split_at(start.with_context(|| format!("no {what}"))?)
        .1
        .split_once('{')
        .with_context(|| format!("{what} has no body"))?;
    let (body, _) = rest.split_once('}').context("a body without an end")?;
    Ok(body)
}

/// Types and names of the fields of a struct.
pub fn fields(code: &str, what: &str) -> Result<Vec<(String, String)>> {
    let fields = body(code, what)?.split(';').filter_map(|field| {
        let is_type = |word: &&str| !["struct", "const", "__kptr"].contains(word);
        let mut words = field.split_whitespace().filter(is_type);
        let (kind, name) = (words.next()?, words.next()?);
        let name = name.trim_start_matches('*').split('[').next()?;
        Some((kind.to_owned(), name.to_owned()))
    });
    Ok(fields.collect())
}

/// Is this character part of a name?
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Texts before and behind each place where `word` stands alone.
pub fn places<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let places = code.match_indices(word);
    places.filter_map(move |(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        let is_alone = !before.ends_with(is_word) && !after.starts_with(is_word);
        is_alone.then_some((before, after))
    })
}

/// Whether the place between `before` and `after`, a field behind `->`, is
/// written, or its address given away.
pub fn is_write(before: &str, after: &str) -> bool {
    let Some(before) = before.strip_suffix("->") else {
        return false;
    };
    // The pointer, and what stands before that.
    let before = before.trim_end_matches(is_word).trim_end();
    let mut after = after;
    if after.starts_with('[') {
        after = after.split_once(']').map_or("", |(_, rest)| rest);
    }
    let after = after.trim_start();
    let is_assigned = after.starts_with('=') && !after.starts_with("==");
    let ops = ["++", "--", "+=", "-=", "|=", "&="];
    let is_reference = before.ends_with('&') && !before.ends_with("&&");
    is_assigned
        || ops.iter().any(|op| after.starts_with(op))
        || ops[..2].iter().any(|op| before.ends_with(op))
        || before.ends_with("WRITE_ONCE(")
        || is_reference
}

/// Whether `code` writes `field` of something that a pointer points to.
pub fn is_written(code: &str, field: &str) -> bool {
    places(code, field).any(|(before, after)| is_write(before, after))
}

#[test]
fn a_write_is_told_from_a_read() {
    for write in [
        "cpuc->x = 1;",
        "cpuc->x++;",
        "--cpuc->x;",
        "cpuc->x[i] += 2;",
        "WRITE_ONCE(cpuc->x, 3);",
        "__sync_fetch_and_add(&cpuc->x, 4);",
    ] {
        assert!(is_written(write, "x"), "{write}");
    }
    for read in [
        "y = cpuc->x;",
        "cpuc->x == 1",
        "READ_ONCE(cpuc->x)",
        "a && cpuc->x",
        "cpuc->xy = 1",
        "x = 1",
    ] {
        assert!(!is_written(read, "x"), "{read}");
    }
}
