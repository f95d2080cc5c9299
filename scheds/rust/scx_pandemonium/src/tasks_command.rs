//! `scx_pandemonium tasks`: prints the list of the running scheduler's tasks.
//!
//! A client of the stats server like any other: it asks for the tasks once, or
//! again and again, and prints them as a table or as JSON.
//!
//! Not here: the table (tasks), the options (cli).

use std::io::{ErrorKind, IsTerminal, Write};
use std::thread::sleep;

use anyhow::{Context, Result, anyhow};
use scx_stats::prelude::StatsClient;

use crate::cli::TasksOpts;
use crate::server::TASKS_TARGET;
use crate::tasks::Tasks;

/// How long the scheduler may take to answer, in ms.
const ANSWER_LIMIT_MS: u64 = 5000;

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
    let mut client = connect()?;
    loop {
        let tasks = client
            .request::<Tasks>("stats", vec![("target".into(), TASKS_TARGET.into())])
            .map_err(explain_refusal)?;
        let shown = show(&tasks, opts, &mut std::io::stdout());
        match shown {
            // The reader of the list has seen enough.
            Err(err) if err.kind() == ErrorKind::BrokenPipe => return Ok(()),
            result => result.context("printing the tasks")?,
        }
        match opts.watch {
            Some(interval) => sleep(interval),
            None => return Ok(()),
        }
    }
}

fn connect() -> Result<StatsClient> {
    StatsClient::new()
        .connect(Some(ANSWER_LIMIT_MS))
        .map_err(|err| {
            let kind = err.downcast_ref().map(std::io::Error::kind);
            match kind {
                Some(ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                    anyhow!("no scx_pandemonium is running: start it first")
                }
                Some(ErrorKind::PermissionDenied) => {
                    anyhow!("asking the scheduler needs root: use sudo")
                }
                _ => err.context("connecting to the scheduler"),
            }
        })
}

/// Make one line of what the server said no with.
fn explain_refusal(err: anyhow::Error) -> anyhow::Error {
    let why = err.root_cause().to_string();
    if why.contains("unknown stat target") {
        return anyhow!("the running scheduler is not scx_pandemonium, or is older");
    }
    let why = why.lines().next().unwrap_or_default().to_owned();
    anyhow!("the scheduler did not answer: {why}")
}

/// Print one list to `out`; on a watched terminal, as much as fits.
fn show(
    tasks: &Tasks,
    opts: &TasksOpts,
    out: &mut (impl Write + IsTerminal),
) -> std::io::Result<()> {
    if opts.json {
        serde_json::to_writer(&mut *out, tasks)?;
        writeln!(out)?;
        return out.flush();
    }
    let mut nr_tasks_max = usize::MAX;
    if opts.watch.is_some() && out.is_terminal() {
        if let Some((_, height)) = terminal_size::terminal_size() {
            nr_tasks_max = usize::from(height.0).saturating_sub(NR_OTHER_LINES);
        }
        write!(out, "{CLEAR_SCREEN}")?;
    }
    write!(out, "{}", tasks.table(nr_tasks_max))?;
    if opts.watch.is_some() && nr_tasks_max == usize::MAX {
        writeln!(out)?;
    }
    out.flush()
}
