//! The tables of `docs/REFERENCE.md`: options as clap knows them, fields of the
//! telemetry as scx_stats describes them.
//!
//! Only for tests. One fails if a table on the page is not that of the program;
//! this writes them anew:
//!
//! ```sh
//! UPDATE_DOCS=1 cargo test --release -p scx_pandemonium reference
//! ```
//!
//! Not here: what an option or a field means (cli, stats, tasks), and what else
//! the page says.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory};
use scx_stats::prelude::{Meta, StatsMeta};

use crate::cli::Opts;
use crate::control::knob;
use crate::scheduler::default_knobs;
use crate::stats::Metrics;
use crate::tasks::{Task, Tasks};

/// Asks for the tables to be written.
const UPDATE_ENV: &str = "UPDATE_DOCS";

/// The heading of options that libbpf explains, at length; a sentence will do.
const LIBBPF_HEADING: &str = "Libbpf Options";

fn page_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/REFERENCE.md")
}

/// Text as a cell of a table holds it: in one line, with its bars escaped.
fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}

/// What is typed for `arg`, with the name of its value in brackets if that may
/// be left out.
fn spelling(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let flags: Vec<String> = short.into_iter().chain(long).collect();
    let mut text = flags.join(", ");
    if arg.get_action().takes_values() {
        let may_be_left_out = arg
            .get_num_args()
            .is_some_and(|nr_values| nr_values.min_values() == 0);
        for name in arg.get_value_names().unwrap_or_default() {
            text += &if may_be_left_out {
                format!(" [{name}]")
            } else {
                format!(" {name}")
            };
        }
    }
    // What stands without a flag begins with its name.
    text.trim_start().to_owned()
}

/// What `arg` does, which values it takes and which it has by default.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help());
    let mut text = help.map(ToString::to_string).unwrap_or_default();
    if arg.get_help_heading() == Some(LIBBPF_HEADING) {
        text = text.split(". ").next().unwrap_or_default().to_owned();
    }
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({help})", value.get_name()),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if !values.is_empty() {
        text += &format!(". One of {}", values.join(", "));
    }
    if let [default] = arg.get_default_values()
        && arg.get_action().takes_values()
    {
        text += &format!(". Default: `{}`", default.to_string_lossy());
    }
    text
}

/// The options of `command` that are listed in its help under `heading`.
fn options(command: &Command, heading: Option<&str>) -> String {
    let mut table = "| option | meaning |\n|---|---|\n".to_owned();
    for arg in command.get_arguments() {
        if arg.get_help_heading() == heading && !arg.is_hide_set() {
            let (spelling, meaning) = (spelling(arg), cell(&meaning(arg)));
            table += &format!("| `{spelling}` | {meaning} |\n");
        }
    }
    table
}

/// The fields of `metas`, a table for each, with its name if there are several.
fn fields(metas: &[StatsMeta]) -> String {
    let mut tables = Vec::new();
    for meta in metas {
        let mut table = match metas {
            [_] => String::new(),
            _ => format!("`{}`:\n\n", meta.name),
        };
        table += "| field | type | meaning |\n|---|---|---|\n";
        for (name, field) in &meta.fields {
            let meaning = cell(field.attrs.desc.as_deref().unwrap_or_default());
            table += &format!("| `{name}` | `{}` | {meaning} |\n", field.data);
        }
        tables.push(table);
    }
    tables.join("\n")
}

/// The table of knobs.
fn knobs() -> String {
    let heading = knob::heading();
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut table = line(heading.clone()) + &"|---".repeat(heading.len()) + "|\n";
    let defaults = default_knobs().expect("the BPF half can be opened");
    for mut row in knob::rows(defaults) {
        row[0] = format!("`{}`", row[0]);
        table += &line(row.iter().map(|text| cell(text)).collect());
    }
    table
}

/// Every table, with the name of its place on the page.
fn tables() -> Vec<(String, String)> {
    let mut command = Opts::command();
    command.build();
    let mut tables = vec![
        ("options".to_owned(), options(&command, None)),
        (
            "libbpf-options".to_owned(),
            options(&command, Some(LIBBPF_HEADING)),
        ),
        ("knobs".to_owned(), knobs()),
        ("telemetry".to_owned(), fields(&[Metrics::meta()])),
        ("tasks".to_owned(), fields(&[Tasks::meta(), Task::meta()])),
    ];
    let is_ours = |subcommand: &&Command| subcommand.get_name() != "help";
    for subcommand in command.get_subcommands().filter(is_ours) {
        let name = subcommand.get_name();
        let below: Vec<&Command> = subcommand.get_subcommands().filter(is_ours).collect();
        if below.is_empty() {
            tables.push((format!("{name}-options"), options(subcommand, None)));
        }
        for subcommand in below {
            let place = format!("{name}-{}-options", subcommand.get_name());
            tables.push((place, options(subcommand, None)));
        }
    }
    tables
}

/// `page` with `table` in the place that `name` has, or `None` if it has none.
fn with_table(page: &str, name: &str, table: &str) -> Option<String> {
    let (begin, end) = (
        format!("<!-- {name}:begin -->\n"),
        format!("<!-- {name}:end -->"),
    );
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{table}\n{end}{after}"))
}

#[test]
fn the_reference_is_that_of_the_program() {
    let path = page_path();
    let page = fs::read_to_string(&path).expect("the reference is readable");
    let mut made = page.clone();
    for (name, table) in tables() {
        made = with_table(&made, &name, &table)
            .unwrap_or_else(|| panic!("the reference has no place for {name}"));
    }
    if env::var_os(UPDATE_ENV).is_some() {
        fs::write(&path, made).expect("the reference is writable");
        return;
    }
    let difference = page.lines().zip(made.lines()).find(|(a, b)| a != b);
    assert!(
        page == made,
        "docs/REFERENCE.md is not that of the program: {difference:#?}\n\
         {UPDATE_ENV}=1 cargo test --release -p scx_pandemonium reference"
    );
}

#[test]
fn what_the_program_prints_is_escaped_and_in_one_line() {
    assert_eq!(cell("a |\n  b"), "a \\| b");
}

#[test]
fn only_the_place_of_a_table_is_written() {
    let page = "x\n<!-- a:begin -->\nold\n<!-- a:end -->\ny\n";
    let new = "x\n<!-- a:begin -->\n\nnew\n\n<!-- a:end -->\ny\n";
    assert_eq!(with_table(page, "a", "new\n").as_deref(), Some(new));
    assert_eq!(with_table(page, "b", "new\n"), None);
}
