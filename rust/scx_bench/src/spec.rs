// SPDX-License-Identifier: GPL-2.0
//! Which schedulers are compared, as named on the command line.
//!
//! Not here: how a program is found or built (`candidate`, `peers`).

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::peers::{self, Peer};

/// Which schedulers are measured.
#[derive(Debug, Clone, clap::Args)]
pub struct SpecArgs {
    /// Schedulers: `default` (the kernel's), published ones by name, `peers` for all of those,
    /// and `NAME=PATH ARGS` for a program of this machine. Separated by commas; repeatable.
    /// All but `default` need a kernel with sched_ext, and root on this machine. `limit` is the
    /// kernel's own with the measured threads in SCHED_FIFO: no wait of theirs is due to a
    /// scheduler below that class. It is a column of its own that takes no part in comparisons;
    /// where threads only switch, as in `pipe`, what real-time itself costs can be seen.
    #[arg(long, value_name = "LIST", default_value = DEFAULT)]
    pub sched: Vec<String>,
    /// Published schedulers instead of those that are known: a JSON list of `name` and `version`,
    /// a `label` for tables where the name would not do, and a `kernel`, such as 7.1, if older
    /// ones will not do.
    #[arg(long, value_name = "FILE")]
    pub peers: Option<PathBuf>,
}

/// Name of the kernel's own scheduler.
pub const DEFAULT: &str = "default";

/// Name of the limit: the kernel's own scheduler, the measured threads above it.
pub const LIMIT: &str = "limit";

/// Does a result of this name belong to a program of a machine: not to the kernel
/// nor to one of `published`?
pub fn is_program(name: &str, published: &[Peer]) -> bool {
    ![DEFAULT, LIMIT].contains(&name) && published.iter().all(|peer| peer.name != name)
}

/// A scheduler to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Name in tables and reports.
    pub name: String,
    /// Where it comes from.
    pub source: Source,
}

/// Where a scheduler comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The kernel's own; nothing is started.
    Kernel,
    /// The same, with the measured threads in SCHED_FIFO.
    Limit,
    /// A published one.
    Published(Peer),
    /// A program of this machine, with its arguments.
    Program {
        /// The program's path.
        path: PathBuf,
        /// Its arguments.
        args: Vec<String>,
    },
}

impl SpecArgs {
    /// All that are named, in order.
    pub fn specs(&self) -> Result<Vec<Spec>> {
        parse_all(&self.sched, &peers::read(self.peers.as_deref())?)
    }
}

impl Spec {
    /// Which one it is: package and version, or the program with its
    /// arguments, without the directory.
    pub fn describe(&self) -> String {
        match &self.source {
            Source::Kernel => "the kernel's own scheduler".to_string(),
            Source::Limit => "measured threads in SCHED_FIFO".to_string(),
            Source::Published(peer) => format!("{} {}", peer.name, peer.version),
            Source::Program { path, args } => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                format!("{name} {}", args.join(" ")).trim().to_string()
            }
        }
    }
}

/// The schedulers of all `--sched` values, in order; `peers` are the published ones.
///
/// A value is a list of names separated by commas, or one `NAME=PATH ARGS`,
/// where a comma belongs to the arguments.
pub fn parse_all(values: &[String], peers: &[Peer]) -> Result<Vec<Spec>> {
    let mut specs: Vec<Spec> = Vec::new();
    for value in values {
        let is_program = value
            .split(',')
            .next()
            .is_some_and(|first| first.contains('='));
        if is_program {
            specs.push(parse_program(value)?);
            continue;
        }
        for name in value
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            // `all,mine=...`: the rest of the value belongs to the program.
            if name.contains('=') {
                let at = value.find(name).unwrap_or(0);
                specs.push(parse_program(&value[at..])?);
                break;
            }
            specs.extend(parse_names(name, peers)?);
        }
    }
    if specs.is_empty() {
        bail!("no scheduler is named; try --sched {DEFAULT}");
    }
    for (index, spec) in specs.iter().enumerate() {
        if specs[..index].iter().any(|other| other.name == spec.name) {
            bail!("scheduler `{}` is named twice", spec.name);
        }
    }
    Ok(specs)
}

fn parse_names(name: &str, peers: &[Peer]) -> Result<Vec<Spec>> {
    let published = |peer: &Peer| Spec {
        name: peer.name.clone(),
        source: Source::Published(peer.clone()),
    };
    let found: Vec<Spec> = match name {
        DEFAULT => vec![Spec {
            name: name.to_string(),
            source: Source::Kernel,
        }],
        LIMIT => vec![Spec {
            name: name.to_string(),
            source: Source::Limit,
        }],
        "peers" => peers.iter().map(published).collect(),
        _ => peers
            .iter()
            .filter(|peer| peer.name == name)
            .map(published)
            .collect(),
    };
    if found.is_empty() {
        let known: Vec<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
        bail!(
            "no published scheduler `{name}` is known (known: {DEFAULT}, {LIMIT}, peers, {}); a program \
             is named as NAME=PATH",
            known.join(", ")
        );
    }
    Ok(found)
}

fn parse_program(value: &str) -> Result<Spec> {
    let (name, command) = value.split_once('=').unwrap_or((value, ""));
    let mut words = command.split_whitespace().map(str::to_string);
    let (Some(path), false) = (words.next(), name.trim().is_empty()) else {
        bail!("`{value}` is not NAME=PATH ARGS");
    };
    let path = PathBuf::from(path);
    if !path.is_file() {
        bail!("{}: no such program", path.display());
    }
    let source = Source::Program {
        path,
        args: words.collect(),
    };
    Ok(Spec {
        name: name.trim().to_string(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(values: &[&str]) -> Result<Vec<Spec>> {
        let sched = values.iter().map(|value| value.to_string()).collect();
        SpecArgs { sched, peers: None }.specs()
    }

    #[test]
    fn names_and_programs_are_told_apart() {
        let specs = parse(&["default,scx_flash", "mine=/bin/sh -c a,b"]).unwrap();
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["default", "scx_flash", "mine"]);
        assert_eq!(specs[0].source, Source::Kernel);
        assert_eq!(parse(&["limit"]).unwrap()[0].source, Source::Limit);
        let args = vec!["-c".to_string(), "a,b".to_string()];
        assert_eq!(
            specs[2].source,
            Source::Program {
                path: "/bin/sh".into(),
                args
            }
        );
    }

    #[test]
    fn a_program_may_end_a_list() {
        let specs = parse(&["default,mine=/bin/sh -v"]).unwrap();
        assert_eq!(specs.len(), 2);
        assert_eq!(specs[1].name, "mine");
    }

    #[test]
    fn wrong_names_missing_programs_and_doubles_are_refused() {
        for (values, word) in [
            (vec!["scx_nonsense"], "scx_nonsense"),
            (vec!["mine=/nonexistent"], "no such program"),
            (vec!["mine="], "NAME=PATH"),
            (vec!["default,default"], "twice"),
            (vec![""], "no scheduler"),
        ] {
            let error = parse(&values).unwrap_err().to_string();
            assert!(error.contains(word), "{values:?}: {error}");
        }
    }
}
