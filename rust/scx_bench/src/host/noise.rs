// SPDX-License-Identifier: GPL-2.0
//! What about a machine makes its figures unsteady, as sentences for a warning.
//!
//! Nothing is changed here: the user knows best whether the governor
//! may be set, or which service can be stopped for a while.
//!
//! Not here: how noisy the figures were (`summary`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::clock::{self, NSEC_PER_MSEC, now_ns};
use crate::system::{self, MachineCounters};

/// How long the machine is watched for work of others, in nanoseconds.
const LOOK_NS: u64 = 1_000 * NSEC_PER_MSEC;
/// More than this much of the machine in use by others is a warning, in percent.
const BUSY_PCT: f64 = 3.0;

const CPUS: &str = "/sys/devices/system/cpu";
const SUPPLIES: &str = "/sys/class/power_supply";

/// All that speaks against measuring now; takes a second.
pub fn warnings() -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    let governors = governors(Path::new(CPUS));
    if governors.iter().any(|governor| governor != "performance") {
        let names: Vec<&str> = governors.iter().map(String::as_str).collect();
        warnings.push(format!(
            "the frequency governor is {}, so speed depends on the load; `performance` is steady",
            names.join(" and ")
        ));
    }
    if is_on_battery(Path::new(SUPPLIES)) {
        warnings.push("the machine runs on battery, which limits its speed".to_string());
    }
    let busy_pct = busy_pct()?;
    if busy_pct > BUSY_PCT {
        warnings.push(format!(
            "other programs use {busy_pct:.0}% of the machine; stop what can be stopped"
        ));
    }
    Ok(warnings)
}

/// How much of the machine is in use now, in percent.
fn busy_pct() -> Result<f64> {
    let (before, from_ns) = (MachineCounters::read()?, now_ns());
    clock::sleep_ns(LOOK_NS);
    let idle_ns = MachineCounters::read()?.since(&before).idle_ns as f64;
    let capacity_ns = (now_ns() - from_ns) as f64 * system::usable_cpus() as f64;
    Ok(100.0 * (1.0 - idle_ns / capacity_ns).max(0.0))
}

/// The names of the governors in use; none where frequencies are fixed.
fn governors(cpus: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(cpus) else {
        return BTreeSet::new();
    };
    entries
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("cpufreq/scaling_governor")).ok())
        .map(|text| text.trim().to_string())
        .collect()
}

/// Is there a mains adapter, and none that is plugged in?
fn is_on_battery(supplies: &Path) -> bool {
    let Ok(entries) = fs::read_dir(supplies) else {
        return false;
    };
    let read = |path: std::path::PathBuf| {
        fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_string()
    };
    let adapters: Vec<String> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| read(path.join("type")) == "Mains")
        .map(|path| read(path.join("online")))
        .collect();
    !adapters.is_empty() && adapters.iter().all(|online| online == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: std::path::PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn every_governor_in_use_is_named_once() {
        let dir = tempfile::tempdir().unwrap();
        assert!(governors(dir.path()).is_empty());
        for (cpu, governor) in [
            ("cpu0", "powersave"),
            ("cpu1", "powersave"),
            ("cpu2", "ondemand"),
        ] {
            let path = dir.path().join(cpu).join("cpufreq/scaling_governor");
            write(path, &format!("{governor}\n"));
        }
        let names: Vec<String> = governors(dir.path()).into_iter().collect();
        assert_eq!(names, ["ondemand", "powersave"]);
    }

    #[test]
    fn a_machine_is_on_battery_when_its_adapter_is_unplugged() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_on_battery(dir.path()), "a desktop has no adapter");
        write(dir.path().join("BAT0/type"), "Battery\n");
        write(dir.path().join("AC/type"), "Mains\n");
        write(dir.path().join("AC/online"), "0\n");
        assert!(is_on_battery(dir.path()));
        write(dir.path().join("AC/online"), "1\n");
        assert!(!is_on_battery(dir.path()));
    }
}
