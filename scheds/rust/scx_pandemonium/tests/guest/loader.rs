// SPDX-License-Identifier: GPL-2.0
//! The scheduler under `scx_loader`, as distributions start it: the real loader and
//! its client from the registry, the system bus, polkit, and another scheduler to
//! switch to and from. The loader runs in the sandbox of its unit, see sandbox.rs.
//!
//! `cargo xtask test` builds these programs once and installs the bus and polkit.
//! Without them the test is skipped. `loader.sh` is what the user does.
//!
//! - `bpf-objects`: how many BPF programs, maps, links and BTFs the kernel holds.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use libbpf_rs::query::{BtfInfoIter, LinkInfoIter, MapInfoIter, ProgInfoIter};
use scx_guest::Kernel;
use serde::Deserialize;
use serde_json::Value;

use crate::ours::OURS;
use crate::support::skip;
use crate::support::told::Told;
use crate::support::world::World;

/// What `bpf-objects` asks for.
pub fn bpf_objects() -> Result<String> {
    Ok(format!(
        "{} {} {} {}",
        ProgInfoIter::default().count(),
        MapInfoIter::default().count(),
        LinkInfoIter::default().count(),
        BtfInfoIter::default().count()
    ))
}

const SCRIPT: &str = include_str!("loader.sh");

/// The programs of the registry.
const PUBLISHED: &str = include_str!("published.json");

/// A program of the registry, which has the name of its package.
#[derive(Deserialize)]
struct Published {
    name: String,
    version: String,
}

/// Programs of packages of the distribution.
const INSTALLED: &[&str] = &[
    "dbus-daemon",
    "dbus-send",
    "/usr/lib/polkit-1/polkitd",
    "chrt",
];

/// Files of these packages.
const INSTALLED_FILES: &[&str] = &[
    "/usr/share/dbus-1/system.conf",
    "/usr/share/dbus-1/system.d/org.freedesktop.PolicyKit1.conf",
    "/usr/share/polkit-1/actions/org.freedesktop.policykit.policy",
];

/// Our section for the loader's configuration, and where the guest finds it.
const SECTION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scx_loader.toml");
const SECTION_IN_GUEST: &str = "/etc/scx_loader.toml.ours";

/// The world with all of them, or why there is none.
fn world(kernel: &Kernel) -> Result<Option<World>> {
    let mut programs: Vec<PathBuf> = Vec::new();
    for Published { name, version } in serde_json::from_str::<Vec<Published>>(PUBLISHED)? {
        let program = scx_guest::published_program(&name, &version)?;
        if !program.is_file() {
            skip(&format!(
                "no {name} {version}, which `cargo xtask test` builds"
            ));
            return Ok(None);
        }
        programs.push(program);
    }
    for name in INSTALLED {
        let Some(program) = scx_guest::find_program(name) else {
            skip(&format!("no {name}, which `cargo xtask test` installs"));
            return Ok(None);
        };
        programs.push(program);
    }
    let mut world = OURS.flat(kernel, 2)?;
    for program in programs {
        let program = program.to_str().context("a path that is no text")?;
        world = world.with_program(program)?;
    }
    for file in INSTALLED_FILES {
        world = world.with_file(Path::new(file), file);
    }
    Ok(Some(world.with_file(Path::new(SECTION), SECTION_IN_GUEST)))
}

/// Profiles by the case that is to have them.
const PROFILES: &[(&str, &str)] = &[
    ("boot", "server"),
    ("powersave", "powersave"),
    ("lowlatency", "lowlatency"),
    ("gaming", "gaming"),
    ("killed", "gaming"),
    ("thrown_out", "gaming"),
    ("auto", "auto"),
    ("stalled", "auto"),
    ("args", "gaming"),
    ("restart", "gaming"),
    ("restore", "server"),
    ("decided", "gaming"),
];

/// What commands end with and say.
const SAID: &[(&str, &str, &[&str])] = &[
    ("supported", "0", &["scx_pandemonium", "scx_bpfland"]),
    ("stop_called", "0", &[]),
    ("list", "0", &["\"pandemonium\""]),
    (
        "modes",
        "0",
        &[
            "Gaming: --profile gaming",
            "LowLatency: --profile lowlatency",
            "PowerSave: --profile powersave",
            "Server: --profile server",
        ],
    ),
    ("nobody", "1", &["Not allowed"]),
    ("start_called", "0", &[]),
    ("to_other", "0", &["switched to Bpfland in Gaming mode"]),
    ("get_other", "0", &["running Bpfland in Gaming mode"]),
    (
        "from_other",
        "0",
        &["switched to Pandemonium in LowLatency mode"],
    ),
    ("get", "0", &["running Pandemonium in LowLatency mode"]),
    ("switch_called", "0", &[]),
    ("auto_said", "0", &["switched to Pandemonium in Auto mode"]),
    ("get_none", "0", &["no scx scheduler running"]),
    ("wrong", "0", &["--no-such-option"]),
    ("wrong_stop", "0", &["stopped"]),
    ("refused", "0", &["started Pandemonium"]),
    ("refused_stop", "0", &["stopped"]),
    ("refused_why", "0", &["running (bpfland", "stop it first"]),
    ("stalled_why", "0", &["runnable task stall"]),
    ("args", "0", &["started Pandemonium with arguments"]),
    ("get_args", "0", &["--profile gaming --no-adaptive"]),
    ("restart", "0", &["restarted"]),
    (
        "restore",
        "0",
        &["restored default scheduler Pandemonium in Server mode"],
    ),
];

/// Modes by number, as the property gives them: at boot, and after two calls.
const MODES: &[&str] = &[
    "0 variant uint32 4",
    "0 variant uint32 2",
    "0 variant uint32 1",
];

/// The property while ours schedules, and while none does.
const CURRENT: &[&str] = &["0 variant scx_pandemonium", "0 variant unknown"];

/// The wait statuses that the loader sees: an exit code in the second byte, or a
/// signal in the first.
const EXIT_0: u32 = 0;
const EXIT_1: u32 = 1 << 8;
const EXIT_2: u32 = 2 << 8;
const SIGINT: u32 = 2;
const SIGKILL: u32 = 9;

/// Statuses by the case: of schedulers that ended by themselves, and of those that
/// were stopped, with the one that the loader remembers of what has ended before.
const STATUSES: &[(&str, &[u32], &[u32])] = &[
    ("boot_log", &[], &[EXIT_0]),
    ("switch_log", &[], &[EXIT_0; 3]),
    (
        "failure_log",
        &[SIGKILL, EXIT_1, SIGKILL, SIGKILL, SIGKILL],
        &[],
    ),
    ("auto_log", &[EXIT_1], &[SIGKILL, EXIT_0]),
    ("wrong_log", &[EXIT_2; 5], &[EXIT_2]),
    ("refused_log", &[EXIT_1; 5], &[EXIT_1]),
    ("args_log", &[], &[EXIT_0; 2]),
];

/// What the loader says of a scheduler that has ended, and of one that it stopped.
const ENDED: &str = "Child process exited";
const STOPPED: &str = "Scheduler was stopped";

/// What the kernel says of the scheduler's process: its capabilities are all but 12
/// of the 41, its system calls are filtered, it mounts apart from this shell, and what
/// the service may not write it cannot.
const SANDBOX: &[&str] = &[
    "CapBnd: 000001e3f5a2dffe",
    "Seccomp: 2",
    "other mounts",
    "read-only /usr",
];

/// Rounds of switches, the first of which is taken back while it loads.
const NR_ROUNDS: usize = 2;

/// Memory of the loader that it may have more after all switches.
const RSS_MORE_MAX_KIB: u64 = 1024;

/// Looks at what the guest told.
type Check = fn(&Told) -> Result<()>;

/// What is asked of the run, each with its name, so that all that fails is told.
const CHECKS: &[(&str, Check)] = &[
    ("the profile of each mode", check_profiles),
    ("what commands say", check_said),
    ("the properties", check_properties),
    ("the arguments", check_arguments),
    ("the exit codes", check_exit_codes),
    ("many switches", check_switches),
    ("BPF objects", check_bpf_objects),
    ("what the loader holds", check_loader),
    ("the sandbox", check_sandbox),
];

invariant!(the_real_loader_does_with_it_what_users_ask_for, |kernel| {
    let Some(world) = world(kernel)? else {
        return Ok(());
    };
    let told = world.allow_scx_error().run(SCRIPT)?;
    let mut failed = Vec::new();
    for &(name, check) in CHECKS {
        if let Err(err) = check(&told) {
            println!("{name}: {err}");
            failed.push(name);
        }
    }
    told.check(failed.is_empty(), || failed.join(", "))
});

/// Every profile, and each case of ours that is wrong.
fn check_profiles(told: &Told) -> Result<()> {
    let mut wrong = Vec::new();
    for &(case, profile) in PROFILES {
        let telemetry: Value = told.one(&format!("{case}_telemetry"))?;
        if telemetry["profile"] != profile {
            wrong.push(format!("{case}: {}, not {profile}", telemetry["profile"]));
        }
    }
    told.check(wrong.is_empty(), || wrong.join(", "))
}

fn check_said(told: &Told) -> Result<()> {
    let mut wrong = Vec::new();
    for &(key, code, words) in SAID {
        let said: String = told.one(key)?;
        let is_all_said = words.iter().all(|word| said.contains(word));
        if said.split(' ').next() != Some(code) || !is_all_said {
            wrong.push(format!("{key}: {said:?}, not {code} and {words:?}"));
        }
    }
    told.check(wrong.is_empty(), || wrong.join(", "))
}

fn check_properties(told: &Told) -> Result<()> {
    told.check_eq("modes", told.all::<String>("mode")?, texts(MODES))?;
    told.check_eq("scheduler", told.all::<String>("current")?, texts(CURRENT))
}

/// Given by a user, they are the same after a restart.
fn check_arguments(told: &Told) -> Result<()> {
    for case in ["args", "restart"] {
        let args: String = told.one(&format!("{case}_args"))?;
        told.check(args.ends_with("--profile gaming --no-adaptive"), || {
            format!("{case}: {args}")
        })?;
    }
    Ok(())
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

/// The statuses in what the loader said with `words`.
fn statuses(lines: &[String], words: &str) -> Vec<u32> {
    let lines = lines.iter().filter(|line| line.contains(words));
    lines
        .filter_map(|line| {
            let (_, status) = line.split_once("unix_wait_status(")?;
            status.split_once(')')?.0.parse().ok()
        })
        .collect()
}

fn check_exit_codes(told: &Told) -> Result<()> {
    let mut wrong = Vec::new();
    for &(case, ended, stopped) in STATUSES {
        let lines: Vec<String> = told.all(case)?;
        let found = (statuses(&lines, ENDED), statuses(&lines, STOPPED));
        let expected = (ended.to_vec(), stopped.to_vec());
        if found != expected {
            wrong.push(format!("{case}: {found:?}, not {expected:?}"));
        }
    }
    told.check(wrong.is_empty(), || wrong.join(", "))
}

/// However soon one comes after the other, each scheduler ends at once or in order.
fn check_switches(told: &Told) -> Result<()> {
    // A process that has only just begun has no handler for the signal yet.
    let lines: Vec<String> = told.all("decided_log")?;
    let found = statuses(&lines, STOPPED);
    let nr_switches = told.all::<String>("switch")?.len();
    let count = |status| found.iter().filter(|&&found| found == status).count();
    println!(
        "{nr_switches} switches: {} schedulers stopped by exit, {} before they could",
        count(EXIT_0),
        count(SIGINT)
    );
    told.check_eq("stops", found.len(), nr_switches + 1)?;
    told.check(
        count(EXIT_0) + count(SIGINT) == found.len() && count(EXIT_0) >= NR_ROUNDS,
        || format!("statuses after switches: {found:?}"),
    )
}

/// Nothing is left in the kernel: after a stop, after all switches, after the service.
/// Only a BTF may go later than what it describes.
fn check_bpf_objects(told: &Told) -> Result<()> {
    let count = |key: &str| -> Result<(String, u64)> {
        let objects: String = told.one(key)?;
        let (others, btfs) = objects.rsplit_once(' ').context("no BTFs are told")?;
        Ok((others.to_owned(), btfs.parse().context("a number of BTFs")?))
    };
    let (before, btfs_before) = count("before_bpf")?;
    for key in ["first_bpf", "last_bpf", "after_bpf"] {
        let (others, btfs) = count(key)?;
        println!("{key}: {others} {btfs}, before {before} {btfs_before}");
        told.check_eq(key, others, before.clone())?;
        told.check(btfs <= btfs_before + 1, || format!("{key}: {btfs} BTFs"))?;
    }
    let [first, last] = first_and_last(told, "pinned")?;
    told.check_eq("pinned objects", last, first)
}

fn check_loader(told: &Told) -> Result<()> {
    let [first, last] = first_and_last(told, "descriptors")?;
    told.check_eq("descriptors", last, first)?;
    let [first, last] = first_and_last(told, "rss_kib")?;
    told.check(last <= first + RSS_MORE_MAX_KIB, || {
        format!("the loader's memory grew from {first} to {last} KiB")
    })
}

/// A figure after the first stop and after the last.
fn first_and_last(told: &Told, what: &str) -> Result<[u64; 2]> {
    let first = told.one(&format!("first_{what}"))?;
    let last = told.one(&format!("last_{what}"))?;
    println!("{what}: {first}, at last {last}");
    Ok([first, last])
}

/// The scheduler is within it.
fn check_sandbox(told: &Told) -> Result<()> {
    told.check_eq("sandbox", told.all::<String>("sandbox")?, texts(SANDBOX))
}
