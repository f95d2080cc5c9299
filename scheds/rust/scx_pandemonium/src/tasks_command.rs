//! `scx_pandemonium tasks`: prints the list of the running scheduler's tasks.
//!
//! A client of the stats server like any other: it asks for the tasks once, or
//! again and again, and prints them as a table or as JSON.
//!
//! Not here: the table (tasks), which tasks it has (selection), the options (cli).

use std::io::{IsTerminal, stdout};
use std::thread::sleep;

use anyhow::{Context, Result};

use crate::cli::TasksOpts;
use crate::client::Client;
use crate::output;
use crate::server::TASKS_TARGET;
use crate::tasks::Tasks;

/// Takes the cursor of a terminal home and clears what is below.
const CLEAR_SCREEN: &str = "\x1b[H\x1b[J";

/// Lines of a screen that are not rows of the list: its heading, and the one
/// that the cursor rests on.
const NR_OTHER_LINES: usize = 2;

/// List the tasks of the running scheduler, once or again and again.
///
/// # Errors
///
/// If no scheduler of ours runs or it ends.
pub fn run(opts: &TasksOpts) -> Result<()> {
    let mut client = Client::connect()?;
    loop {
        let mut tasks: Tasks = client.ask(TASKS_TARGET, &[])?;
        opts.selection.apply(&mut tasks.tasks);
        output::print(&shown(&tasks, opts)?)?;
        match opts.watch {
            Some(interval) => sleep(interval),
            None => return Ok(()),
        }
    }
}

/// One list as text; for a watched terminal, as much as fits.
fn shown(tasks: &Tasks, opts: &TasksOpts) -> Result<String> {
    if opts.json {
        return Ok(serde_json::to_string(tasks).context("writing JSON")? + "\n");
    }
    let notes = tasks.notes();
    let below: String = notes.iter().map(|note| format!("note: {note}\n")).collect();
    if opts.watch.is_none() {
        return Ok(tasks.table(usize::MAX) + &below);
    }
    if !stdout().is_terminal() {
        return Ok(tasks.table(usize::MAX) + &below + "\n");
    }
    let nr_tasks_max = terminal_size::terminal_size().map_or(usize::MAX, |(_, height)| {
        usize::from(height.0).saturating_sub(NR_OTHER_LINES + notes.len())
    });
    Ok(CLEAR_SCREEN.to_owned() + &tasks.table(nr_tasks_max) + &below)
}
