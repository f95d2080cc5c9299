// SPDX-License-Identifier: GPL-2.0
//! What was counted in a guest with caches.
//!
//! *What did it cost, and who made it so?* A span is what happened from one
//! `guest-count begin` to its end: how often which level was missed, by CPU and by
//! whose code it was, and, if asked for, the lines that CPUs took from each other, with
//! the instructions that did. The plugin writes a line of JSON for each span; this
//! reads them. Pure: text in, spans out.
//!
//! Instructions are named by address. Those of the kernel and of BPF programs are in
//! `/proc/kallsyms` of the same run; those of user programs may be of any that has code
//! there.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, Result};

/// As many meetings as are told of each line.
const NR_MEETINGS_MAX: usize = 8;

const LINE_SHIFT: u32 = 6;

/// What was counted of some code. An access of two lines counts as two, and one that
/// reads and writes, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counts {
    /// Instructions executed; a block that a page fault ended is counted whole.
    pub instructions: u64,
    /// Reads and writes of memory, those of devices apart.
    pub accesses: u64,
    /// Accesses whose line was not in the L1.
    pub l1_misses: u64,
    /// Accesses whose line was not in the L2 either. They got it from the own L3 if
    /// not from one of the next three.
    pub l2_misses: u64,
    /// Lines that came from another core below the same L3, since that had written
    /// them.
    pub remote: u64,
    /// Lines that came from below another L3, since a core there had written them.
    pub far: u64,
    /// Lines that came from memory.
    pub memory: u64,
    /// Writes that took the line from other cores, or from other L3s.
    pub invalidations: u64,
}

impl Counts {
    /// Lines that came from the own L3.
    pub fn l3_hits(&self) -> u64 {
        self.l2_misses - self.remote - self.far - self.memory
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.accesses += other.accesses;
        self.l1_misses += other.l1_misses;
        self.l2_misses += other.l2_misses;
        self.remote += other.remote;
        self.far += other.far;
        self.memory += other.memory;
        self.invalidations += other.invalidations;
    }
}

/// The same by whose code it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ByKind {
    /// Of user programs.
    pub user: Counts,
    /// Of the kernel, what BPF programs call of it included.
    pub kernel: Counts,
    /// Of BPF programs, or of modules if there are any.
    pub bpf: Counts,
}

impl AddAssign for ByKind {
    fn add_assign(&mut self, other: Self) {
        self.user += other.user;
        self.kernel += other.kernel;
        self.bpf += other.bpf;
    }
}

/// Whose code it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A user program's.
    User,
    /// The kernel's.
    Kernel,
    /// A BPF program's, or a module's.
    Bpf,
}

/// An address; in JSON a text like `0xffffffff81000000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub u64);

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").unwrap_or_default();
        let address = u64::from_str_radix(digits, 16);
        address
            .map(Self)
            .map_err(|_| D::Error::custom(format_args!("{text:?} is no address like 0xff")))
    }
}

/// What happened from where a program in the guest began to count to where one ended it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Span {
    /// The name that it was given, at most 64 bytes; may be empty.
    pub name: String,
    /// The guest's time from its begin to its end.
    pub duration_ns: u64,
    /// Of all CPUs together.
    pub total: ByKind,
    /// Of each CPU, the first one first.
    pub cpus: Vec<ByKind>,
    /// The instructions that met most lines of other cores, the worst first: of each
    /// kind as many as were asked for ([`crate::Caches::nr_top`]).
    pub sites: Vec<Site>,
    /// The lines that cores took from each other most often, the worst first: as many
    /// as were asked for.
    pub lines: Vec<Line>,
}

/// An instruction that met lines of other cores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Site {
    /// Where it is.
    pub address: Address,
    /// Whose it is.
    pub kind: Kind,
    /// Lines that it got from other cores, [`Counts::remote`] and [`Counts::far`].
    pub remote: u64,
    /// Lines that it took from others to write them.
    pub invalidations: u64,
}

/// A line that cores took from each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Line {
    /// Where it is in the guest's memory.
    pub physical: Address,
    /// Where something in it is for the code that uses it, as one of its instructions
    /// sees it.
    pub address: Address,
    /// How often one core got it from another.
    pub remote: u64,
    /// How often one core took it from others to write it.
    pub invalidations: u64,
    /// Who meets whom there, the most frequent first, at most eight.
    pub meetings: Vec<Meeting>,
}

/// Two instructions on different cores: one had written a line, then came the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Meeting {
    /// The one that came.
    pub by: Address,
    /// What of the line it wanted, in bytes from its begin.
    pub offset: u8,
    /// The one that had written the line last; 0 if nobody had.
    pub written_by: Address,
    /// Where in the line that wrote. Where it is apart from `offset`, the two may have
    /// nothing in common but the line.
    pub written_offset: u8,
    /// How often it got the line from another core to read it.
    pub reads: u64,
    /// How often it got the line from another core to write it.
    pub writes: u64,
    /// How often it took the line from others to write it.
    pub invalidations: u64,
}

/// What the plugin writes in a line.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Written {
    Base(Base),
    Span(WrittenSpan),
    /// The name of a span that was not ended.
    Open {
        open: String,
    },
}

/// The base of a CPU's data, by which the plugin knows the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct Base {
    pub(crate) cpu: u32,
    pub(crate) base: u64,
}

#[derive(Debug, Deserialize)]
struct WrittenSpan {
    name: String,
    duration_ns: u64,
    /// Blocks of which it is not known which CPU executed them.
    unknown: u64,
    cpus: Vec<ByKind>,
    meetings: Vec<WrittenMeeting>,
}

#[derive(Debug, Deserialize)]
struct WrittenMeeting {
    kind: Kind,
    line: u64,
    address: u64,
    pc: u64,
    written_pc: u64,
    written_offset: u8,
    reads: u64,
    writes: u64,
    invalidations: u64,
}

/// What the plugin wrote: bases of CPUs, and spans with `nr_top` lines and instructions.
pub(crate) fn parse(text: &str, nr_top: u32) -> Result<(Vec<Base>, Vec<Span>)> {
    let (mut bases, mut spans) = (Vec::new(), Vec::new());
    for line in text.lines() {
        match serde_json::from_str(line) {
            Ok(Written::Base(base)) => bases.push(base),
            Ok(Written::Span(written)) => spans.push(written.into_span(nr_top)?),
            Ok(Written::Open { open }) => {
                log::warn!("span {open:?} was not ended, so it is not counted");
            }
            Err(error) => return Err(Error::Caches(format!("counted {line:?}: {error}"))),
        }
    }
    Ok((bases, spans))
}

impl WrittenSpan {
    fn into_span(self, nr_top: u32) -> Result<Span> {
        if self.unknown > 0 {
            return Err(Error::Caches(format!(
                "span {:?}: it is not known on which CPU {} blocks of instructions were executed",
                self.name, self.unknown
            )));
        }
        let mut total = ByKind::default();
        for cpu in &self.cpus {
            total += *cpu;
        }
        let nr_top = usize::try_from(nr_top).unwrap_or(usize::MAX);
        Ok(Span {
            name: self.name,
            duration_ns: self.duration_ns,
            total,
            cpus: self.cpus,
            sites: top_sites(&self.meetings, nr_top),
            lines: top_lines(self.meetings, nr_top),
        })
    }
}

/// The worst instructions of each kind.
fn top_sites(meetings: &[WrittenMeeting], nr_top: usize) -> Vec<Site> {
    let mut sites: BTreeMap<(u64, Kind), (u64, u64)> = BTreeMap::new();
    for meeting in meetings {
        let (remote, invalidations) = sites.entry((meeting.pc, meeting.kind)).or_default();
        *remote += meeting.remote();
        *invalidations += meeting.invalidations;
    }
    let mut sites: Vec<Site> = sites
        .into_iter()
        .filter(|(_, (remote, _))| *remote > 0)
        .map(|((address, kind), (remote, invalidations))| Site {
            address: Address(address),
            kind,
            remote,
            invalidations,
        })
        .collect();
    // Stable, so that equal ones stay in the order of their addresses.
    sites.sort_by_key(|site| std::cmp::Reverse((site.remote, site.invalidations)));
    let mut nr_of = BTreeMap::new();
    sites.retain(|site| {
        let nr: &mut usize = nr_of.entry(site.kind).or_default();
        *nr += 1;
        *nr <= nr_top
    });
    sites
}

/// The worst lines, with their meetings.
fn top_lines(mut meetings: Vec<WrittenMeeting>, nr_top: usize) -> Vec<Line> {
    meetings.sort_by_key(|meeting| {
        let often = meeting.remote() + meeting.invalidations;
        let who = (meeting.pc, meeting.written_pc);
        (meeting.line, std::cmp::Reverse(often), who)
    });
    let mut lines: Vec<Line> = meetings
        .chunk_by(|one, other| one.line == other.line)
        .map(|meetings| Line {
            physical: Address(meetings[0].line << LINE_SHIFT),
            address: Address(meetings[0].address),
            remote: meetings.iter().map(WrittenMeeting::remote).sum(),
            invalidations: meetings.iter().map(|meeting| meeting.invalidations).sum(),
            meetings: meetings
                .iter()
                .take(NR_MEETINGS_MAX)
                .map(WrittenMeeting::as_meeting)
                .collect(),
        })
        .collect();
    lines.sort_by_key(|line| std::cmp::Reverse((line.remote, line.invalidations)));
    lines.truncate(nr_top);
    lines
}

impl WrittenMeeting {
    fn remote(&self) -> u64 {
        self.reads + self.writes
    }

    fn as_meeting(&self) -> Meeting {
        Meeting {
            by: Address(self.pc),
            offset: (self.address % (1 << LINE_SHIFT)) as u8,
            written_by: Address(self.written_pc),
            written_offset: self.written_offset,
            reads: self.reads,
            writes: self.writes,
            invalidations: self.invalidations,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: &str = "{\"instructions\":9,\"accesses\":8,\"l1_misses\":7,\"l2_misses\":6,\
        \"remote\":1,\"far\":1,\"memory\":1,\"invalidations\":2}";

    fn span(unknown: u64, meetings: &str) -> String {
        let cpu = format!("{{\"user\":{COUNTS},\"kernel\":{COUNTS},\"bpf\":{COUNTS}}}");
        format!(
            "{{\"name\":\"a\",\"duration_ns\":5,\"unknown\":{unknown},\"cpus\":[{cpu},{cpu}],\
             \"meetings\":[{meetings}]}}\n"
        )
    }

    fn meeting(line: u64, pc: u64, written_pc: u64, reads: u64, invalidations: u64) -> String {
        let address = line * 64 + 3;
        let kind = match pc {
            0..0x8000_0000_0000 => "user",
            0xffff_ffff_c000_0000.. => "bpf",
            _ => "kernel",
        };
        format!(
            "{{\"kind\":\"{kind}\",\"line\":{line},\"address\":{address},\"pc\":{pc},\"written_pc\":{written_pc},\
             \"written_offset\":8,\"reads\":{reads},\"writes\":0,\"invalidations\":{invalidations}}}"
        )
    }

    #[test]
    fn cpus_add_up_and_bases_are_apart() {
        let text = format!(
            "{{\"cpu\":1,\"base\":18446612682}}\n{}{{\"open\":\"b\"}}\n",
            span(0, "")
        );
        let (bases, spans) = parse(&text, 0).unwrap();
        let base = Base {
            cpu: 1,
            base: 18_446_612_682,
        };
        assert_eq!((bases, spans.len()), (vec![base], 1));
        assert_eq!((spans[0].name.as_str(), spans[0].duration_ns), ("a", 5));
        assert_eq!(spans[0].cpus.len(), 2);
        assert_eq!(spans[0].total.bpf.instructions, 18);
        assert_eq!(spans[0].total.user.l3_hits(), 6);
        assert!(spans[0].lines.is_empty() && spans[0].sites.is_empty());
    }

    #[test]
    fn the_worst_lines_and_instructions_come_first() {
        let (bpf, kernel) = (0xffff_ffff_c000_0000, 0xffff_ffff_8100_0000);
        let meetings = [
            meeting(5, 100, 1, 2, 9),
            meeting(6, 200, 1, 3, 0),
            meeting(7, 100, 1, 2, 0),
            meeting(7, kernel, 2, 3, 1),
            meeting(8, bpf, 1, 1, 1),
            meeting(9, bpf + 1, 1, 0, 7),
        ];
        let (_, spans) = parse(&span(0, &meetings.join(",")), 1).unwrap();
        let sites: Vec<_> = spans[0]
            .sites
            .iter()
            .map(|s| (s.address.0, s.kind))
            .collect();
        assert_eq!(
            sites,
            [(100, Kind::User), (kernel, Kind::Kernel), (bpf, Kind::Bpf)]
        );
        let [line] = spans[0].lines.as_slice() else {
            panic!("not one line")
        };
        assert_eq!(
            (line.physical.0, line.remote, line.invalidations),
            (7 * 64, 5, 1)
        );
        assert_eq!(line.meetings[0].by.0, kernel);
        assert_eq!(
            (line.meetings[1].offset, line.meetings[1].written_offset),
            (3, 8)
        );
        let json = serde_json::to_string(&spans).unwrap();
        assert!(json.contains("\"by\":\"0xffffffff81000000\""), "{json}");
        assert_eq!(serde_json::from_str::<Vec<Span>>(&json).unwrap(), spans);
        let json = json.replace("\"0xffffffff81000000\"", "\"12\"");
        assert!(serde_json::from_str::<Vec<Span>>(&json).is_err());
    }

    #[test]
    fn what_no_cpu_is_known_for_is_no_result() {
        let error = parse(&span(3, ""), 0).unwrap_err().to_string();
        assert!(error.contains("3 blocks"), "{error}");
        assert!(parse("nonsense\n", 0).is_err());
    }
}
