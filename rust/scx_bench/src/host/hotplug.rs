// SPDX-License-Identifier: GPL-2.0
//! Fewer CPUs for a while: the others are taken offline, and come back.
//!
//! They come back whatever happens. The guard brings them online when it is
//! dropped, by a panic or an error too; an interrupt does the same; and a
//! keeper, a process that does nothing but wait for this one to be gone, does
//! it if this one was killed.
//!
//! Not here: what runs meanwhile (`host`).

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use nix::unistd::Pid;

use crate::cpu_list;
use crate::interrupt::{self, Undo};

const ONLINE: &str = "/sys/devices/system/cpu/online";

/// What the keeper does. Its input is a pipe that only this process holds open:
/// a line says that nothing is left to do, its end that this process was killed.
/// Then a scheduler that was killed too should be gone half a second later.
const KEEPER: &str = "
trap '' INT TERM HUP
read -r line && exit
sleep 0.5
for switch; do echo 1 >\"$switch\"; done
";

/// CPUs are offline while this lives.
#[derive(Debug)]
#[must_use]
pub struct Offline {
    _undo: Undo,
}

/// The CPUs that are online now, in order.
pub fn online() -> Result<BTreeSet<u32>> {
    let text = fs::read_to_string(ONLINE).with_context(|| format!("reading {ONLINE}"))?;
    cpu_list::parse(&text).with_context(|| format!("{ONLINE} holds `{}`", text.trim()))
}

/// Can `nr_cpus` be left online? An error says why not.
pub fn check(nr_cpus: usize) -> Result<()> {
    for &cpu in &surplus(&online()?, nr_cpus)? {
        if fs::metadata(switch(cpu)).is_err() {
            bail!("CPU {cpu} cannot be taken offline on this machine, so --cpus {nr_cpus} cannot");
        }
    }
    Ok(())
}

/// Leave the first `nr_cpus` online and take the others offline.
pub fn leave(nr_cpus: usize) -> Result<Offline> {
    let surplus = surplus(&online()?, nr_cpus)?;
    let keeper = Keeper::start(&surplus)?;
    let offline = Offline {
        _undo: {
            let cpus = surplus.clone();
            interrupt::undo_later(move || {
                if bring_back(&cpus) {
                    keeper.dismiss();
                }
            })
        },
    };
    // From here on, an error on the way brings back what has gone.
    for &cpu in surplus.iter().rev() {
        fs::write(switch(cpu), "0").with_context(|| format!("taking CPU {cpu} offline"))?;
    }
    Ok(offline)
}

/// The CPUs of `online` that are too many.
fn surplus(online: &BTreeSet<u32>, nr_cpus: usize) -> Result<Vec<u32>> {
    if nr_cpus == 0 || nr_cpus > online.len() {
        bail!("--cpus {nr_cpus}: there are {} CPUs online", online.len());
    }
    Ok(online.iter().copied().skip(nr_cpus).collect())
}

/// Online again; false if that failed for one, which is then said.
fn bring_back(cpus: &[u32]) -> bool {
    let mut is_whole = true;
    for &cpu in cpus {
        if let Err(error) = fs::write(switch(cpu), "1") {
            eprintln!("scx_bench: CPU {cpu} stays offline: {error}");
            is_whole = false;
        }
    }
    is_whole
}

/// The file that switches a CPU; there is none for a CPU that always runs.
fn switch(cpu: u32) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/online")
}

/// The process that brings CPUs back when this one is gone.
#[derive(Debug)]
struct Keeper {
    process: Child,
}

impl Keeper {
    fn start(cpus: &[u32]) -> Result<Self> {
        let process = Command::new("sh")
            .args(["-c", KEEPER, "scx_bench-keeper"])
            .args(cpus.iter().map(|&cpu| switch(cpu)))
            .stdin(Stdio::piped())
            // What a terminal sends is not meant for it.
            .process_group(0)
            .spawn()
            .context("starting the keeper")?;
        interrupt::spare(Pid::from_raw(process.id() as i32));
        Ok(Self { process })
    }

    /// There is nothing left to bring back.
    fn dismiss(mut self) {
        // If this fails, the keeper brings online what is online.
        if let Some(mut line) = self.process.stdin.take() {
            let _ = line.write_all(b"all are back\n");
        }
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cpus_stay_and_impossible_numbers_are_refused() {
        let online = BTreeSet::from([0, 1, 4, 5]);
        assert_eq!(surplus(&online, 2).unwrap(), [4, 5]);
        assert!(surplus(&online, 4).unwrap().is_empty());
        assert!(
            surplus(&online, 5)
                .unwrap_err()
                .to_string()
                .contains("4 CPUs")
        );
        assert!(surplus(&online, 0).is_err());
    }
}
