//! Our own rules, one `[[rule]]` each in a TOML file.
//!
//! ```toml
//! [[rule]]
//! name = "game.exe"          # or a list: ["game.exe", "launcher*"]
//! least_tier = "interactive"
//!
//! [[rule]]
//! cgroup = "/background.slice"
//! user = ["builder", 1001]
//! greatest_tier = "batch"
//! weight_pct = 50
//! ```
//!
//! A rule matches a process for which each of its conditions holds: `name`,
//! `path`, `cgroup`, `user`, `nice`. It says at least one of `least_tier`,
//! `greatest_tier`, `weight_pct` and `confine`. A rule with anything else in it is
//! left out, and the others of its file count.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::path::Path;

use nix::unistd::User;
use serde::de::{self, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::pattern::Pattern;
use super::{Facts, NICE, Place, lint};
use crate::hint::{Hint, Tier};

/// By what a weight may be multiplied, in percent: no more than the kernel's ten
/// nice levels either way.
const WEIGHT_PCT: RangeInclusive<i64> = 10..=1000;

/// The one key of a file.
const RULE_KEY: &str = "rule";

/// A rule as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: Option<Spanned<OneOrMore<Pattern>>>,
    path: Option<Spanned<OneOrMore<Pattern>>>,
    cgroup: Option<Spanned<OneOrMore<CgroupPath>>>,
    user: Option<OneOrMore<UserId>>,
    nice: Option<NiceLevels>,
    least_tier: Option<Tier>,
    greatest_tier: Option<Tier>,
    weight_pct: Option<WeightPct>,
    confine: Option<bool>,
}

/// One value or a list of them.
struct OneOrMore<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = deserializer.deserialize_any(ValuesVisitor(PhantomData))?;
        Ok(OneOrMore(values))
    }
}

struct ValuesVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ValuesVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("one value or a list of them")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        Ok(vec![T::deserialize(text.into_deserializer())?])
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Vec<T>, E> {
        Ok(vec![T::deserialize(number.into_deserializer())?])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        if values.is_empty() {
            return Err(de::Error::custom("the list is empty"));
        }
        Ok(values)
    }
}

/// The path of a cgroup below its root, without a slash at the end.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct CgroupPath(String);

impl TryFrom<String> for CgroupPath {
    type Error = String;

    fn try_from(text: String) -> Result<CgroupPath, String> {
        let path = text.trim_end_matches('/');
        if !path.starts_with('/') {
            return Err("must begin with / and be below the root".to_owned());
        }
        if path.contains('*') {
            return Err("no * is needed: what is below counts as well".to_owned());
        }
        Ok(CgroupPath(path.to_owned()))
    }
}

impl CgroupPath {
    /// Whether it is that of `cgroup` or of one above.
    fn holds(&self, cgroup: &str) -> bool {
        let below = cgroup.strip_prefix(&self.0);
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// A user, by name or id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "UserText")]
struct UserId(u32);

#[derive(Deserialize)]
#[serde(untagged, expecting = "must be the name or the id of a user")]
enum UserText {
    Id(u32),
    Name(String),
}

impl TryFrom<UserText> for UserId {
    type Error = String;

    fn try_from(text: UserText) -> Result<UserId, String> {
        let name = match text {
            UserText::Id(id) => return Ok(UserId(id)),
            UserText::Name(name) => name,
        };
        match User::from_name(&name) {
            Ok(Some(user)) => Ok(UserId(user.uid.as_raw())),
            Ok(None) => Err(format!("there is no user {name}")),
            Err(err) => Err(format!("looking for user {name}: {err}")),
        }
    }
}

/// Nice levels: one, or the least and the greatest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NiceText")]
struct NiceLevels(RangeInclusive<i64>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "must be a nice level, or two as \"5..19\"")]
enum NiceText {
    One(i64),
    Range(String),
}

impl TryFrom<NiceText> for NiceLevels {
    type Error = String;

    fn try_from(text: NiceText) -> Result<NiceLevels, String> {
        let bad = || "must be a nice level from -20 to 19, or two as \"5..19\"".to_owned();
        let (first, last) = match &text {
            NiceText::One(level) => (*level, *level),
            NiceText::Range(text) => {
                let (first, last) = text.split_once("..").ok_or_else(bad)?;
                let read = |text: &str| text.trim().parse().map_err(|_| bad());
                (read(first)?, read(last)?)
            }
        };
        if !NICE.contains(&first) || !NICE.contains(&last) || first > last {
            return Err(bad());
        }
        Ok(NiceLevels(first..=last))
    }
}

/// By what a weight is multiplied, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "i64")]
struct WeightPct(u16);

impl TryFrom<i64> for WeightPct {
    type Error = String;

    fn try_from(pct: i64) -> Result<WeightPct, String> {
        let (least, greatest) = (WEIGHT_PCT.start(), WEIGHT_PCT.end());
        match u16::try_from(pct) {
            Ok(value) if WEIGHT_PCT.contains(&pct) => Ok(WeightPct(value)),
            _ => Err(format!("must be from {least} to {greatest}")),
        }
    }
}

/// A rule.
#[derive(Debug)]
pub struct Rule {
    pub place: Place,
    pub hint: Hint,
    names: Option<Vec<Pattern>>,
    paths: Option<Vec<Pattern>>,
    cgroups: Option<Vec<CgroupPath>>,
    users: Option<Vec<UserId>>,
    nice: Option<NiceLevels>,
}

impl Rule {
    /// The names that it asks for, if each is a whole one.
    pub fn whole_names(&self) -> Option<Vec<&str>> {
        self.names.as_ref()?.iter().map(Pattern::whole).collect()
    }

    /// The same of paths.
    pub fn whole_paths(&self) -> Option<Vec<&str>> {
        self.paths.as_ref()?.iter().map(Pattern::whole).collect()
    }

    /// Why it matches a process; `None` if it does not.
    pub fn matches(&self, facts: &Facts) -> Option<String> {
        let mut why = Vec::new();
        if let Some(names) = &self.names {
            let name = facts
                .names()
                .find(|name| names.iter().any(|pattern| pattern.matches(name)))?;
            why.push(format!("name {name}"));
        }
        if let Some(paths) = &self.paths {
            let exe = facts.exe.as_ref()?;
            paths.iter().find(|pattern| pattern.matches(exe))?;
            why.push(format!("path {exe}"));
        }
        if let Some(cgroups) = &self.cgroups {
            let cgroup = facts.cgroup.as_ref()?;
            let found = cgroups.iter().find(|path| path.holds(cgroup))?;
            why.push(format!("cgroup {}", found.0));
        }
        if let Some(users) = &self.users {
            users.iter().find(|user| user.0 == facts.uid)?;
            why.push(format!("user {}", facts.uid));
        }
        if let Some(NiceLevels(levels)) = &self.nice {
            levels.contains(&facts.nice.into()).then_some(())?;
            why.push(format!("nice {}", facts.nice));
        }
        Some(why.join(", "))
    }
}

/// The file that rules stand in.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Its index in [`super::Rules::files`].
    pub file: u32,
    /// Whether the machine's owner or its user wrote it, not the distribution.
    pub is_own: bool,
    /// What a `~` in it stands for.
    pub home: Option<&'a Path>,
}

/// Something to say about a rule: where in the text, if not at its beginning.
type Remark = (Option<usize>, String);

/// The rules of a file; what is wrong with it, and what never matches, is reported.
pub fn parse(
    text: &str,
    origin: Origin<'_>,
    report: &mut impl FnMut(Option<u32>, String),
) -> Vec<Rule> {
    let table = match DeTable::parse(text) {
        Ok(table) => table.into_inner(),
        Err(err) => {
            let line = err.span().map(|span| Lines::new(text).of(span.start));
            report(line, format!("is no TOML: {}", message(&err)));
            return Vec::new();
        }
    };
    let lines = Lines::new(text);
    let mut rules = Vec::new();
    for (key, value) in table {
        let line = lines.of(key.span().start);
        match value.into_inner() {
            DeValue::Array(values) if key.get_ref() == RULE_KEY => {
                for value in values {
                    let line = lines.of(value.span().start);
                    let mut remark = |(at, what): Remark| {
                        report(Some(at.map_or(line, |at| lines.of(at))), what);
                    };
                    match read_rule(value, origin, line, &mut remark) {
                        Ok(rule) => rules.push(rule),
                        Err(wrong) => remark(wrong),
                    }
                }
            }
            _ => {
                let what = format!("{}: a file has [[{RULE_KEY}]] only", key.get_ref());
                report(Some(line), what);
            }
        }
    }
    rules
}

/// The patterns of a key, each of which may have something to say about it.
fn patterns<T>(
    written: Option<Spanned<OneOrMore<T>>>,
    lint: impl Fn(&T) -> Option<String>,
    remark: &mut impl FnMut(Remark),
) -> Option<Vec<T>> {
    let written = written?;
    let at = written.span().start;
    let OneOrMore(patterns) = written.into_inner();
    for what in patterns.iter().filter_map(lint) {
        remark((Some(at), what));
    }
    Some(patterns)
}

/// The paths of a key, with the home of the user who wrote them.
fn with_home(
    written: Option<Spanned<OneOrMore<Pattern>>>,
    home: Option<&Path>,
) -> Option<Spanned<OneOrMore<Pattern>>> {
    let mut written = written?;
    if let Some(home) = home {
        let OneOrMore(patterns) = written.get_mut();
        patterns.iter_mut().for_each(|pattern| pattern.expand(home));
    }
    Some(written)
}

/// The rule of line `line`, or where in the text and why there is none.
fn read_rule(
    value: Spanned<DeValue<'_>>,
    origin: Origin<'_>,
    line: u32,
    remark: &mut impl FnMut(Remark),
) -> Result<Rule, Remark> {
    if !value.get_ref().is_table() {
        return Err((None, format!("a rule is a table: [[{RULE_KEY}]]")));
    }
    let written = Written::deserialize(ValueDeserializer::from(value))
        .map_err(|err| (err.span().map(|span| span.start), message(&err)))?;
    // A rule of a whole cgroup or user says nothing of the one program that was
    // niced down there.
    let is_explicit = origin.is_own && (written.name.is_some() || written.path.is_some());
    let rule = Rule {
        place: Place {
            file: origin.file,
            line,
        },
        hint: Hint {
            least_tier: written.least_tier,
            ignores_nice: is_explicit && written.least_tier > Some(Tier::Batch),
            greatest_tier: written.greatest_tier,
            weight_pct: written.weight_pct.map(|pct| pct.0),
            confine: written.confine,
        },
        names: patterns(written.name, lint::name, remark),
        paths: patterns(with_home(written.path, origin.home), lint::path, remark),
        cgroups: patterns(written.cgroup, |path| lint::cgroup(&path.0), remark),
        users: written.user.map(|OneOrMore(users)| users),
        nice: written.nice,
    };
    let is_for_all = rule.names.is_none()
        && rule.paths.is_none()
        && rule.cgroups.is_none()
        && rule.users.is_none()
        && rule.nice.is_none();
    let what = if is_for_all {
        "matches every program: name, path, cgroup, user or nice is needed"
    } else if rule.hint.is_empty() {
        "says nothing: least_tier, greatest_tier, weight_pct or confine is needed"
    } else if let (Some(least), Some(greatest)) = (rule.hint.least_tier, rule.hint.greatest_tier)
        && least > greatest
    {
        "least_tier is above greatest_tier"
    } else {
        return Ok(rule);
    };
    Err((None, what.to_owned()))
}

/// What toml says, in one line.
fn message(err: &toml::de::Error) -> String {
    let words: Vec<&str> = err.message().split_whitespace().collect();
    words.join(" ")
}

/// Where the lines of a text end: each rule has a line, so a look at the whole text
/// for each would take minutes with many.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Lines {
        let bytes = text.bytes().enumerate();
        let ends = bytes.filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at);
        Lines(ends.collect())
    }

    /// The line of a byte, from 1.
    fn of(&self, at: usize) -> u32 {
        let nr_before = self.0.partition_point(|end| *end < at);
        u32::try_from(nr_before)
            .unwrap_or(u32::MAX)
            .saturating_add(1)
    }
}
