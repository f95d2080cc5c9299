//! Rules of ananicy, as a distribution may have installed them.
//!
//! A line of `*.rules` is a JSON object that names a program and its type, a line
//! of `*.types` one that defines a type; what follows the object does not count,
//! nor do lines that begin with `#`. Ananicy sets a nice level by these, among
//! other things. That stays its own business, so that nothing counts twice; here
//! they say what a program is, the first line that holds:
//!
//! | type, class, nice level | says |
//! |---|---|
//! | type `Game` | at least interactive |
//! | type `LowLatency_RT` | at least latency critical |
//! | class `idle` or `batch` | at most batch |
//! | another class, such as `normal` or `fifo` | nothing |
//! | types `BG_...` and `Heavy_CPU`, unless the nice level is 0 or below | at most batch |
//! | all others | nothing |
//!
//! Class and nice level are those of the rule itself, else those of its type. A
//! nice level above 0 says nothing: distributions give one to programs that need
//! little CPU time, such as a message bus, a panel or a launcher of games. A
//! smaller share does not hurt these, but to be served as batch work would.
//!
//! Limits: a name is that of a whole program; rules that look at the rest of the
//! command line (`cmdlines`) are refused.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Facts, NICE, Place};
use crate::hint::{Hint, Tier};

/// Types that are looked for one by one; distributions have some twenty.
const NR_TYPES_MAX: usize = 1000;

/// Types that are known by name.
const GAME: &str = "Game";
const LOW_LATENCY: &str = "LowLatency_RT";
const BACKGROUND_PREFIX: &str = "BG_";
const HEAVY: &str = "Heavy_CPU";

/// What the program of every AppImage may be called: this names none of them.
const ANY_APP_IMAGE: &str = "AppRun";

/// One line, without what is not looked at.
#[derive(Deserialize)]
struct Line {
    name: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    nice: Option<i64>,
    sched: Option<String>,
    cmdlines: Option<IgnoredAny>,
    /// In the definition of a cgroup it stands alone.
    cgroup: Option<IgnoredAny>,
}

/// What a rule, or the definition of a type, says of how a program is to be run.
#[derive(Clone, Copy, Debug, Default)]
struct Traits {
    class: Option<Class>,
    nice: Option<i64>,
}

/// What a scheduling class says of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// `idle` and `batch`.
    Background,
    /// All others, among them those that go before all normal work.
    Other,
}

/// What a rule says of a program.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub place: Place,
    /// Index of its type.
    kind: Option<u32>,
    traits: Traits,
}

/// A type that a rule or a definition named.
#[derive(Debug)]
struct Type {
    name: Box<str>,
    /// Those of its definition, none before that is read.
    traits: Traits,
}

/// The rules, by the names of programs.
#[derive(Debug, Default)]
pub struct Ananicy {
    names: HashMap<Box<str>, Entry>,
    types: Vec<Type>,
}

impl Ananicy {
    /// Take in the lines of a file. A rule replaces an earlier one of its name.
    pub fn parse(&mut self, text: &str, file: u32, report: &mut impl FnMut(Option<u32>, String)) {
        for (number, line) in (1u32..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let place = Place { file, line: number };
            if let Err(what) = self.parse_line(line, place) {
                report(Some(number), what);
            }
        }
    }

    fn parse_line(&mut self, line: &str, place: Place) -> Result<(), String> {
        if !line.starts_with('{') {
            return Err("is not a rule: { \"name\": ..., \"type\": ... }".to_owned());
        }
        let mut values = serde_json::Deserializer::from_str(line).into_iter::<Line>();
        let line = match values.next() {
            Some(Ok(line)) => line,
            Some(Err(err)) => return Err(without_position(&err)),
            None => return Err("is empty".to_owned()),
        };
        let traits = line.traits()?;
        match (line.name, line.kind) {
            (Some(_), _) if line.cmdlines.is_some() => {
                Err("cmdlines is not supported: this rule is left out".to_owned())
            }
            (Some(name), _) if name.is_empty() => Err("the name is empty".to_owned()),
            (Some(name), kind) => {
                let kind = kind.map(|name| self.type_idx(&name)).transpose()?;
                let entry = Entry {
                    place,
                    kind,
                    traits,
                };
                self.names.insert(name.into(), entry);
                Ok(())
            }
            (None, Some(name)) => {
                let idx = self.type_idx(&name)?;
                self.types[idx as usize].traits = traits;
                Ok(())
            }
            (None, None) if line.cgroup.is_some() => Ok(()),
            (None, None) => Err("names neither a program nor a type".to_owned()),
        }
    }

    /// The index of the type of that name, a new one if need be.
    fn type_idx(&mut self, name: &str) -> Result<u32, String> {
        let known = self.types.iter().position(|kind| *kind.name == *name);
        let idx = known.unwrap_or(self.types.len());
        if idx >= NR_TYPES_MAX {
            return Err(format!("there are more than {NR_TYPES_MAX} types"));
        }
        if known.is_none() {
            self.types.push(Type {
                name: name.into(),
                traits: Traits::default(),
            });
        }
        u32::try_from(idx).map_err(|err| err.to_string())
    }

    /// Give back memory that reading needed and looking things up does not.
    pub fn shrink(&mut self) {
        self.names.shrink_to_fit();
    }

    /// How many programs have a rule.
    pub fn nr_rules(&self) -> usize {
        self.names.len()
    }

    /// How many types were named.
    pub fn nr_types(&self) -> usize {
        self.types.len()
    }

    /// The rule of a process: that of the first of its names which has one.
    pub fn find<'a>(&self, facts: &'a Facts) -> Option<(&'a str, &Entry)> {
        let mut names = facts.names().filter(|name| *name != ANY_APP_IMAGE);
        names.find_map(|name| Some((name, self.names.get(name)?)))
    }

    /// Why a rule matches a process.
    pub fn why(&self, name: &str, entry: &Entry) -> String {
        match entry.kind {
            Some(kind) => format!("name {name}, type {}", self.types[kind as usize].name),
            None => format!("name {name}, without a type"),
        }
    }

    /// What a rule says; see the table above.
    pub fn hint(&self, entry: &Entry) -> Hint {
        let kind = entry.kind.map(|kind| &self.types[kind as usize]);
        let name = kind.map_or("", |kind| &kind.name);
        let of_type = kind.map_or(Traits::default(), |kind| kind.traits);
        let class = entry.traits.class.or(of_type.class);
        let nice = entry.traits.nice.or(of_type.nice);
        let is_background = match class {
            Some(class) => class == Class::Background,
            None => {
                (name.starts_with(BACKGROUND_PREFIX) || name == HEAVY)
                    && nice.is_none_or(|nice| nice > 0)
            }
        };
        match name {
            GAME => at_least(Tier::Interactive),
            LOW_LATENCY => at_least(Tier::LatCritical),
            _ if is_background => Hint {
                greatest_tier: Some(Tier::Batch),
                ..Hint::default()
            },
            _ => Hint::default(),
        }
    }
}

impl Line {
    /// How it wants a program to be run.
    fn traits(&self) -> Result<Traits, String> {
        if let Some(nice) = self.nice
            && !NICE.contains(&nice)
        {
            let (least, greatest) = (NICE.start(), NICE.end());
            return Err(format!(
                "nice is {nice}: must be from {least} to {greatest}"
            ));
        }
        let class = self.sched.as_deref().map(|class| match class {
            "idle" | "batch" => Class::Background,
            _ => Class::Other,
        });
        Ok(Traits {
            class,
            nice: self.nice,
        })
    }
}

fn at_least(tier: Tier) -> Hint {
    Hint {
        least_tier: Some(tier),
        ..Hint::default()
    }
}

/// What serde_json says, without where in the line: it is given one line.
fn without_position(err: &serde_json::Error) -> String {
    let text = err.to_string();
    match text.split_once(" at line ") {
        Some((what, _)) => what.to_owned(),
        None => text,
    }
}
