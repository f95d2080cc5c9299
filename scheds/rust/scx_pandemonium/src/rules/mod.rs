//! Rules: what the user or the distribution says about a program.
//!
//! [`Rules`] are read once, from files of two kinds: our own (`*.toml`, see
//! [`toml_file`]) and those of ananicy that a distribution may have installed
//! (`*.rules` and `*.types`, see [`ananicy`]). Given the [`Facts`] of a process
//! they say which rules match and what these say together, its [`Hint`].
//!
//! What is said later wins: ananicy's files come first, then ours of the
//! distribution, of the machine, of the user, and those that were asked for on
//! the command line; in a directory the order is that of the names.
//!
//! A damaged file costs itself or the rules in it that are wrong, and a
//! [`Problem`] each; the others go on.
//!
//! Not here: how a hint reaches BPF (scheduler), which processes are looked at
//! and when ([`watch`]).

mod ananicy;
pub mod command;
mod files;
mod lint;
pub mod pattern;
mod process;
pub mod programs;
#[cfg(test)]
mod tests;
mod toml_file;
pub mod watch;

use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use log::{info, warn};

use crate::hint::Hint;
use crate::rules::ananicy::Ananicy;
use crate::rules::files::{Dir, Found, Kind};
use crate::rules::toml_file::{Origin, Rule};
use crate::text::printable;

pub use crate::rules::process::Facts;

/// Nice levels that there are.
const NICE: RangeInclusive<i64> = -20..=19;

/// Problems of one file that are told: who has more is not helped by a list.
const NR_PROBLEMS_MAX: usize = 100;

/// Where a rule stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// Index of its file in [`Rules::files`].
    file: u32,
    /// Line of the file, from 1.
    line: u32,
}

/// Something in a rules directory that cannot be used, or never matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    path: PathBuf,
    /// From 1; `None` if it is the file as a whole.
    line: Option<u32>,
    what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.path.display().to_string();
        if let Some(line) = self.line {
            text += &format!(":{line}");
        }
        text += &format!(": {}", self.what);
        out.write_str(&printable(&text))
    }
}

/// A rule that matches a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Its file and line.
    pub place: String,
    /// Why it matches, such as `name game.exe`.
    pub why: String,
    /// What it says.
    pub hint: Hint,
}

/// All rules, by what they match.
#[derive(Debug, Default)]
pub struct Rules {
    files: Vec<PathBuf>,
    ananicy: Ananicy,
    /// In the order in which they win.
    rules: Vec<Rule>,
    /// Indices of rules by the whole names and paths that they ask for.
    by_name: HashMap<Box<str>, Vec<u32>>,
    by_path: HashMap<Box<str>, Vec<u32>>,
    /// Those that have to be compared with every process.
    others: Vec<u32>,
}

impl Rules {
    /// Read the rules of `dirs`, in this order. One that is missing has none.
    pub fn read(dirs: &[Dir]) -> (Rules, Vec<Problem>) {
        let mut rules = Rules::default();
        let mut problems = Vec::new();
        let found: Vec<Found> = dirs
            .iter()
            .flat_map(|dir| files::find(dir, &mut problems))
            .collect();
        // Ananicy's first, wherever they stand: ours win.
        for is_toml in [false, true] {
            let files = found
                .iter()
                .filter(|found| (found.kind == Kind::Toml) == is_toml);
            for file in files {
                rules.read_file(file, &mut problems);
            }
        }
        rules.ananicy.shrink();
        rules.index();
        (rules, problems)
    }

    fn read_file(&mut self, found: &Found, problems: &mut Vec<Problem>) {
        let text = match files::read(&found.path) {
            Ok(text) => text,
            Err(what) => {
                problems.push(Problem {
                    path: found.path.clone(),
                    line: None,
                    what,
                });
                return;
            }
        };
        let Ok(file) = u32::try_from(self.files.len()) else {
            return;
        };
        self.files.push(found.path.clone());
        let mut nr_problems = 0;
        let mut report = |line: Option<u32>, what: String| {
            nr_problems += 1;
            let what = match nr_problems {
                ..=NR_PROBLEMS_MAX => what,
                _ if nr_problems == NR_PROBLEMS_MAX + 1 => "what else is wrong is not told".into(),
                _ => return,
            };
            let path = found.path.clone();
            problems.push(Problem { path, line, what });
        };
        match found.kind {
            Kind::Toml => {
                let origin = Origin {
                    file,
                    is_own: found.is_own,
                    home: found.home.as_deref(),
                };
                let rules = toml_file::parse(&text, origin, &mut report);
                self.rules.extend(rules);
            }
            Kind::Ananicy => self.ananicy.parse(&text, file, &mut report),
        }
    }

    /// Build the index of our own rules.
    fn index(&mut self) {
        for (idx, rule) in (0u32..).zip(&self.rules) {
            if let Some(names) = rule.whole_names() {
                for name in names {
                    self.by_name.entry(name.into()).or_default().push(idx);
                }
            } else if let Some(paths) = rule.whole_paths() {
                for path in paths {
                    self.by_path.entry(path.into()).or_default().push(idx);
                }
            } else {
                self.others.push(idx);
            }
        }
    }

    /// The rules that match, in the order in which they win. What is said at
    /// once for a process costs a look at its names, and a comparison for each
    /// rule that names no whole name or path.
    pub fn matches(&self, facts: &Facts) -> Vec<Match> {
        let mut matches = Vec::new();
        if let Some((name, entry)) = self.ananicy.find(facts) {
            matches.push(Match {
                place: self.place(entry.place),
                why: self.ananicy.why(name, entry),
                hint: self.ananicy.hint(entry),
            });
        }
        let mut candidates: Vec<u32> = self.others.clone();
        for name in facts.names() {
            candidates.extend(self.by_name.get(name).into_iter().flatten());
        }
        if let Some(exe) = &facts.exe {
            candidates.extend(self.by_path.get(exe.as_str()).into_iter().flatten());
        }
        candidates.sort_unstable();
        candidates.dedup();
        for idx in candidates {
            let rule = &self.rules[idx as usize];
            if let Some(why) = rule.matches(facts) {
                matches.push(Match {
                    place: self.place(rule.place),
                    why,
                    hint: rule.hint,
                });
            }
        }
        matches
    }

    /// What all rules together say of a process.
    pub fn hint(&self, facts: &Facts) -> Hint {
        together(&self.matches(facts))
    }

    /// Whether one of them confines a program to few CPUs.
    pub fn confine(&self) -> bool {
        self.rules
            .iter()
            .any(|rule| rule.hint.confine == Some(true))
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.ananicy.nr_rules() == 0
    }

    fn place(&self, place: Place) -> String {
        let path = &self.files[place.file as usize];
        format!("{}:{}", path.display(), place.line)
    }
}

/// What `matches` say together.
fn together(matches: &[Match]) -> Hint {
    let hints = matches.iter().map(|found| found.hint);
    hints.fold(Hint::default(), Hint::then)
}

/// Which directories to read.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct RulesOpts {
    /// Read rules from DIR as well; they win over those of the usual
    /// directories. May be repeated.
    #[clap(long = "rules", value_name = "DIR")]
    pub dirs: Vec<PathBuf>,

    /// Do not read the usual directories of rules: /etc/ananicy.d, and
    /// scx_pandemonium/rules.d in /usr/lib, /etc and ~/.config.
    #[clap(long)]
    pub no_rules: bool,
}

impl RulesOpts {
    /// The directories, the one that wins last.
    ///
    /// # Errors
    ///
    /// If one that was asked for is none.
    fn directories(&self) -> Result<Vec<Dir>> {
        let mut dirs = if self.no_rules {
            Vec::new()
        } else {
            files::usual_directories()
        };
        for dir in &self.dirs {
            ensure!(dir.is_dir(), "{} is not a directory", dir.display());
            dirs.push(files::of_user(dir.clone()));
        }
        Ok(dirs)
    }
}

/// Read what `opts` asks for, with a warning in the log for each file that has
/// problems.
///
/// # Errors
///
/// If a directory that was asked for is none.
pub fn load(opts: &RulesOpts) -> Result<Rules> {
    let (rules, problems) = Rules::read(&opts.directories()?);
    for (first, nr_more) in by_file(&problems) {
        match nr_more {
            0 => warn!("{first}"),
            _ => warn!("{first}; {nr_more} more in this file"),
        }
    }
    if !rules.is_empty() {
        info!(
            "rules: {} of ours, {} of ananicy's",
            rules.rules.len(),
            rules.ananicy.nr_rules()
        );
    }
    Ok(rules)
}

/// The rules of the usual directories, whatever is wrong with them.
pub fn usual() -> Rules {
    Rules::read(&files::usual_directories()).0
}

/// The first problem of each file, and how many more it has.
fn by_file(problems: &[Problem]) -> Vec<(&Problem, usize)> {
    let same_file = |a: &Problem, b: &Problem| a.path == b.path;
    let groups = problems.chunk_by(same_file);
    groups.map(|group| (&group[0], group.len() - 1)).collect()
}

/// The name of a program in a path of Linux or of Windows, which a game under
/// Wine has; `None` if it ends with a separator.
pub fn basename(path: &str) -> Option<&str> {
    let name = path.rsplit(['/', '\\']).next();
    name.filter(|name| !name.is_empty())
}

/// The path as text, if it is text.
pub fn text_of(path: &Path) -> Option<String> {
    path.to_str().map(str::to_owned)
}
