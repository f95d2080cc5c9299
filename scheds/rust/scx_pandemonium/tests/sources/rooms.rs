//! What ARCHITECTURE.md promises of the BPF rooms.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::c::{self, Room, is_word, places};

/// The contexts, and where they are defined.
const CONTEXTS: &[(&str, &str)] = &[
    ("task_ctx", "bpf/context.bpf.h"),
    ("cpu_ctx", "bpf/intf.h"),
    ("llc_ctx", "bpf/context.bpf.h"),
];

/// A struct that a room keeps in a context: its room and its fields.
struct Part {
    room: String,
    fields: Vec<String>,
}

/// The fields of struct `kind`, and those of structs in it that the same file defines, as
/// `pause.until`; but for `waiters`, which are reached by a pointer, see below.
fn leaves_of(code: &str, kind: &str) -> Result<Vec<String>> {
    let mut leaves = Vec::new();
    for (kind, name) in c::fields(code, &format!("struct {kind}"))? {
        if kind == "waiters" || !code.contains(&format!("struct {kind} {{")) {
            leaves.push(name);
            continue;
        }
        let inner = leaves_of(code, &kind)?;
        leaves.extend(inner.iter().map(|inner| format!("{name}.{inner}")));
    }
    Ok(leaves)
}

fn parts() -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for (context, file) in CONTEXTS {
        let code = c::without_comments(&c::read(&c::source(file))?);
        for (kind, room) in c::fields(&code, &format!("struct {context}"))? {
            let fields = leaves_of(&code, &kind)?;
            ensure!(!fields.is_empty(), "struct {kind} has no fields");
            parts.push(Part { room, fields });
        }
    }
    ensure!(parts.len() > 10, "only {} parts were found", parts.len());
    Ok(parts)
}

/// The places of a file where fields of `owner`'s are written, if it is not the
/// owner's.
fn foreign_writes(room: &Room, owner: &str) -> Vec<String> {
    if room.name == owner {
        return Vec::new();
    }
    let writes = places(&room.code, owner).filter_map(|(before, after)| {
        let field = after.strip_prefix('.')?;
        let end = field.find(|c: char| !is_word(c) && c != '.')?;
        let (field, rest) = field.split_at(end);
        c::is_write(before, rest).then(|| format!("{}: {owner}.{field}", room.name))
    });
    writes.collect()
}

#[test]
fn only_the_room_that_a_field_is_named_by_writes_it() -> Result<()> {
    let rooms = c::rooms()?;
    let owners: BTreeSet<String> = parts()?.into_iter().map(|part| part.room).collect();
    let names: BTreeSet<&str> = rooms.iter().map(|room| room.name.as_str()).collect();
    let mut writes = Vec::new();
    for owner in &owners {
        ensure!(names.contains(owner.as_str()), "{owner} is no room");
        for room in &rooms {
            writes.extend(foreign_writes(room, owner));
        }
    }
    ensure!(writes.is_empty(), "written by another room: {writes:?}");
    Ok(())
}

#[test]
fn every_field_of_a_context_is_written_by_its_room() -> Result<()> {
    let rooms = c::rooms()?;
    for part in parts()? {
        let room = rooms.iter().find(|room| room.name == part.room);
        let code = &room
            .with_context(|| format!("{} is no room", part.room))?
            .code;
        for field in &part.fields {
            let path = format!("{}.{field}", part.room);
            ensure!(c::is_written(code, &path), "nothing writes {path}");
        }
    }
    Ok(())
}

/// The counts of waiting tasks are reached by a pointer; see `queue_waiters()`.
#[test]
fn only_the_room_of_the_queues_counts_who_waits() -> Result<()> {
    let intf = c::without_comments(&c::read(&c::source("bpf/intf.h"))?);
    for (_, field) in c::fields(&intf, "struct waiters")? {
        let is_writer = |room: &&Room| {
            places(&room.code, &field)
                .any(|(before, after)| before.ends_with("w->") && c::is_write(before, after))
        };
        let rooms = c::rooms()?;
        let writers: Vec<&str> = rooms
            .iter()
            .filter(is_writer)
            .map(|room| room.name.as_str())
            .collect();
        ensure!(writers == ["queue"], "{field} is written by {writers:?}");
    }
    Ok(())
}

/// Names of the functions that a room's header declares or defines: all begin
/// with the room's name, but for the counters of `stats`. Those of `context` are
/// left out: every room may look things up.
fn functions(room: &Room) -> BTreeSet<&str> {
    let prefix = format!("{}_", room.name);
    let header = room.header.as_str();
    let ends = header.match_indices('(').map(|(at, _)| &header[..at]);
    ends.map(|before| &before[before.trim_end_matches(is_word).len()..])
        .filter(|name| name.starts_with(&prefix) || ["stat_inc", "stat_add"].contains(name))
        .filter(|_| room.name != "context")
        .collect()
}

/// Which rooms each one calls.
pub fn calls() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let rooms = c::rooms()?;
    let mut calls: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for room in &rooms {
        let others = rooms.iter().filter(|other| other.name != room.name);
        let called = others.filter(|other| {
            functions(other).iter().any(|name| {
                let mut uses = places(&room.code, name);
                uses.any(|(_, after)| after.starts_with('('))
            })
        });
        let called = called.map(|other| other.name.clone()).collect();
        calls.insert(room.name.clone(), called);
    }
    Ok(calls)
}

/// Follow calls from `room`; fail if they come back to a room of `path`.
fn follow(
    calls: &BTreeMap<String, BTreeSet<String>>,
    room: &str,
    path: &mut Vec<String>,
) -> Result<()> {
    if path.iter().any(|before| before == room) {
        bail!("a circle: {} -> {room}", path.join(" -> "));
    }
    path.push(room.to_owned());
    for called in calls.get(room).into_iter().flatten() {
        follow(calls, called, path)?;
    }
    path.pop();
    Ok(())
}

#[test]
fn rooms_call_each_other_without_a_circle() -> Result<()> {
    let calls = calls()?;
    let nr_calls: usize = calls.values().map(BTreeSet::len).sum();
    ensure!(nr_calls > 30, "only {nr_calls} calls were found");
    for room in calls.keys() {
        follow(&calls, room, &mut Vec::new())?;
    }
    Ok(())
}

/// Rows of the table of rooms: name, question, and which rooms it may call.
fn rooms_of_architecture() -> Result<Vec<[String; 3]>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let page = c::read(&root.join("ARCHITECTURE.md"))?;
    let head = "| room | question | state it owns | may call |";
    let (_, table) = page.split_once(head).context("no table of rooms")?;
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let rows = rows.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        [1, 2, 4].map(|cell| cells.get(cell).unwrap_or(&"").replace('`', ""))
    });
    Ok(rows.collect())
}

#[test]
fn the_table_of_rooms_is_true() -> Result<()> {
    let calls = calls()?;
    let rows = rooms_of_architecture()?;
    let names: BTreeSet<&String> = rows.iter().map(|[name, ..]| name).collect();
    ensure!(names == calls.keys().collect(), "rooms: {names:?}");
    let main = c::read(&c::source("bpf/main.bpf.c"))?;
    for [name, question, may_call] in &rows {
        if name == "main" {
            continue;
        }
        let is_listed = main.contains(&format!("{name}\t")) && main.contains(question);
        ensure!(is_listed, "main.bpf.c lists another question for {name}");
        let header = c::source(&format!("bpf/{name}.bpf.h"));
        let file = match header.exists() {
            true => header,
            false => header.with_extension("c"),
        };
        let is_head = c::read(&file)?.contains(&format!(" * {name}: "));
        ensure!(is_head, "{} has no head", file.display());

        let may_call = may_call.split(", ").filter(|room| *room != "-");
        let may_call: BTreeSet<&str> = may_call.collect();
        let called = calls[name].iter().map(String::as_str);
        let called: BTreeSet<&str> = called.filter(|room| *room != "stats").collect();
        ensure!(called == may_call, "{name} calls {called:?}");
    }
    Ok(())
}

#[test]
fn a_circle_is_found() {
    let call = |from: &str, to: &str| (from.to_owned(), BTreeSet::from([to.to_owned()]));
    let round = BTreeMap::from([call("a", "b"), call("b", "c"), call("c", "a")]);
    assert!(follow(&round, "a", &mut Vec::new()).is_err());
    let line = BTreeMap::from([call("a", "b"), call("b", "c")]);
    assert!(follow(&line, "a", &mut Vec::new()).is_ok());
}
