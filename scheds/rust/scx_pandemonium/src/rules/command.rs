//! `scx_pandemonium rules check` and `rules explain PID`.
//!
//! Both read the rules themselves; no scheduler needs to run.

use std::path::PathBuf;

use anyhow::{Result, anyhow, ensure};
use clap::Subcommand;

use super::process::is_gone;
use super::{Facts, Problem, Rules, RulesOpts, files, together};
use crate::output;
use crate::text::printable;

/// What to do with the rules.
#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// Read all rules and print what is wrong with them.
    ///
    /// Ends with 1 if anything is.
    Check {
        /// Read these directories instead of the usual ones.
        #[clap(value_name = "DIR")]
        dirs: Vec<PathBuf>,
    },
    /// Print what the rules say of a process, and which of them match.
    Explain {
        /// Id of the process.
        #[clap(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
        pid: i32,

        /// Where the rules are.
        #[clap(flatten)]
        rules: RulesOpts,
    },
}

/// Do it.
///
/// # Errors
///
/// If a directory that was given is none, the process does not exist, or rules
/// that were to be checked have problems.
pub fn run(command: &RulesCommand) -> Result<()> {
    match command {
        RulesCommand::Check { dirs } => {
            let (text, nr_problems) = check(dirs)?;
            output::print(&text)?;
            ensure!(nr_problems == 0, "{nr_problems} problems");
            Ok(())
        }
        RulesCommand::Explain { pid, rules } => output::print(&explain(*pid, rules)?),
    }
}

/// What is in `dirs`, and how much of that is wrong.
fn check(dirs: &[PathBuf]) -> Result<(String, usize)> {
    let dirs = match dirs {
        [] => files::usual_directories(),
        dirs => {
            let opts = RulesOpts {
                dirs: dirs.to_vec(),
                no_rules: true,
            };
            opts.directories()?
        }
    };
    let (rules, problems) = Rules::read(&dirs);
    let mut text: String = problems
        .iter()
        .map(|problem| format!("{problem}\n"))
        .collect();
    for dir in dirs.into_iter().map(|dir| dir.path) {
        let nr_files = rules.files.iter().filter(|path| path.starts_with(&dir));
        let what = match (dir.exists(), nr_files.count()) {
            (false, _) => "does not exist".to_owned(),
            (true, nr_files) => format!("{nr_files} files read"),
        };
        text += &format!("{}: {what}\n", dir.display());
    }
    text += &format!(
        "{} rules of ours, {} of ananicy's with {} types\n",
        rules.rules.len(),
        rules.ananicy.nr_rules(),
        rules.ananicy.nr_types()
    );
    Ok((text, problems.len()))
}

/// What is known of process `pid`, which rules match, and what they say.
pub(super) fn explain(pid: i32, opts: &RulesOpts) -> Result<String> {
    let facts = Facts::read(pid).map_err(|err| match is_gone(&err) {
        true => anyhow!("there is no process {pid}"),
        false => anyhow!("reading process {pid}: {err}"),
    })?;
    let (rules, problems) = Rules::read(&opts.directories()?);
    let mut text = format!("{facts}\n");
    if !problems.is_empty() {
        text += &nr_problems_note(&problems);
    }
    let matches = rules.matches(&facts);
    for found in &matches {
        let line = format!("{}: {}: {}", found.place, found.why, found.hint);
        text += &format!("{}\n", printable(&line));
    }
    if matches.is_empty() {
        text += "no rule matches\n";
    } else {
        text += &format!("together: {}\n", together(&matches));
    }
    Ok(text)
}

fn nr_problems_note(problems: &[Problem]) -> String {
    let nr = problems.len();
    format!("{nr} problems in the rules: see scx_pandemonium rules check\n")
}
