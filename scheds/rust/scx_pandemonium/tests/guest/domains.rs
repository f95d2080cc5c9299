// SPDX-License-Identifier: GPL-2.0
//! LLC domains share by weight also where no single move of a task evens them out.
//!
//! - `parted NICE*NR@CPUS ...`: hogs of such nice levels begin on such CPUs, a mask in
//!   hexadecimal digits, and may run anywhere then. The answer: the CPU time of each of
//!   the groups meanwhile, in ms, without the first second.

use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result};
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::work::{cpu_time, join, set_affinity, set_nice, spawn, spin_until};

/// Two domains of two CPUs. By the kernel's weights of nice levels, 9548 and 1024, there
/// are 28644 in the first and 21836 in the other: less than a heavy hog less, and more
/// than what a kernel thread that wakes there can make up for.
const TWO: [&str; 3] = ["-10*3@3", "-10*1@c", "0*12@c"];

/// Three domains of two CPUs: 28644, 21836 and 25172. None of the hogs of the third
/// evens the other two out either.
const THREE: [&str; 5] = ["-10*3@3", "-10*1@c", "0*12@c", "-10*1@30", "-6*4@30"];

const WEIGHT_HEAVY: f64 = 9548.0;
const WEIGHT_LIGHT: f64 = 1024.0;

/// How far the ratio of CPU times may be from that of the weights.
const TOLERANCE: f64 = 0.03;

/// How long hogs are kept to CPUs, and from then on, when they are measured.
const KEPT: Duration = Duration::from_millis(300);
const SETTLED: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(3);

/// Some hogs that begin alike.
struct Group {
    nice: i32,
    nr: usize,
    cpus: u64,
}

impl FromStr for Group {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (nice, rest) = text.split_once('*').context("NICE*NR@CPUS")?;
        let (nr, cpus) = rest.split_once('@').context("NICE*NR@CPUS")?;
        Ok(Self {
            nice: nice.parse()?,
            nr: nr.parse()?,
            cpus: u64::from_str_radix(cpus, 16)?,
        })
    }
}

/// The request of that name.
pub fn parted(groups: &[&str]) -> Result<String> {
    let free_at = Instant::now() + KEPT;
    let mut hogs = Vec::new();
    for group in groups {
        let Group { nice, nr, cpus } = group.parse()?;
        let started: Result<Vec<_>> = (0..nr)
            .map(|_| spawn("hog", move || life(nice, cpus, free_at)))
            .collect();
        hogs.push(started?);
    }
    let mut used = Vec::new();
    for group in hogs {
        let times: Result<Vec<Duration>> = group.into_iter().map(join).collect();
        let used_by_group: Duration = times?.iter().sum();
        used.push(used_by_group.as_millis().to_string());
    }
    Ok(used.join(" "))
}

/// What a hog does. It frees itself: to wake another task for that would move hogs.
fn life(nice: i32, cpus: u64, free_at: Instant) -> Result<Duration> {
    set_affinity(0, cpus)?;
    set_nice(nice)?;
    spin_until(free_at);
    set_affinity(0, u64::MAX)?;
    spin_until(free_at + SETTLED);
    let used = cpu_time();
    spin_until(free_at + SETTLED + MEASURED);
    Ok(cpu_time() - used)
}

/// The hogs of nice -10 and those of nice 0 share by weight.
fn share_by_weight(kernel: &Kernel, topology: &str, groups: &[&str]) -> Result<()> {
    let script = format!(
        "begin\nfact used $(agent parted {})\nstop INT\n",
        groups.join(" ")
    );
    let told = OURS.world(kernel, topology)?.run(&script)?;
    let line: String = told.one("used")?;
    let groups: Result<Vec<Group>> = groups.iter().map(|group| group.parse()).collect();
    let used: Result<Vec<f64>, _> = line.split(' ').map(str::parse).collect();
    let (groups, used) = (groups?, used?);
    told.check_eq("groups", used.len(), groups.len())?;
    let each_of = |nice: i32| -> f64 {
        let of_nice = || {
            groups
                .iter()
                .zip(&used)
                .filter(|(group, _)| group.nice == nice)
        };
        let nr: usize = of_nice().map(|(group, _)| group.nr).sum();
        let of_all: f64 = of_nice().map(|(_, used)| used).sum();
        of_all / nr as f64
    };
    let ratio = each_of(-10) / each_of(0);
    let due = WEIGHT_HEAVY / WEIGHT_LIGHT;
    println!("{line}: ratio {ratio:.3} of {due:.3}");
    told.check((ratio / due - 1.0).abs() <= TOLERANCE, || {
        format!("ratio of CPU times {ratio:.3}, of weights {due:.3}: {line}")
    })?;
    told.check_stops()
}

figure!(
    two_domains_share_by_weight_though_no_move_evens_them_out,
    [lts, oldest],
    |kernel| share_by_weight(kernel, "1x2x2x1", &TWO)
);

figure!(
    three_domains_share_by_weight_though_no_move_evens_them_out,
    |kernel| share_by_weight(kernel, "1x3x2x1", &THREE)
);
