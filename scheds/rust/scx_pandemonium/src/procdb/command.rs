//! `scx_pandemonium procdb show` and `procdb clear`.
//!
//! Both look at the file; no scheduler needs to run. What a running one has
//! learned since it saved the file is not in there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use comfy_table::{CellAlignment, Table, presets};

use super::learner::today;
use super::profile::ONE;
use super::{Procdb, file};
use crate::output;
use crate::text::printable;

/// Names the scheduler that runs, if one does.
const RUNNING_OPS: &str = "/sys/kernel/sched_ext/root/ops";

/// What ours begins with there.
const OPS_NAME: &str = "pandemonium";

/// What to do with the memory.
#[derive(Debug, Subcommand)]
pub enum ProcdbCommand {
    /// Print what is remembered, and what is expected by it.
    ///
    /// RUN is the average CPU time between two sleeps in milliseconds, SURE how
    /// sure the memory is, SEEN how often the threads were looked at, DAYS how
    /// long ago last. A thread begins in the tier of a line with a `*`.
    Show(FileOpts),
    /// Delete the memory.
    ///
    /// A file that is none is left alone, and the exit code is 1.
    Clear(FileOpts),
}

/// Which file.
#[derive(Args, Debug)]
pub struct FileOpts {
    /// The file of the memory, rather than the usual one.
    #[clap(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl FileOpts {
    fn path(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(file::usual_path)
    }
}

/// Do it.
///
/// # Errors
///
/// If the file cannot be used or deleted, or a scheduler that runs would write it
/// again.
pub fn run(command: &ProcdbCommand) -> Result<()> {
    let text = match command {
        ProcdbCommand::Show(opts) => show(&opts.path())?,
        ProcdbCommand::Clear(opts) => clear(&opts.path())?,
    };
    output::print(&text)
}

/// The memory at `path`, if there is one.
fn read(path: &Path) -> Result<Option<Procdb>> {
    let procdb = file::read(path);
    procdb.with_context(|| format!("cannot use the memory of programs {}", path.display()))
}

fn show(path: &Path) -> Result<String> {
    let procdb = read(path)?;
    let name = printable(&path.display().to_string());
    Ok(match procdb {
        None => format!("{name}: nothing is remembered yet\n"),
        Some(procdb) => {
            let table = table(&procdb, today());
            format!("{name}: {} entries\n{table}", procdb.len())
        }
    })
}

/// Titles of the columns, and to which side of its column a cell goes.
const HEADING: [(&str, CellAlignment); 8] = [
    ("", CellAlignment::Left),
    ("TIER", CellAlignment::Left),
    ("SURE", CellAlignment::Right),
    ("RUN", CellAlignment::Right),
    ("SEEN", CellAlignment::Right),
    ("DAYS", CellAlignment::Right),
    ("THREAD", CellAlignment::Left),
    ("PROGRAM (USER)", CellAlignment::Left),
];

fn table(procdb: &Procdb, day: u32) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_header(HEADING.map(|(title, _)| title));
    for (key, entry) in &procdb.entries {
        let profile = &entry.profile;
        let is_known = profile.prediction(day).is_some();
        table.add_row([
            if is_known { "*" } else { "" }.to_owned(),
            profile.tier.to_string(),
            format!("{}%", profile.confidence(day) * 100 / ONE),
            format!("{:.3}", profile.avg_runtime_ns as f64 / 1e6),
            profile.nr_observations.to_string(),
            profile.stale_days(day).to_string(),
            printable(&key.thread),
            printable(&format!("{} ({})", key.program, key.uid)),
        ]);
    }
    for (column, (_, align)) in table.column_iter_mut().zip(HEADING) {
        column.set_cell_alignment(align);
        column.set_padding((0, 2));
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}

/// Delete the memory at `path`, and nothing that is none.
fn clear(path: &Path) -> Result<String> {
    let running = fs::read_to_string(RUNNING_OPS).unwrap_or_default();
    ensure!(
        !running.starts_with(OPS_NAME),
        "scx_pandemonium is running and would write its memory again: stop it first"
    );
    let name = printable(&path.display().to_string());
    if read(path)?.is_none() {
        return Ok(format!("{name}: nothing is remembered\n"));
    }
    fs::remove_file(path).with_context(|| format!("deleting {name}"))?;
    Ok(format!("{name}: deleted\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_memory_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("procdb");
        assert!(clear(&path).unwrap().contains("nothing"));
        fs::write(&path, "something else").unwrap();
        assert!(clear(&path).is_err());
        assert!(path.exists());
        file::save(&Procdb::default(), &path).unwrap();
        assert!(show(&path).unwrap().contains("0 entries"));
        assert!(clear(&path).unwrap().contains("deleted"));
        assert!(!path.exists());
    }
}
