// SPDX-License-Identifier: GPL-2.0
//! The capabilities that our systemd unit leaves the scheduler are enough, and each
//! that can be missed here is needed. The unit without systemd: what it bounds is
//! dropped by hand.
//!
//! - `capable CAPABILITIES PROGRAM ARGS`: becomes that program with these capabilities
//!   alone, numbers with commas.

use std::ffi::c_ulong;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::sandbox::drop_capability;

/// From the directory of the package.
const UNIT: &str = "../../../services/scx_pandemonium.service.in";

/// Capabilities, as in `linux/capability.h`, and what is missed without each. The last
/// counts only where the kernel refuses the scheduler.
const CAPABILITIES: &[(&str, u32, Missed)] = &[
    ("CAP_BPF", 39, Missed::Schedule),
    ("CAP_PERFMON", 38, Missed::Schedule),
    ("CAP_DAC_READ_SEARCH", 2, Missed::Rule),
    ("CAP_SYS_PTRACE", 19, Missed::Rule),
    ("CAP_SYSLOG", 34, Missed::Nothing),
];

/// What fails without a capability: it does not schedule, or a rule does not count, since
/// only its user may read it or the path of the program is not seen.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Missed {
    Schedule,
    Rule,
    Nothing,
}

/// `CAP_CHECKPOINT_RESTORE`.
const LAST_CAPABILITY: u32 = 40;

/// What the words after `capable` ask for. Returns only if it fails.
pub fn become_capable(words: &[&str]) -> Result<String> {
    let [capabilities, program, args @ ..] = words else {
        bail!("capable CAPABILITIES PROGRAM ARGS");
    };
    let kept: Result<Vec<u32>, _> = capabilities.split(',').map(str::parse).collect();
    let kept = kept?;
    for capability in (0..=LAST_CAPABILITY).filter(|capability| !kept.contains(capability)) {
        drop_capability(c_ulong::from(capability))?;
    }
    let err = Command::new(program).args(args).exec();
    Err(err).with_context(|| format!("running {program}"))
}

/// With each set of capabilities: whether it schedules, else its exit code, and why a
/// program of another user has its tier.
const SCRIPT: &str = r#"
mkdir -p /home/rules /dev/shm
cp /bin/guest-hog /dev/shm/game
cat >/home/rules/own.toml <<EOF
[[rule]]
path = "/dev/shm/game"
least_tier = "interactive"
EOF
chmod 600 /home/rules/own.toml
chmod 700 /home/rules
chown -R 1000 /home/rules
for capabilities in $SETS; do
	GUEST_AGENT="capable $capabilities $SCHEDULER --rules /home/rules" "$AGENT" \
		agent::in_a_guest --exact --test-threads=1 >/dev/null 2>>$LOG &
	pid=$!
	if ! wait_state enabled $pid; then
		wait $pid
		fact ran $? -
		continue
	fi
	agent unprivileged /dev/shm/game &
	usleep 800000
	"$SCHEDULER" tasks --json --name game >/tmp/game
	by=$(grep -o '"tier_by":"[a-z]*"' /tmp/game)
	fact ran schedules ${by#*:}
	kill $(grep -o '"pid":[0-9]*' /tmp/game | cut -d : -f 2)
	stop INT
done
"#;

/// The text of the unit.
fn unit() -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(UNIT);
    fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

/// The capabilities of the service as `capable` takes them.
pub fn capabilities() -> String {
    let numbers = CAPABILITIES.iter().map(|(_, number, _)| number.to_string());
    numbers.collect::<Vec<_>>().join(",")
}

/// The names that the unit bounds its capabilities to.
fn bounded() -> Result<Vec<String>> {
    let unit = unit()?;
    let lines = unit
        .lines()
        .filter_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    Ok(lines
        .flat_map(str::split_whitespace)
        .map(str::to_owned)
        .collect())
}

fn runs(kernel: &Kernel) -> Result<()> {
    let mut names: Vec<String> = CAPABILITIES
        .iter()
        .map(|(name, ..)| name.to_string())
        .collect();
    let mut bounded = bounded()?;
    names.sort_unstable();
    bounded.sort_unstable();
    ensure!(names == bounded, "the unit has {bounded:?}, not {names:?}");

    let list = |without: Option<&str>| {
        let kept = CAPABILITIES
            .iter()
            .filter(|(name, ..)| Some(*name) != without);
        let numbers: Vec<String> = kept.map(|(_, number, _)| number.to_string()).collect();
        numbers.join(",")
    };
    let mut sets = vec![list(None)];
    sets.extend(CAPABILITIES.iter().map(|(name, ..)| list(Some(name))));
    let script = format!("SETS='{}'\n{SCRIPT}", sets.join(" "));
    let told = OURS.flat(kernel, 2)?.run(&script)?;

    let ran: Vec<String> = told.all("ran")?;
    let with_all = [("all", Missed::Nothing)];
    let missing = CAPABILITIES
        .iter()
        .map(|(name, _, missed)| (*name, *missed));
    let expected: Vec<_> = with_all.into_iter().chain(missing).collect();
    told.check_eq("runs", ran.len(), expected.len())?;
    for (ran, (name, missed)) in ran.iter().zip(expected) {
        println!("without {name}: {ran}");
        let is_as_expected = match missed {
            Missed::Nothing => ran == "schedules \"rule\"",
            Missed::Rule => ran.starts_with("schedules ") && !ran.ends_with("\"rule\""),
            Missed::Schedule => ran == "1 -",
        };
        told.check(is_as_expected, || {
            format!("without {name} it is {ran:?}, expected {missed:?} to be missed")
        })?;
    }
    told.check_stops()
}

/// What systemd stops this unit for, by the settings of that.
const STOPPING: &[&str] = &["Conflicts", "BindsTo", "PartOf", "Requires", "Requisite"];

#[test]
fn a_question_to_the_loader_stops_no_service() -> Result<()> {
    let unit = unit()?;
    for line in unit.lines() {
        let (setting, value) = line.split_once('=').unwrap_or_default();
        ensure!(
            !STOPPING.contains(&setting) || !value.contains("scx_loader"),
            "{line}: the bus starts scx_loader for a question"
        );
    }
    Ok(())
}

invariant!(
    the_capabilities_of_the_service_are_enough_and_needed,
    [lts, newest],
    runs
);
