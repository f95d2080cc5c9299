// SPDX-License-Identifier: GPL-2.0
//! `scx_bench lines`: what a cache line costs on this machine's CPUs.
//!
//! A model of caches that counts hits, misses and lines that change hands says
//! little before each has a price. Here are prices, of real CPUs:
//!
//!   1. a load that waits for the one before, from each cache of one CPU and
//!      from memory (`caches`);
//!   2. a line that another CPU has written, or has read, for one pair of CPUs of
//!      each relation that the machine has (`pair`, `topology`).
//!
//! Everything is measured in many short runs. Each figure is the median over
//! them, with the values that a tenth of the runs is below and above: on a busy
//! machine the spread grows long before the median does.
//!
//! Limits: prices of one load at a time, of which a CPU has many under way in most
//! programs; of one pair for each relation, although distances within a package
//! differ; of lines whose memory is on the node of the CPU that reads. Sizes of
//! caches, and which CPUs share them, are what the kernel tells, in a virtual
//! machine what the hypervisor tells.
//!
//! Not here: any scheduler.

mod caches;
mod cycle;
mod figure;
mod pair;
mod pin;
mod quantiles;
mod speed;
mod topology;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

pub use self::topology::CpuPair;

use self::figure::{Figure, What};
use self::topology::{Cpu, Pair, Relation};
use crate::host::noise;
use crate::run;
use crate::table;
use crate::text;

const CPUS: &str = "/sys/devices/system/cpu";

/// In fewer huge pages than this, translating addresses is in the figures, in percent.
const HUGE_ENOUGH_PCT: f64 = 99.0;

/// A load of a line that the other wrote takes a few times as long as one from an
/// L3 cache that they share: twice on a Zen 4, of which two without one need nine
/// times as long. From this many on they do not share it, whatever sysfs says.
const SHARED_L3_RATIO_MAX: f64 = 6.0;

/// Measure what a cache line costs here.
#[derive(Debug, Clone, clap::Args)]
pub struct LinesArgs {
    /// Two CPUs, such as 0,1: the first reads what the second has written. May be given several
    /// times; caches and memory are those of the first CPU. Without it, one pair of each kind that
    /// the machine has: SMT siblings, same L2, same L3, another L3, another package.
    #[arg(long, value_name = "A,B")]
    pub cpus: Vec<CpuPair>,
    /// How often each figure is measured; 300 take some seconds.
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub runs: usize,
    /// Write all of it to this file; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Everything that was found.
#[derive(Debug, Serialize)]
struct Report {
    /// The model as the kernel names it; empty where it does not.
    cpu: String,
    kernel: String,
    /// Does the CPU say that a hypervisor is below?
    is_virtual: bool,
    runs: usize,
    /// How much of the memory for caches was in huge pages, in percent.
    huge_pct: f64,
    /// What a hypervisor took of the time of all CPUs meanwhile, in percent.
    steal_pct: f64,
    figures: Vec<Figure>,
    /// What was not measured, and why.
    left_out: Vec<String>,
    /// What else is in the figures.
    notes: Vec<String>,
}

/// Measure what `args` say, print it and write it.
///
/// # Errors
///
/// If the options name what is not there, the kernel refuses to keep a thread on
/// a CPU, sysfs tells nothing of caches, or something cannot be written.
pub fn run(args: &LinesArgs) -> Result<()> {
    if args.runs == 0 {
        bail!("--runs must be at least 1");
    }
    let cpus = topology::read(Path::new(CPUS), &pin::usable()?)?;
    let pairs = pairs(&cpus, &args.cpus)?;
    let first_id = pairs.first().map_or(0, |pair| pair.here);
    let is_first = |cpu: &&Cpu| args.cpus.is_empty() || cpu.id == first_id;
    let first = cpus.iter().find(is_first).context("no CPU may be used")?;

    let mut notes = noise::warnings()?;
    let stat = read("/proc/stat");
    let (walks, mut left_out) = caches::walks(&first.caches, available_bytes()?);
    let found = caches::measure(first, &walks, args.runs)?;
    let mut figures = found.figures;
    for &pair in &pairs {
        let l1 = cpus.iter().find(|cpu| cpu.id == pair.here);
        let l1 = l1.and_then(|cpu| cpu.caches.first()).context("a cache")?;
        figures.extend(pair::measure(pair, l1, args.runs)?);
    }
    if args.cpus.is_empty() {
        left_out.extend(missing(&cpus, &pairs));
    }
    let cpuinfo = read("/proc/cpuinfo");
    let mut report = Report {
        cpu: field(&cpuinfo, "model name")
            .unwrap_or_default()
            .to_string(),
        kernel: run::kernel_release(),
        is_virtual: is_virtual(&cpuinfo),
        runs: args.runs,
        huge_pct: found.huge_pct,
        steal_pct: steal_pct(&stat, &read("/proc/stat")).unwrap_or(0.0),
        figures,
        left_out,
        notes: Vec::new(),
    };
    notes.extend(report.own_notes());
    notes.extend(report.doubts());
    report.notes = notes;
    table::say(&report.text())?;
    match &args.json {
        Some(path) => report.write(path),
        None => Ok(()),
    }
}

/// The pairs to be measured: those that were `wanted`, or one of each relation.
fn pairs(cpus: &[Cpu], wanted: &[CpuPair]) -> Result<Vec<Pair>> {
    if wanted.is_empty() {
        return Ok(topology::representatives(cpus));
    }
    wanted
        .iter()
        .map(|&pair| topology::chosen(cpus, pair))
        .collect()
}

/// What `pairs` have no example of, and why.
fn missing(cpus: &[Cpu], pairs: &[Pair]) -> Option<String> {
    if cpus.len() < 2 {
        return Some("lines of another CPU: only one CPU may be used".to_string());
    }
    let is_missing = |relation: &Relation| pairs.iter().all(|pair| pair.relation != *relation);
    let relations = Relation::ALL.into_iter().filter(is_missing);
    let names: Vec<String> = relations.map(|relation| relation.to_string()).collect();
    match names.is_empty() {
        true => None,
        false => Some(format!(
            "no two CPUs that may be used are: {}",
            names.join(", ")
        )),
    }
}

impl Report {
    /// What the machine itself brings into the figures.
    fn own_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.huge_pct < HUGE_ENOUGH_PCT {
            notes.push(format!(
                "{:.0}% of the memory was in huge pages, so translating addresses is in the figures \
                 of L3 and memory",
                self.huge_pct
            ));
        }
        if self.is_virtual {
            notes.push(format!(
                "this is a virtual machine: what the hypervisor takes (steal time was {:.1}%), page \
                 tables and small pages of the host, and neighbours in L3 and memory are in the \
                 figures; which CPUs share what is what the hypervisor says, and it may move them \
                 between two calls",
                self.steal_pct
            ));
        }
        notes
    }

    /// Where figures say that CPUs do not share the L3 cache that they should.
    fn doubts(&self) -> Vec<String> {
        let l3 = |figure: &&Figure| figure.what == What::Cache(3);
        let Some(l3_ns) = self.figures.iter().find(l3).map(|figure| figure.ns.median) else {
            return Vec::new();
        };
        let is_far = |figure: &&Figure| {
            let is_near = figure
                .relation
                .is_some_and(|relation| relation <= Relation::L3);
            let is_read = is_near && figure.what == What::ReadWritten;
            is_read && figure.ns.median > SHARED_L3_RATIO_MAX * l3_ns
        };
        let far = self.figures.iter().filter(is_far);
        far.map(|figure| {
            format!(
                "a line of the other is {:.0} times as far as L3, so CPUs {} share none now",
                figure.ns.median / l3_ns,
                cpu_numbers(figure)
            )
        })
        .collect()
    }

    fn text(&self) -> String {
        let model = if self.cpu.is_empty() {
            "CPU"
        } else {
            &self.cpu
        };
        let mut text = format!(
            "{model}, Linux {}; for one line, median of {} runs [a tenth is below..above]\n\n",
            self.kernel, self.runs
        );
        let titles = ["", "CPU", "share", "lines", "ns", "cycles", "GHz"];
        let mut lines = vec![titles.map(String::from).to_vec()];
        lines.extend(self.figures.iter().map(row));
        text += &text::align(&lines);
        let left_out = self.left_out.iter().map(|line| ("left out", line));
        let notes = self.notes.iter().map(|line| ("note", line));
        for (index, (kind, line)) in left_out.chain(notes).enumerate() {
            let before = if index == 0 { "\n" } else { "" };
            text += &format!("{before}{kind}: {line}\n");
        }
        text
    }

    /// Write it to `path`; `-` is standard output.
    fn write(&self, path: &Path) -> Result<()> {
        let json = serde_json::to_string(self).context("writing JSON")? + "\n";
        if path == Path::new("-") {
            return table::say(&json);
        }
        fs::write(path, json).with_context(|| format!("writing {}", path.display()))
    }
}

fn row(figure: &Figure) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_string());
    vec![
        figure.what.to_string(),
        cpu_numbers(figure),
        or_dash(figure.relation.map(|relation| relation.to_string())),
        figure.lines.to_string(),
        figure.ns.text(),
        or_dash(figure.cycles.map(|cycles| cycles.text())),
        or_dash(figure.clock_ghz.map(table::value)),
    ]
}

/// The CPUs of a figure, such as `0,1`.
fn cpu_numbers(figure: &Figure) -> String {
    let cpus: Vec<String> = figure.cpus.iter().map(u32::to_string).collect();
    cpus.join(",")
}

/// The text of a file of the kernel; empty where there is none.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Memory that can be had without taking it from others, in bytes.
fn available_bytes() -> Result<usize> {
    let meminfo = read("/proc/meminfo");
    let value = field(&meminfo, "MemAvailable").and_then(|value| value.strip_suffix(" kB"));
    let kib: Option<usize> = value.and_then(|kib| kib.parse().ok());
    Ok(kib.context("/proc/meminfo has no MemAvailable")? << 10)
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

/// Does `/proc/cpuinfo` have the flag by which CPUs tell of a hypervisor?
fn is_virtual(cpuinfo: &str) -> bool {
    let flags = field(cpuinfo, "flags").unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == "hypervisor")
}

/// The part of the time of all CPUs that was stolen between two looks at
/// `/proc/stat`, in percent.
fn steal_pct(before: &str, after: &str) -> Option<f64> {
    let times = |stat: &str| -> Option<[u64; 2]> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // user nice system idle iowait irq softirq steal; those of guests, after
        // it, are in the first two.
        let times = line.split_whitespace().take(8);
        let times: Vec<u64> = times.map_while(|time| time.parse().ok()).collect();
        Some([*times.get(7)?, times.iter().sum()])
    };
    let ([steal_before, all_before], [steal, all]) = (times(before)?, times(after)?);
    let all = all.saturating_sub(all_before).max(1);
    Some(100.0 * steal.saturating_sub(steal_before) as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::figure::Runs;
    use super::*;

    fn figure(what: What, pair: Option<Pair>, ns: f64) -> Figure {
        let mut runs = Runs::default();
        runs.add(ns, 1, Some(2.0));
        runs.figure(what, 0, pair, 256).unwrap()
    }

    fn report() -> Report {
        let pair = Pair {
            here: 0,
            there: 1,
            relation: Relation::L3,
        };
        Report {
            cpu: "A CPU".to_string(),
            kernel: "6.12".to_string(),
            is_virtual: false,
            runs: 3,
            huge_pct: 100.0,
            steal_pct: 0.0,
            figures: vec![
                figure(What::Cache(1), None, 1.5),
                figure(What::ReadWritten, Some(pair), 40.0),
            ],
            left_out: vec!["something".to_string()],
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_table_has_each_figure_and_what_is_left_out() {
        let expected = "\
A CPU, Linux 6.12; for one line, median of 3 runs [a tenth is below..above]

                                CPU  share    lines  ns                 cycles             GHz
load from L1                    0    -        256    1.50 [1.50..1.50]  3.00 [3.00..3.00]  2.00
load of a line the other wrote  0,1  same L3  256    40.0 [40.0..40.0]  80.0 [80.0..80.0]  2.00

left out: something
";
        assert_eq!(report().text(), expected);
    }

    #[test]
    fn a_virtual_machine_and_small_pages_are_told() {
        assert!(report().own_notes().is_empty());
        let report = Report {
            is_virtual: true,
            huge_pct: 12.0,
            steal_pct: 3.21,
            ..report()
        };
        let notes = report.own_notes().join("\n");
        for words in [
            "12% of the memory",
            "virtual machine",
            "steal time was 3.2%",
        ] {
            assert!(notes.contains(words), "{notes}");
        }
    }

    #[test]
    fn an_l3_that_is_not_shared_is_noticed_by_its_figures() {
        let mut report = report();
        assert!(report.doubts().is_empty(), "without a figure of L3");
        report.figures.push(figure(What::Cache(3), None, 10.0));
        assert!(report.doubts().is_empty(), "4 times");
        report.figures[1].ns.median = 90.0;
        let doubts = report.doubts();
        assert!(
            doubts[0].contains("9 times") && doubts[0].contains("CPUs 0,1"),
            "{doubts:?}"
        );
        report.figures[1].relation = Some(Relation::Package);
        assert!(report.doubts().is_empty(), "they need not share it");
    }

    #[test]
    fn a_single_cpu_has_no_other_and_a_machine_names_what_it_lacks() {
        let cpu = |id: u32| Cpu {
            id,
            package: 0,
            core: [id].into(),
            caches: Vec::new(),
        };
        let one = [cpu(0)];
        let pairs = topology::representatives(&one);
        let line = missing(&one, &pairs).unwrap();
        assert!(line.contains("only one CPU"), "{line}");
        let two = [cpu(0), cpu(1)];
        let pairs = topology::representatives(&two);
        let line = missing(&two, &pairs).unwrap();
        assert!(
            line.ends_with("SMT siblings, same L2, same L3, another package"),
            "{line}"
        );
    }

    #[test]
    fn a_hypervisor_is_known_by_its_flag_alone() {
        let cpuinfo =
            |flags: &str| format!("model name\t: hypervisor\nflags\t\t: fpu {flags} sse\n");
        assert!(is_virtual(&cpuinfo("hypervisor")));
        assert!(!is_virtual(&cpuinfo("hypervisors")));
        assert_eq!(field(&cpuinfo(""), "model name"), Some("hypervisor"));
        assert_eq!(field("a: b", "c"), None);
    }

    #[test]
    fn steal_is_a_part_of_the_time_between_two_looks() {
        let before = "cpu  100 0 100 800 0 0 0 10 7 7\ncpu0 1 2 3\n";
        let after = "cpu  130 0 110 850 0 0 0 20 7 7\ncpu0 1 2 3\n";
        assert_eq!(steal_pct(before, after), Some(10.0));
        assert_eq!(steal_pct(before, before), Some(0.0));
        assert_eq!(steal_pct("", after), None);
    }
}
