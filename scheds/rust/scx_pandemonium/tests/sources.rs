// SPDX-License-Identifier: GPL-2.0
//! No knob without a reader, no counter without a writer and a meaning: held by
//! a look at the sources, since a compiler does not miss either.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Shows what is set without deciding by it, and sets the defaults.
const NO_READERS: &[&str] = &["dump.bpf.c", "main.bpf.c"];

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

fn source_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// C without its comments.
fn without_comments(code: &str) -> String {
    let mut rest = code;
    let mut kept = String::new();
    while let Some((before, comment)) = rest.split_once("/*") {
        kept += before;
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    kept + rest
}

/// The rooms but those called `except`, without comments.
fn rooms(except: &[&str]) -> Result<String> {
    let mut code = String::new();
    let mut nr = 0;
    for entry in fs::read_dir(source_dir().join("bpf"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".bpf.c") && !except.contains(&name.as_ref()) {
            code += &without_comments(&read(&path)?);
            nr += 1;
        }
    }
    ensure!(nr > 5, "only {nr} rooms were found");
    Ok(code)
}

/// What stands between the braces of `what`, such as `struct knobs`.
fn body(what: &str) -> Result<String> {
    let intf = without_comments(&read(&source_dir().join("bpf/intf.h"))?);
    let start = intf.find(&format!("{what} {{"));
    let (_, rest) = intf
        .split_at(start.with_context(|| format!("no {what}"))?)
        .1
        .split_once('{')
        .with_context(|| format!("{what} has no body"))?;
    let (body, _) = rest.split_once('}').context("a body without an end")?;
    Ok(body.to_owned())
}

/// Names of the fields of a struct.
fn fields(what: &str) -> Result<Vec<String>> {
    let body = body(what)?;
    let fields = body.split(';').filter_map(|field| {
        let is_type = |word: &&str| !["struct", "const"].contains(word);
        let name = field.split_whitespace().filter(is_type).nth(1)?;
        Some(name.split('[').next()?.to_owned())
    });
    Ok(fields.collect())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Texts before and behind each place where `word` stands alone.
fn places<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let places = code.match_indices(word);
    places.filter_map(move |(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        let is_alone = !before.ends_with(is_word) && !after.starts_with(is_word);
        is_alone.then_some((before, after))
    })
}

/// Whether `code` changes `field` of something that a pointer points to.
fn is_written(code: &str, field: &str) -> bool {
    places(code, field).any(|(before, after)| {
        let Some(before) = before.strip_suffix("->") else {
            return false;
        };
        // The pointer, and what stands before that.
        let before = before.trim_end_matches(is_word);
        let mut after = after;
        if after.starts_with('[') {
            after = after.split_once(']').map_or("", |(_, rest)| rest);
        }
        let after = after.trim_start();
        let is_assigned = after.starts_with('=') && !after.starts_with("==");
        is_assigned
            || ["++", "--", "+=", "-=", "|="]
                .iter()
                .any(|op| after.starts_with(op))
            || before.ends_with("WRITE_ONCE(")
            || before.ends_with('&')
    })
}

#[test]
fn every_knob_is_read_where_something_is_decided() -> Result<()> {
    let code = rooms(NO_READERS)?;
    let knobs = fields("struct knobs")?;
    ensure!(knobs.len() > 3, "only {knobs:?} were found");
    for knob in knobs {
        let is_read = places(&code, &knob).any(|(before, _)| before.ends_with("knobs."));
        ensure!(is_read, "nothing reads the knob {knob}");
    }
    Ok(())
}

#[test]
fn every_counter_is_written_and_reported() -> Result<()> {
    let code = rooms(&[])?;
    let stats = read(&source_dir().join("stats.rs"))?;
    let body = body("enum stat_id")?;
    let ids = body.split(',').map(str::trim);
    let ids: Vec<&str> = ids.filter(|id| id.starts_with("STAT_")).collect();
    ensure!(ids.len() > 10, "only {ids:?} were found");
    for id in ids {
        ensure!(places(&code, id).next().is_some(), "nothing counts {id}");
        let in_rust = format!("stat_id_{id}");
        let metrics = stats.split_once("impl Metrics").context("no metrics")?.1;
        let is_reported = places(metrics, &in_rust).any(|(before, _)| before.ends_with("count("));
        ensure!(is_reported, "nothing reports {id}");
    }
    Ok(())
}

#[test]
fn every_field_of_a_cpu_has_a_writer() -> Result<()> {
    let code = rooms(&[])?;
    let headers = without_comments(&read(&source_dir().join("bpf/stats.bpf.h"))?);
    let of_cpu = fields("struct cpu_ctx")?;
    ensure!(of_cpu.len() > 10, "only {of_cpu:?} were found");
    let of_waiters = fields("struct waiters")?;
    for field in of_cpu.iter().chain(&of_waiters) {
        ensure!(
            is_written(&code, field) || is_written(&headers, field),
            "nothing writes {field} of a CPU or its waiters"
        );
    }
    Ok(())
}

#[test]
fn a_write_is_told_from_a_read() {
    for write in [
        "cpuc->x = 1;",
        "cpuc->x++;",
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
        "cpuc->xy = 1",
        "x = 1",
    ] {
        assert!(!is_written(read, "x"), "{read}");
    }
}
