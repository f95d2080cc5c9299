// SPDX-License-Identifier: GPL-2.0
//! What the kernel tells about itself, its CPUs and the calling thread.
//!
//! Counters of the whole machine come from `/proc`, read at both ends of the
//! measurement; counters of a thread are taken by the thread itself, so that
//! they cover exactly the time it was measured.

use std::fs;
use std::io;
use std::mem::MaybeUninit;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::clock::NSEC_PER_SEC;

/// Which core, last-level cache and node each CPU belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuMap {
    places: Vec<Place>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Place {
    core: u32,
    llc: u32,
    node: u32,
}

impl CpuMap {
    /// Read the map from sysfs. What is missing there counts as shared by all
    /// (cache, node) or owned alone (core).
    pub fn read() -> Self {
        // SAFETY: sysconf reads a constant of the system.
        let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        let nr_cpus = usize::try_from(configured).unwrap_or(1).max(1);
        let places = (0..nr_cpus).map(|cpu| read_place(cpu as u32)).collect();
        Self { places }
    }

    /// Is there more than one of each: CPUs of a core, cores of a cache, caches
    /// of a node, nodes?
    pub fn has_levels(&self) -> [bool; 4] {
        let pairs = || {
            let places = self.places.iter().enumerate();
            places.flat_map(|(index, a)| self.places[..index].iter().map(move |b| (a, b)))
        };
        [
            pairs().any(|(a, b)| a == b),
            pairs().any(|(a, b)| (a.node, a.llc) == (b.node, b.llc) && a.core != b.core),
            pairs().any(|(a, b)| a.node == b.node && a.llc != b.llc),
            pairs().any(|(a, b)| a.node != b.node),
        ]
    }

    fn level(&self, from: i32, to: i32) -> Level {
        let place = |cpu: i32| self.places.get(usize::try_from(cpu).ok()?).copied();
        match (place(from), place(to)) {
            (Some(a), Some(b)) if a.node != b.node => Level::Node,
            (Some(a), Some(b)) if a.llc != b.llc => Level::Llc,
            (Some(a), Some(b)) if a.core != b.core => Level::Core,
            _ => Level::Smt,
        }
    }
}

enum Level {
    Smt,
    Core,
    Llc,
    Node,
}

/// Migrations by what the task had to leave behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migrations {
    /// To a sibling of the same core.
    pub smt: u64,
    /// To another core of the same last-level cache.
    pub core: u64,
    /// To another last-level cache of the same node.
    pub llc: u64,
    /// To another node.
    pub node: u64,
}

impl Migrations {
    /// All migrations.
    pub fn total(&self) -> u64 {
        self.smt + self.core + self.llc + self.node
    }

    /// Add those of another task.
    pub fn add(&mut self, other: &Migrations) {
        self.smt += other.smt;
        self.core += other.core;
        self.llc += other.llc;
        self.node += other.node;
    }
}

/// What tasks used during the measurement; sums over the tasks of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tasks in this sum.
    pub tasks: u64,
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// Context switches because the task slept.
    pub voluntary: u64,
    /// Context switches because the scheduler took the CPU away.
    pub involuntary: u64,
    /// Changes of CPU, as far as the task noticed them between two looks.
    pub migrations: Migrations,
}

impl Usage {
    /// Add the usage of other tasks.
    pub fn add(&mut self, other: &Usage) {
        self.tasks += other.tasks;
        self.cpu_ns += other.cpu_ns;
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.migrations.add(&other.migrations);
    }

    /// What was used after `earlier`, migrations apart.
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
            ..*self
        }
    }

    fn of(usage: &libc::rusage) -> Usage {
        Usage {
            tasks: 1,
            voluntary: usage.ru_nvcsw as u64,
            involuntary: usage.ru_nivcsw as u64,
            ..Usage::default()
        }
    }
}

/// Follows one thread through the measurement; used by that thread only.
#[derive(Debug)]
pub struct Account {
    cpu: i32,
    is_open: bool,
    at_start: Usage,
    migrations: Migrations,
}

impl Default for Account {
    fn default() -> Self {
        Self::new()
    }
}

impl Account {
    /// An account that counts nothing yet.
    pub fn new() -> Self {
        Self {
            cpu: -1,
            is_open: false,
            at_start: Usage::default(),
            migrations: Migrations::default(),
        }
    }

    /// Has [`Account::open`] been called?
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Start to count.
    pub fn open(&mut self) {
        self.is_open = true;
        self.at_start = thread_usage();
        self.cpu = current_cpu();
    }

    /// Notice a change of CPU since the last look; no system call.
    #[inline]
    pub fn look(&mut self, map: &CpuMap) {
        let cpu = current_cpu();
        if cpu == self.cpu || !self.is_open {
            return;
        }
        match map.level(self.cpu, cpu) {
            Level::Smt => self.migrations.smt += 1,
            Level::Core => self.migrations.core += 1,
            Level::Llc => self.migrations.llc += 1,
            Level::Node => self.migrations.node += 1,
        }
        self.cpu = cpu;
    }

    /// What the thread used since [`Account::open`]; nothing if never opened.
    pub fn close(self) -> Usage {
        if !self.is_open {
            return Usage {
                tasks: 1,
                ..Usage::default()
            };
        }
        Usage {
            migrations: self.migrations,
            ..thread_usage().since(&self.at_start)
        }
    }
}

/// Counters of the whole machine at one instant, since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineCounters {
    /// Context switches.
    pub switches: u64,
    /// Forks and clones.
    pub forks: u64,
    /// Interrupts served, without those of the legacy timer (IRQ 0 of x86): in the
    /// guest it fires 20 000 times a second to keep the emulator's turns short.
    pub interrupts: u64,
    /// Idle time of all CPUs in nanoseconds, to 10 ms.
    pub idle_ns: u64,
    /// Time in which tasks held a CPU, in nanoseconds, counted when a task
    /// leaves it; 0 where the kernel keeps no scheduler statistics.
    pub held_ns: u64,
    /// Time in which tasks waited for a CPU, in nanoseconds; 0 as above.
    pub waited_ns: u64,
    /// Times that a task got a CPU; 0 as above.
    pub runs: u64,
    /// Interrupts by which one CPU told another to look for work: wakeups on
    /// other CPUs, preemptions there and a scheduler's kicks. 0 where the
    /// architecture does not count them.
    #[serde(default)]
    pub kicks: u64,
}

impl MachineCounters {
    /// Read them now.
    pub fn read() -> Result<Self> {
        let stat = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
        // Missing without CONFIG_SCHEDSTATS; the other figures stand alone.
        let schedstat = fs::read_to_string("/proc/schedstat").unwrap_or_default();
        let interrupts = fs::read_to_string("/proc/interrupts").unwrap_or_default();
        Ok(Self {
            kicks: parse_kicks(&interrupts),
            ..Self::parse(&stat, &schedstat, ticks_per_second())
        })
    }

    /// The increase from `earlier` to `self`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            switches: self.switches - earlier.switches,
            forks: self.forks - earlier.forks,
            interrupts: self.interrupts.saturating_sub(earlier.interrupts),
            // Idle time and iowait can fall by a tick when a CPU goes offline.
            idle_ns: self.idle_ns.saturating_sub(earlier.idle_ns),
            held_ns: self.held_ns.saturating_sub(earlier.held_ns),
            waited_ns: self.waited_ns.saturating_sub(earlier.waited_ns),
            runs: self.runs.saturating_sub(earlier.runs),
            // A CPU that goes offline takes its counts along.
            kicks: self.kicks.saturating_sub(earlier.kicks),
        }
    }

    fn parse(stat: &str, schedstat: &str, ticks_per_second: u64) -> Self {
        let mut counters = Self::default();
        for line in stat.lines() {
            let mut fields = line.split_ascii_whitespace();
            let key = fields.next().unwrap_or_default();
            let mut value = |nth: usize| {
                fields
                    .nth(nth)
                    .and_then(|field| field.parse::<u64>().ok())
                    .unwrap_or(0)
            };
            match key {
                // user nice system idle iowait
                "cpu" => {
                    counters.idle_ns = (value(3) + value(0)) * (NSEC_PER_SEC / ticks_per_second);
                }
                "ctxt" => counters.switches = value(0),
                "processes" => counters.forks = value(0),
                // The sum, then IRQ 0.
                "intr" => counters.interrupts = value(0).saturating_sub(value(0)),
                _ => {}
            }
        }
        for line in schedstat.lines() {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let is_cpu = fields.first().is_some_and(|key| key.starts_with("cpu"));
            if !is_cpu || fields.len() < 10 {
                continue;
            }
            let value = |nth: usize| fields[nth].parse::<u64>().unwrap_or(0);
            counters.held_ns += value(7);
            counters.waited_ns += value(8);
            counters.runs += value(9);
        }
        counters
    }
}

/// The sum of the line `RES: 12 34 Rescheduling interrupts` (`IPI0:` on some
/// architectures).
fn parse_kicks(interrupts: &str) -> u64 {
    let is_kicks = |line: &&str| line.contains("Rescheduling interrupts");
    let line = interrupts.lines().find(is_kicks).unwrap_or_default();
    let counts = line.split_ascii_whitespace().skip(1);
    counts.map_while(|word| word.parse::<u64>().ok()).sum()
}

/// Number of CPUs that are online and that this process may use.
pub fn usable_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Keep all memory of this process in RAM, present and future. Without the
/// permission to do so the pages are still touched before they are needed.
pub fn lock_memory() {
    // SAFETY: mlockall changes no memory content.
    unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
}

/// Make the calling thread nicer by `nice`.
pub fn add_thread_nice(nice: i32) -> io::Result<()> {
    // SAFETY: both take integers only; 0 means the calling thread. Reading its
    // own nice value cannot fail.
    let rc = unsafe {
        let now = libc::getpriority(libc::PRIO_PROCESS, 0);
        libc::setpriority(libc::PRIO_PROCESS, 0, now + nice)
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The CPU that the calling thread is on, or -1 where that cannot be told.
#[inline]
pub fn current_cpu() -> i32 {
    // SAFETY: sched_getcpu reads the calling thread's own CPU number.
    unsafe { libc::sched_getcpu() }
}

/// What all processes used that were started here and have been waited for, and
/// those that they waited for; counted as one task.
pub fn children_usage() -> Usage {
    let usage = usage_of(libc::RUSAGE_CHILDREN);
    let time_ns = |time: libc::timeval| {
        time.tv_sec as u64 * NSEC_PER_SEC + time.tv_usec as u64 * clock::NSEC_PER_USEC
    };
    Usage {
        cpu_ns: time_ns(usage.ru_utime) + time_ns(usage.ru_stime),
        ..Usage::of(&usage)
    }
}

fn thread_usage() -> Usage {
    Usage {
        // To the nanosecond, which rusage is not.
        cpu_ns: clock::thread_cpu_ns(),
        ..Usage::of(&usage_of(libc::RUSAGE_THREAD))
    }
}

fn usage_of(who: libc::c_int) -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the rusage it is given, and all-zero is a valid
    // value of it if the call should fail.
    unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    }
}

fn ticks_per_second() -> u64 {
    // SAFETY: sysconf reads a constant of the system.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).unwrap_or(100).max(1)
}

fn read_place(cpu: u32) -> Place {
    let dir = format!("/sys/devices/system/cpu/cpu{cpu}");
    let core = read_first(&format!("{dir}/topology/thread_siblings_list")).unwrap_or(cpu);
    let llc = (0..8)
        .rev()
        .find_map(|index| read_first(&format!("{dir}/cache/index{index}/shared_cpu_list")))
        .unwrap_or(0);
    let node = (0..1024)
        .find(|node| fs::metadata(format!("{dir}/node{node}")).is_ok())
        .unwrap_or(0);
    Place { core, llc, node }
}

/// The first CPU of a list such as `2-3,6`: the group's name.
fn read_first(path: &str) -> Option<u32> {
    let list = fs::read_to_string(path).ok()?;
    list.trim().split([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_counters_are_found_in_proc_text() {
        let stat = "cpu  10 0 20 300 40 0 0 0 0 0\ncpu0 1 1 1 1 1\nintr 77 7 2\nctxt 1234\n\
                    btime 1\nprocesses 56\n";
        let schedstat = "version 17\ntimestamp 1\ncpu0 0 0 0 0 0 0 100 200 3\n\
                         domain0 SMT 3 0 0\ncpu1 0 0 0 0 0 0 1000 2000 30\n";
        let counters = MachineCounters::parse(stat, schedstat, 100);
        assert_eq!(counters.switches, 1234);
        assert_eq!(counters.forks, 56);
        assert_eq!(counters.interrupts, 70);
        assert_eq!(counters.idle_ns, 340 * 10_000_000);
        assert_eq!(
            (counters.held_ns, counters.waited_ns, counters.runs),
            (1100, 2200, 33)
        );
    }

    #[test]
    fn kicks_are_the_sum_over_cpus() {
        let interrupts = "           CPU0       CPU1\n  0:   5   6   IO-APIC   2-edge  timer\n\
                          RES:       12         30   Rescheduling interrupts\n\
                          CAL:        1          1   Function call interrupts\n";
        assert_eq!(parse_kicks(interrupts), 42);
        assert_eq!(parse_kicks("LOC: 1 2 Local timer interrupts\n"), 0);
    }

    #[test]
    fn a_migration_is_filed_under_the_outermost_border_crossed() {
        let place = |core, llc, node| Place { core, llc, node };
        let map = CpuMap {
            places: vec![
                place(0, 0, 0),
                place(0, 0, 0),
                place(2, 0, 0),
                place(3, 3, 0),
                place(4, 4, 4),
            ],
        };
        assert!(matches!(map.level(0, 1), Level::Smt));
        assert!(matches!(map.level(0, 2), Level::Core));
        assert!(matches!(map.level(0, 3), Level::Llc));
        assert!(matches!(map.level(3, 4), Level::Node));
        assert!(matches!(map.level(-1, 99), Level::Smt));
        assert_eq!(map.has_levels(), [true; 4]);
        let flat = CpuMap {
            places: vec![place(0, 0, 0), place(1, 0, 0)],
        };
        assert_eq!(flat.has_levels(), [false, true, false, false]);
    }

    #[test]
    fn an_account_counts_the_cpu_time_of_its_own_thread() {
        let mut account = Account::new();
        account.open();
        crate::work::burn_cpu_ns(3_000_000);
        let usage = account.close();
        assert!(usage.cpu_ns >= 3_000_000 && usage.cpu_ns < 300_000_000);
    }
}
