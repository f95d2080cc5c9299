// SPDX-License-Identifier: GPL-2.0
//! The monorepo's lists of schedulers. Each stays in its order, and what is listed
//! already stays as it is.

use anyhow::{Context, Result};
use toml_edit::{DocumentMut, Value};

use super::{EXPERIMENTAL, PREFIX, SCHEDS};

/// What a list becomes.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    /// It has the scheduler already.
    None,
    Text(String),
    /// It is not as it used to be.
    NoPlace,
}

/// A list, by its file from the top level.
pub struct List {
    pub file: &'static str,
    /// Adds to a text the scheduler of that name.
    pub add: fn(&str, &str) -> Change,
}

impl List {
    /// Whether it has the schedulers in the directory `scheds`.
    pub fn is_of(&self, scheds: &str) -> bool {
        let dirs = [SCHEDS, EXPERIMENTAL];
        let of_one = dirs.iter().find(|dir| self.file.starts_with(**dir));
        of_one.is_none_or(|dir| *dir == scheds)
    }
}

/// The lists that are no part of the workspace.
pub const LISTS: &[List] = &[
    List {
        file: "scheds/rust/README.md",
        add: add_link,
    },
    List {
        file: "scheds/experimental/README.md",
        add: add_link,
    },
    List {
        file: "CARGO_BUILD.md",
        add: |text, name| {
            let row = format!("| `{name}` | `cargo build --release -p {name}` |");
            add_line(text, "| `", name, &row)
        },
    },
    List {
        file: "services/scx",
        add: |text, name| add_word(text, "# List of scx_schedulers:", name),
    },
    List {
        file: ".github/workflows/ci.yml",
        add: add_to_matrix,
    },
];

/// Add `member` to the workspace before the first that comes after it by name; is it
/// new there?
pub fn add_member(manifest: &mut DocumentMut, member: &str) -> Result<bool> {
    let members = manifest.get_mut("workspace");
    let members = members.and_then(|workspace| workspace.get_mut("members"));
    let members = members.and_then(|members| members.as_array_mut());
    let members = members.context("its Cargo.toml has no members of a workspace")?;
    let names: Vec<&str> = members.iter().filter_map(Value::as_str).collect();
    let (dir, _) = member.rsplit_once('/').unwrap_or_default();
    let has = |name: &str| names.contains(&name);
    if has(member) || has(&format!("{dir}/*")) {
        return Ok(false);
    }
    let is_sibling = |name: &str| name.rsplit_once('/').is_some_and(|(one, _)| one == dir);
    let after = names
        .iter()
        .position(|name| is_sibling(name) && *name > member);
    let last = names.iter().rposition(|name| is_sibling(name));
    let at = after.or(last.map(|last| last + 1)).unwrap_or(names.len());
    let mut value = Value::from(member);
    // As the one that was there.
    if let Some(other) = members.get(at).or(members.get(at.saturating_sub(1))) {
        *value.decor_mut() = other.decor().clone();
    }
    members.insert_formatted(at, value);
    Ok(true)
}

/// Add a link to the page of the scheduler `name`.
fn add_link(text: &str, name: &str) -> Change {
    add_line(text, "- [", name, &format!("- [{name}]({name}/README.md)"))
}

/// Add `line` to the lines of `text` that begin with `start` and the name of a scheduler,
/// as it begins with `name`, before the first that comes after it.
fn add_line(text: &str, start: &str, name: &str, line: &str) -> Change {
    let ours = format!("{start}{name}");
    let start = format!("{start}{PREFIX}");
    let mut lines: Vec<&str> = text.lines().collect();
    // A longer name goes on with `_`.
    let is_ours = |one: &&str| {
        let rest = one.strip_prefix(&ours);
        rest.is_some_and(|rest| !rest.starts_with('_'))
    };
    if lines.iter().any(is_ours) {
        return Change::None;
    }
    let is_listed = |one: &&str| one.starts_with(&start);
    let after = lines.iter().position(|one| is_listed(one) && *one > line);
    let last = lines.iter().rposition(is_listed);
    let Some(at) = after.or(last.map(|last| last + 1)) else {
        return Change::NoPlace;
    };
    lines.insert(at, line);
    Change::Text(lines.join("\n") + "\n")
}

/// Add `word` to the words after `start` on its line, in their order.
fn add_word(text: &str, start: &str, word: &str) -> Change {
    let Some((before, rest)) = text.split_once(start) else {
        return Change::NoPlace;
    };
    let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
    let mut words: Vec<&str> = line.split_whitespace().collect();
    if words.contains(&word) {
        return Change::None;
    }
    let at = words.iter().position(|one| *one > word);
    words.insert(at.unwrap_or(words.len()), word);
    Change::Text(format!("{before}{start} {}\n{after}", words.join(" ")))
}

/// Add the scheduler to the shortest line of the matrix that CI runs under a load,
/// unless some job names it.
fn add_to_matrix(text: &str, package: &str) -> Change {
    let name = package.trim_start_matches(PREFIX);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = text.split(|c| !is_word(c));
    if words.any(|word| word == name || word == package) {
        return Change::None;
    }
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    let Some(head) = lines.iter().position(|line| line.trim() == "scheds:") else {
        return Change::NoPlace;
    };
    let matrix = lines.iter_mut().skip(head + 1);
    let matrix = matrix.take_while(|line| line.trim_start().starts_with("- "));
    let Some(line) = matrix.min_by_key(|line| line.split_whitespace().count()) else {
        return Change::NoPlace;
    };
    line.push(' ');
    line.push_str(name);
    Change::Text(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGE: &str = "scx_pandemonium";

    fn list(file: &str) -> fn(&str, &str) -> Change {
        let list = LISTS.iter().find(|list| list.file == file);
        list.expect("it is one").add
    }

    /// Adding once gives `expected`, and adding to that nothing.
    fn check(add: fn(&str, &str) -> Change, text: &str, expected: &str) {
        assert_eq!(add(text, PACKAGE), Change::Text(expected.to_string()));
        assert_eq!(add(expected, PACKAGE), Change::None);
    }

    #[test]
    fn a_page_lists_it_by_its_name() {
        let line = "- [scx_pandemonium](scx_pandemonium/README.md)\n";
        let (a, z) = ("- [scx_lavd](scx_lavd/README.md)\n", "- [scx_rusty](x)\n");
        let add = list("scheds/rust/README.md");
        check(
            add,
            &format!("# A\n{a}{z}\nend\n"),
            &format!("# A\n{a}{line}{z}\nend\n"),
        );
        check(add, &format!("{a}\nend\n"), &format!("{a}{line}\nend\n"));
        // Another name that begins with ours.
        let longer = "- [scx_pandemonium_2](x)\n";
        check(add, longer, &format!("{line}{longer}"));
        assert_eq!(add("nothing\n", PACKAGE), Change::NoPlace);
    }

    #[test]
    fn another_name_is_listed_beside_ours_where_it_is() {
        let ours = "- [scx_pandemonium](scx_pandemonium/README.md)\n";
        let other = "- [scx_other](scx_other/README.md)\n";
        let experimental = list("scheds/experimental/README.md");
        let expected = Change::Text(format!("{other}{ours}"));
        assert_eq!(experimental(ours, "scx_other"), expected);
        for list in LISTS {
            let is_of = (list.is_of(SCHEDS), list.is_of(EXPERIMENTAL));
            let expected = match list.file {
                "scheds/rust/README.md" => (true, false),
                "scheds/experimental/README.md" => (false, true),
                _ => (true, true),
            };
            assert_eq!(is_of, expected, "{}", list.file);
        }
    }

    #[test]
    fn a_table_has_its_row() {
        let row = "| `scx_pandemonium` | `cargo build --release -p scx_pandemonium` |\n";
        let (head, a, z) = (
            "| x | y |\n|--|--|\n",
            "| `scx_p2dq` | x |\n",
            "| `scx_rusty`  | x |\n",
        );
        let expected = format!("{head}{a}{row}{z}");
        check(list("CARGO_BUILD.md"), &format!("{head}{a}{z}"), &expected);
    }

    #[test]
    fn the_service_names_it() {
        let text = "# List of scx_schedulers: scx_lavd scx_rusty\nSCX_SCHEDULER=scx_lavd\n";
        let expected = text.replace("lavd scx_r", "lavd scx_pandemonium scx_r");
        check(list("services/scx"), text, &expected);
        assert_eq!(list("services/scx")("x\n", PACKAGE), Change::NoPlace);
    }

    #[test]
    fn ci_runs_it_once() {
        let text = "a:\n  scheds:\n    - flash cosmos rusty\n    - lavd p2dq\n  steps:\n    - x\n";
        let expected = text.replace("lavd p2dq", "lavd p2dq pandemonium");
        check(list(".github/workflows/ci.yml"), text, &expected);
        let elsewhere = format!("{text}run: cargo build -p scx_pandemonium\n");
        assert_eq!(add_to_matrix(&elsewhere, PACKAGE), Change::None);
        assert_eq!(add_to_matrix("x\n", PACKAGE), Change::NoPlace);
    }

    #[test]
    fn a_member_is_added_once_in_the_order_of_names() {
        let text = "[workspace]\nmembers = [\n    \"rust/x\",\n    \"scheds/rust/scx_lavd\",\n    \
                    \"scheds/rust/scx_rusty\",\n    \"tools/a\",\n]\nresolver = \"2\"\n";
        let member = "scheds/rust/scx_pandemonium";
        let mut manifest: DocumentMut = text.parse().expect("it parses");
        assert!(add_member(&mut manifest, member).expect("it has members"));
        let expected = text.replace(
            "    \"scheds/rust/scx_rusty",
            "    \"scheds/rust/scx_pandemonium\",\n    \"scheds/rust/scx_rusty",
        );
        assert_eq!(manifest.to_string(), expected);
        assert!(!add_member(&mut manifest, member).expect("it has members"));
        let mut globs: DocumentMut = "[workspace]\nmembers = [\"scheds/rust/*\"]\n"
            .parse()
            .expect("it parses");
        assert!(!add_member(&mut globs, member).expect("it has members"));
        assert!(add_member(&mut DocumentMut::new(), member).is_err());
    }
}
