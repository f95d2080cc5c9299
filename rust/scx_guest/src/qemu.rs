// SPDX-License-Identifier: GPL-2.0
//! QEMU's command line: which machine the guest gets.
//!
//! Every option that is not about size is there for repeatability. The clock
//! counts instructions (`icount`, one per nanosecond, never sleeping); the RTC
//! follows it; random numbers have a fixed seed and RDRAND is absent; the HPET
//! is off so that the guest can make quanta small by the PIT
//! (guest/clock.c); no device that a run does not need exists.
//!
//! Not here: starting and watching it (`guest`).

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::process::Command;

use crate::{Clock, Error, Result, Topology};

const QEMU: &str = "qemu-system-x86_64";

/// The first version that shares an instruction budget fairly among CPUs.
const VERSION_MIN: (u32, u32) = (8, 1);

/// The first version with all that plugin/qemu_plugin.h declares.
const PLUGIN_VERSION_MIN: (u32, u32) = (9, 2);

/// A CPU that emulation can do fully.
///
/// The maker and model are Intel's since only then do kernels learn from
/// QEMU which CPUs share a last-level cache. The features are those of the
/// x86-64-v2 level, less RDRAND, which would bring the host's randomness in.
const CPU: &str = "qemu64,vendor=GenuineIntel,family=6,model=85,stepping=4,\
                   +ssse3,+sse4.1,+sse4.2,+popcnt,+rdtscp,-rdrand";

/// Kernel words that every guest gets.
///
/// A panic ends the run at once, and a fault is a panic. The emulated CPU has
/// no flaw to mitigate, and a current desktop CPU pays little for it either.
/// Times on kernel lines tell them from a program's. Certificates of modules, and
/// random numbers from jitter, are a quarter of a boot and of no use here, and nor are
/// the kernel's tests of its ciphers, which go on beside what runs first. That the
/// timer interrupts is known: to see it the kernel would loop for a tenth of one.
const KERNEL_WORDS: &[&str] = &[
    "console=ttyS0",
    "quiet",
    "printk.time=1",
    "panic=-1",
    "oops=panic",
    "nowatchdog",
    "random.trust_cpu=off",
    "tsc=reliable",
    "no_timer_check",
    "mitigations=off",
    "initcall_blacklist=load_system_certificate_list,jent_mod_init",
    "cryptomgr.notests",
];

/// What a machine is made of.
pub(crate) struct Machine<'a> {
    pub(crate) topology: Topology,
    pub(crate) nr_empty_sockets: u32,
    pub(crate) memory_mib: u32,
    pub(crate) clock: &'a Clock,
    pub(crate) kernel: &'a str,
    pub(crate) initrd: &'a str,
    pub(crate) console: &'a str,
    pub(crate) report: &'a str,
    pub(crate) kernel_words: &'a [String],
    pub(crate) part: Part<'a>,
    /// The file of a plugin with its options.
    pub(crate) plugin: Option<&'a str>,
}

/// Which part of a run a machine is there for.
pub(crate) enum Part<'a> {
    /// All of it.
    Whole,
    /// Up to where the guest stops it, by orders on standard input (`qmp`), which it
    /// waits for.
    Before,
    /// From there on.
    After {
        /// What was kept.
        state: &'a str,
        /// A file that the guest can read then.
        script: &'a str,
    },
}

/// Name of the file that a guest reads when it goes on; also in guest/pause.c.
const SCRIPT_NAME: &str = "opt/scx_guest/script";

/// The command that runs `machine`.
pub(crate) fn command(machine: &Machine) -> Command {
    let mut command = Command::new(QEMU);
    match machine.clock {
        Clock::Deterministic { .. } => {
            command.args([
                "-accel",
                "tcg,thread=single",
                "-icount",
                "shift=0,sleep=off",
            ]);
            command.args([
                "-rtc",
                "base=2026-01-01,clock=vm",
                "-seed",
                "1",
                "-cpu",
                CPU,
            ]);
        }
        Clock::Parallel => {
            command.args(["-accel", "tcg,thread=multi", "-cpu", CPU]);
        }
        Clock::Kvm => {
            command.args(["-accel", "kvm", "-cpu", "host"]);
        }
    }
    command.args([
        "-machine",
        "pc,hpet=off",
        "-m",
        &format!("{}M", machine.memory_mib),
    ]);
    command.args(topology_args(
        &machine.topology,
        machine.nr_empty_sockets,
        machine.memory_mib,
    ));
    command.args([
        "-name",
        "guest,debug-threads=on",
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-monitor",
        "none",
    ]);
    // Files, since a full pipe would hold the guest up for as long as the
    // host's reader likes.
    command.args(["-serial", &format!("file:{}", machine.console)]);
    command.args(["-serial", &format!("file:{}", machine.report)]);
    command.args(["-net", "none", "-no-reboot"]);
    command.args(["-kernel", machine.kernel, "-initrd", machine.initrd]);
    command.args(["-append", &kernel_line(machine.kernel_words)]);
    command.args(part_args(&machine.part));
    if let Some(plugin) = machine.plugin {
        command.args(["-plugin", plugin]);
    }
    command
}

/// A device at which a guest that writes to it is stopped between two instructions, a
/// file that it can read, and what is to be done with its state.
fn part_args(part: &Part) -> Vec<String> {
    let content = match part {
        Part::Whole => return Vec::new(),
        Part::Before => "string=none".to_owned(),
        Part::After { script, .. } => format!("file={script}"),
    };
    let mut args = [
        "-device",
        "pvpanic",
        "-action",
        "panic=pause",
        // Else it would be stopped again as soon as it is there.
        "-global",
        "migration.store-global-state=off",
        // Its timers would wake QEMU's main thread, see `steady`.
        "-global",
        "migration.announce-rounds=1",
        "-fw_cfg",
    ]
    .map(str::to_owned)
    .to_vec();
    args.push(format!("name={SCRIPT_NAME},{content}"));
    match part {
        Part::After { state, .. } => args.extend(["-incoming".to_owned(), format!("file:{state}")]),
        _ => args.extend(["-S", "-qmp", "stdio"].map(str::to_owned)),
    }
    args
}

/// An error unless QEMU is there and new enough.
pub(crate) fn check() -> Result<()> {
    match version()? {
        version if version >= VERSION_MIN => Ok(()),
        (major, minor) => Err(Error::QemuTooOld {
            found: format!("{major}.{minor}"),
        }),
    }
}

/// An error unless QEMU takes plugins like ours.
pub(crate) fn check_plugins() -> Result<()> {
    let output = Command::new(QEMU)
        .args(["-plugin", "help"])
        .output()
        .map_err(|e| Error::io(format!("running {QEMU}"), e))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::NoPlugins(
            text.lines()
                .last()
                .unwrap_or("it takes no plugins")
                .to_owned(),
        ));
    }
    match version()? {
        version if version >= PLUGIN_VERSION_MIN => Ok(()),
        (major, minor) => {
            let (major_min, minor_min) = PLUGIN_VERSION_MIN;
            Err(Error::NoPlugins(format!(
                "it is {major}.{minor}, and {major_min}.{minor_min} or newer is needed"
            )))
        }
    }
}

/// Major and minor version of QEMU.
fn version() -> Result<(u32, u32)> {
    let output = Command::new(QEMU)
        .arg("--version")
        .output()
        .map_err(|e| match e.kind() {
            ErrorKind::NotFound => Error::MissingTool {
                tool: QEMU.to_owned(),
                hint: "on Debian install the package qemu-system-x86 \
                   (on Debian 12 from bookworm-backports, for version 8.1 or newer)"
                    .to_owned(),
            },
            _ => Error::io(format!("running {QEMU}"), e),
        })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let first = text.lines().next().unwrap_or_default();
    parse_version(first).ok_or_else(|| Error::Qemu(format!("{QEMU} --version says {first:?}")))
}

/// An error unless this user can use KVM here.
pub(crate) fn check_kvm() -> Result<()> {
    let device = "/dev/kvm";
    match OpenOptions::new().read(true).write(true).open(device) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::NoKvm(format!(
            "there is no {device} on this machine"
        ))),
        Err(error) => Err(Error::NoKvm(format!("{device}: {error}"))),
    }
}

/// The version in the first line of `--version`.
fn parse_version(line: &str) -> Option<(u32, u32)> {
    let (_, rest) = line.split_once("version ")?;
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// CPUs as packages with one cache each, and nodes where there are several. Sockets
/// that are empty come after all others, and belong to the last node.
fn topology_args(topology: &Topology, nr_empty_sockets: u32, memory_mib: u32) -> Vec<String> {
    let nr_cpus_max = topology.nr_cpus() + nr_empty_sockets * topology.nr_cpus_per_llc();
    // Not said where it is as usual, since results name the machine by its words.
    let more = match nr_empty_sockets {
        0 => String::new(),
        _ => format!("maxcpus={nr_cpus_max},"),
    };
    let mut args = vec![
        "-smp".to_owned(),
        format!(
            "{},{more}sockets={},cores={},threads={}",
            topology.nr_cpus(),
            topology.nr_llcs() + nr_empty_sockets,
            topology.cores,
            topology.threads
        ),
    ];
    if topology.nodes == 1 {
        return args;
    }
    let nr_node_cpus = topology.nr_cpus() / topology.nodes;
    let node_mib = memory_mib / topology.nodes;
    for node in 0..topology.nodes {
        // The first node takes what the division left over.
        let extra_mib = if node == 0 {
            memory_mib % topology.nodes
        } else {
            0
        };
        let first = node * nr_node_cpus;
        let last = match node + 1 == topology.nodes {
            true => nr_cpus_max - 1,
            false => first + nr_node_cpus - 1,
        };
        let size_mib = node_mib + extra_mib;
        args.push("-object".to_owned());
        args.push(format!("memory-backend-ram,id=node{node},size={size_mib}M"));
        args.push("-numa".to_owned());
        args.push(format!(
            "node,nodeid={node},cpus={first}-{last},memdev=node{node}"
        ));
    }
    args
}

fn kernel_line(words: &[String]) -> String {
    let mut line = KERNEL_WORDS.join(" ");
    for word in words {
        line.push(' ');
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_distributions_print_them() {
        let debian = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)";
        assert_eq!(parse_version(debian), Some((10, 0)));
        assert_eq!(parse_version("QEMU emulator version 7.2.19"), Some((7, 2)));
        assert_eq!(parse_version("something else"), None);
        assert!((7, 2) < VERSION_MIN && (8, 1) >= VERSION_MIN && (10, 0) >= VERSION_MIN);
    }

    #[test]
    fn nodes_share_all_cpus_and_all_memory() {
        let args = topology_args(&Topology::new(3, 2, 1, 2), 0, 1000).join(" ");
        assert!(
            args.starts_with("-smp 12,sockets=6,cores=1,threads=2"),
            "{args}"
        );
        for part in [
            "cpus=0-3",
            "cpus=4-7",
            "cpus=8-11",
            "size=334M",
            "size=333M",
        ] {
            assert!(args.contains(part), "{part} is not in {args}");
        }
    }

    #[test]
    fn sockets_that_are_empty_are_those_of_the_last_node() {
        let args = topology_args(&Topology::new(2, 1, 2, 1), 3, 1000).join(" ");
        assert!(
            args.starts_with("-smp 4,maxcpus=10,sockets=5,cores=2,threads=1"),
            "{args}"
        );
        assert!(
            args.contains("cpus=0-1") && args.contains("cpus=2-9"),
            "{args}"
        );
    }

    #[test]
    fn one_node_needs_no_words_about_nodes() {
        assert!(
            !topology_args(&Topology::flat(4), 0, 512)
                .join(" ")
                .contains("numa")
        );
    }
}
