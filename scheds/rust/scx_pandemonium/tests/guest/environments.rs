// SPDX-License-Identifier: GPL-2.0
//! The scheduler starts and schedules in every environment in which people start it, or
//! ends with one line that names the cause, which `check` names as well. Its memory and
//! its rules are where docs/REFERENCE.md says.
//!
//! A row is an environment: its name, lines of shell that make it, and what is expected.
//! The lines run as root in mounts of their own, so that one row does not see those of
//! another. `$WITH` is what the scheduler is started by: `env` or another program that
//! becomes the scheduler.
//!
//! Which rules were read is in their number: each directory has a power of two of them.

use anyhow::{Result, bail};

use crate::ours::OURS;
use crate::service;
use crate::support::told::Told;
use crate::support::world::World;

/// Rules in each of the directories.
const OF_SYSTEM: u32 = 1;
const OF_ROOT: u32 = 2;
const OF_USER: u32 = 4;

/// Where the memory is.
const MEMORY_OF_ROOT: &str = "/root/.cache/pandemonium/procdb";
const MEMORY_OF_USER: &str = "/home/one/.cache/pandemonium/procdb";
const MEMORY_OF_SYSTEM: &str = "/var/cache/pandemonium/procdb";
const NO_MEMORY: &str = "";

/// What is to become of the scheduler.
enum Expected {
    /// It schedules.
    Schedules(Places),
    /// It ends with 1, and the line that says why has these words.
    Ends(&'static str),
}
use Expected::{Ends, Schedules};

/// What a scheduler uses that starts.
struct Places {
    /// The file of its memory.
    memory: &'static str,
    /// How many rules.
    nr_rules: u32,
    /// Words of each of its warnings.
    warnings: &'static [&'static str],
}

const fn places(memory: &'static str, nr_rules: u32) -> Places {
    Places {
        memory,
        nr_rules,
        warnings: &[],
    }
}

/// As usual: a shell of root.
const USUAL: Expected = Schedules(places(MEMORY_OF_ROOT, OF_SYSTEM + OF_ROOT));

/// As a service, which has no user and so no home directory.
const SERVICE: Expected = Schedules(places(MEMORY_OF_SYSTEM, OF_SYSTEM));

/// By root on behalf of a user.
const ON_BEHALF: Expected = Schedules(places(MEMORY_OF_ROOT, OF_SYSTEM + OF_USER));

type Row = (&'static str, &'static str, Expected);

/// What is mounted.
const MOUNTS: &[Row] = &[
    ("as usual", "", USUAL),
    ("no kernel configuration", "hide /boot", USUAL),
    (
        "/proc with hidepid=2",
        "mount -t proc -o hidepid=2 proc /proc",
        USUAL,
    ),
    (
        "no debugfs and no tracefs",
        "umount /sys/kernel/debug /sys/kernel/tracing",
        USUAL,
    ),
    ("no cgroup2", "umount /sys/fs/cgroup", USUAL),
    ("no bpffs", "umount /sys/fs/bpf", USUAL),
    (
        "read-only root but for /run",
        "mount -t tmpfs none /var/run\nmount -o remount,bind,ro /",
        Schedules(Places {
            memory: NO_MEMORY,
            nr_rules: OF_SYSTEM + OF_ROOT,
            warnings: &["the memory of programs /root/.cache/pandemonium/procdb is not saved"],
        }),
    ),
    (
        "read-only root",
        "mount -o remount,bind,ro /",
        Schedules(Places {
            memory: NO_MEMORY,
            nr_rules: OF_SYSTEM + OF_ROOT,
            warnings: &[
                "no telemetry",
                "the memory of programs /root/.cache/pandemonium/procdb is not saved",
            ],
        }),
    ),
    (
        "no /etc/passwd",
        "mount --bind /dev/null /etc/passwd\nexport SUDO_UID=1000",
        USUAL,
    ),
    (
        "no type information",
        "hide /sys/kernel/btf",
        Ends("CONFIG_DEBUG_INFO_BTF"),
    ),
    ("no /proc", "umount /proc", Ends("/proc is not mounted")),
    ("no /sys", "hide /sys", Ends("/sys is not mounted")),
    (
        "topology ids of -1",
        "echo -1 >/tmp/unknown\n\
         for id in /sys/devices/system/cpu/cpu[0-9]*/topology/*_id; do\n\
         mount --bind /tmp/unknown $id\n\
         done",
        Schedules(Places {
            memory: MEMORY_OF_ROOT,
            nr_rules: OF_SYSTEM + OF_ROOT,
            warnings: &["the kernel does not know all of its CPUs"],
        }),
    ),
    // The last one: to give the controller back takes the kernel a while.
    (
        "cgroup v1 beside it",
        "mount -t tmpfs none /sys/fs/cgroup\n\
         mkdir /sys/fs/cgroup/cpu\n\
         mount -t cgroup -o cpu none /sys/fs/cgroup/cpu || echo no v1 >&2\n\
         mkdir /sys/fs/cgroup/cpu/heavy\n\
         echo 2048 >/sys/fs/cgroup/cpu/heavy/cpu.shares",
        USUAL,
    ),
];

/// Who starts it.
const STARTERS: &[Row] = &[
    ("HOME=/", "export HOME=/", SERVICE),
    ("no HOME", "unset HOME", SERVICE),
    (
        "Turkish locale",
        "export LANG=tr_TR.UTF-8 LC_ALL=tr_TR.UTF-8",
        USUAL,
    ),
    (
        "systemd unit",
        "export GUEST_AGENT=\"capable $CAPABILITIES $SCHEDULER\"\n\
         unset HOME\n\
         WITH=\"env CACHE_DIRECTORY=/var/cache/pandemonium INVOCATION_ID=1 LANG=C.UTF-8 \
         JOURNAL_STREAM=8:1\"\n\
         exec $WITH \"$AGENT\" agent::in_a_guest --exact --test-threads=1 >/dev/null",
        SERVICE,
    ),
    // openrc-run keeps what it has a list of, and adds variables of its own.
    (
        "OpenRC",
        "cd /\n\
         WITH=\"env -i $LOADER PATH=/bin TERM=linux RC_SVCNAME=scx RC_RUNLEVEL=default \
         RC_UNAME=Linux EINFO_VERBOSE=yes\"",
        SERVICE,
    ),
    // The kernel gives its first process HOME=/ and TERM=linux, and runsvdir passes them on.
    // A service is in its own directory.
    (
        "runit",
        "mkdir -p /etc/sv/scx\n\
         cd /etc/sv/scx\n\
         exec 0<&-\n\
         WITH=\"env -i $LOADER PATH=/bin HOME=/ TERM=linux\"",
        SERVICE,
    ),
    // s6-supervise is in the directory of the service. Its output is a pipe to a logger.
    (
        "s6",
        "mkdir -p /run/service/scx\n\
         cd /run/service/scx\n\
         exec 0<&- 1>&-\n\
         WITH=\"env -i $LOADER PATH=/bin\"",
        SERVICE,
    ),
    (
        "sudo",
        "export SUDO_USER=one SUDO_UID=1000 SUDO_GID=1000",
        ON_BEHALF,
    ),
    (
        "sudo with HOME of the user",
        "export SUDO_USER=one SUDO_UID=1000 SUDO_GID=1000 HOME=/home/one",
        Schedules(places(MEMORY_OF_USER, OF_SYSTEM + OF_USER)),
    ),
    (
        "doas",
        "WITH=\"env -i $LOADER PATH=/bin HOME=/root USER=root DOAS_USER=one\"",
        ON_BEHALF,
    ),
    (
        "pkexec",
        "WITH=\"env -i $LOADER PATH=/bin HOME=/root PKEXEC_UID=1000\"",
        ON_BEHALF,
    ),
    (
        "run0",
        "WITH=\"env -i $LOADER PATH=/bin HOME=/root USER=root INVOCATION_ID=1\"",
        USUAL,
    ),
];

/// Each row as `environment NUMBER`, with its lines.
const SCRIPT: &str = r#"
LOADER=${LD_LIBRARY_PATH:+LD_LIBRARY_PATH=$LD_LIBRARY_PATH}
export LOADER SCHEDULER AGENT CAPABILITIES
echo 'one:x:1000:1000::/home/one:/bin/sh' >>/etc/passwd
# give_rules DIR NR: so many rules that match nothing.
give_rules() {
	mkdir -p $1/scx_pandemonium/rules.d
	for i in $(seq $2); do
		printf '[[rule]]\nname = "none-%s"\nleast_tier = "batch"\n' $2-$i
	done >$1/scx_pandemonium/rules.d/own.toml
}
give_rules /etc 1
give_rules /root/.config 2
give_rules /home/one/.config 4
give_rules /.config 8
mkdir -p /home/one/.cache /var/run
chown -R 1000 /home/one
fact cpus $(cat /sys/devices/system/cpu/possible /sys/devices/system/cpu/online)
cat >/tmp/words <<'END'
# hide DIR: an empty directory in its place.
hide() {
	mount -t tmpfs none "$1"
}
END
# become WORDS: what the row makes, then the scheduler with these words.
become() {
	cat /tmp/words /tmp/lines
	echo "exec \$WITH \"\$SCHEDULER\" $*"
}
# look: wake so often, and stay so long, that this shell is learned.
look() {
	for _ in $(seq 14); do
		usleep 100000
	done
}
environment() {
	nr=$1
	cat >/tmp/lines
	become >/tmp/row
	rm -rf /var/cache /var/run/scx /root/.cache /home/one/.cache/* /.cache
	[ "$PIT_DIVISOR" = 0 ] || guest-clock 65535 0
	unshare -m sh /tmp/row 2>/tmp/said &
	pid=$!
	enabled=no
	if wait_state enabled $pid; then
		enabled=yes
		guest-clock "$PIT_DIVISOR" 0
		look
		kill -TERM $pid
	else
		become check >/tmp/row
		unshare -m sh /tmp/row >/tmp/checked 2>/dev/null
		fact checked $nr $? $(grep ^problem /tmp/checked)
	fi
	wait $pid
	fact ended $nr $? $enabled $(cat $STATE)
	guest-clock "$PIT_DIVISOR" 0
	while read -r line; do
		fact said $nr "$line"
	done </tmp/said
	for file in $(find / -xdev -name 'procdb*'); do
		fact memory $nr $file
	done
}
"#;

/// What was told of one row.
struct Ended {
    code: i32,
    has_scheduled: bool,
    state: String,
    said: Vec<String>,
    memory: Vec<String>,
    checked: Vec<String>,
}

/// The values told of `key` for the row of that number.
fn of_row(told: &Told, key: &str, nr: usize) -> Vec<String> {
    let all: Vec<String> = told.all(key).unwrap_or_default();
    let number = nr.to_string();
    let pairs = all.iter().filter_map(|value| value.split_once(' '));
    pairs
        .filter(|(of, _)| *of == number)
        .map(|(_, value)| value.to_owned())
        .collect()
}

impl Ended {
    fn read(told: &Told, nr: usize) -> Result<Ended> {
        let ended = of_row(told, "ended", nr).join(" ");
        let words: Vec<&str> = ended.split(' ').collect();
        let &[code, enabled, state] = words.as_slice() else {
            bail!("row {nr} ended with {ended:?}");
        };
        Ok(Ended {
            code: code.parse()?,
            has_scheduled: enabled == "yes",
            state: state.to_owned(),
            said: of_row(told, "said", nr),
            memory: of_row(told, "memory", nr),
            checked: of_row(told, "checked", nr),
        })
    }

    /// The lines of the log that begin so, without that.
    fn logged(&self, level: &str) -> Vec<&str> {
        let lines = self.said.iter().map(String::as_str);
        lines
            .filter_map(|line| line.strip_prefix(level)?.strip_prefix(' '))
            .collect()
    }

    /// What is no line of the log, nor says that the scheduler was stopped.
    fn others(&self) -> Vec<&str> {
        let usual = ["[INFO] ", "[WARN] ", "EXIT: unregistered"];
        let is_usual = |line: &&str| usual.iter().any(|begin| line.starts_with(begin));
        let lines = self.said.iter().map(String::as_str);
        lines.filter(|line| !is_usual(line)).collect()
    }

    /// How many rules were read.
    fn nr_rules(&self) -> Option<u32> {
        let lines = self.logged("[INFO]");
        let of_ours = lines.iter().find_map(|line| line.strip_prefix("rules: "));
        of_ours?.split(' ').next()?.parse().ok()
    }

    /// What is not as `expected`, if anything.
    fn wrong(&self, expected: &Expected) -> Option<String> {
        if self.state != "disabled" {
            return Some(format!("sched_ext is {} after it", self.state));
        }
        match expected {
            Schedules(places) => self.wrong_places(places),
            Ends(words) => self.wrong_end(words),
        }
    }

    fn wrong_places(&self, places: &Places) -> Option<String> {
        if (self.code, self.has_scheduled) != (0, true) {
            return Some(format!("it ended with {}", self.code));
        }
        let others = self.others();
        if !others.is_empty() {
            return Some(format!("it said {others:?}"));
        }
        let warnings = self.logged("[WARN]");
        let wanted = places.warnings;
        let are_wanted = warnings.len() == wanted.len()
            && wanted
                .iter()
                .all(|words| warnings.iter().any(|warning| warning.contains(words)));
        if !are_wanted {
            return Some(format!("it warns of {warnings:?}"));
        }
        if self.nr_rules().unwrap_or(0) != places.nr_rules {
            return Some(format!("it has {:?} rules", self.nr_rules()));
        }
        let memory = self.memory.join(" ");
        (memory != places.memory).then(|| format!("its memory is in {memory:?}"))
    }

    fn wrong_end(&self, words: &str) -> Option<String> {
        if self.code != 1 || self.has_scheduled {
            return Some(format!("it ended with {}", self.code));
        }
        let others = self.others();
        if others.len() != 1 || !others[0].contains(words) {
            return Some(format!("it said {others:?}"));
        }
        let checked = self.checked.join(" ");
        let is_found = checked.starts_with("1 ") && checked.contains(words);
        (!is_found).then(|| format!("check found {checked:?}"))
    }
}

/// Boot `world` and go through all `rows` before what is wrong is said.
fn all(world: &World, rows: &[Row]) -> Result<Told> {
    let environments = rows
        .iter()
        .enumerate()
        .map(|(nr, (_, lines, _))| format!("environment {nr} <<'END'\n{lines}\nEND\n"));
    let environments: String = environments.collect();
    let capabilities = service::capabilities();
    let told = world.run(&format!(
        "CAPABILITIES={capabilities}\n{SCRIPT}{environments}"
    ))?;
    let mut wrong = Vec::new();
    for (nr, (name, _, expected)) in rows.iter().enumerate() {
        let ended = Ended::read(&told, nr)?;
        if let Some(what) = ended.wrong(expected) {
            wrong.push(format!("{name}: {what}\n  {}", ended.said.join("\n  ")));
        }
    }
    told.check(wrong.is_empty(), || wrong.join("\n"))?;
    Ok(told)
}

invariant!(
    it_schedules_whatever_is_mounted_or_says_what_is_missing,
    |kernel| all(&OURS.flat(kernel, 2)?, MOUNTS).map(drop)
);

invariant!(it_schedules_whoever_starts_it, |kernel| all(
    &OURS.flat(kernel, 2)?,
    STARTERS
)
.map(drop));

invariant!(
    it_schedules_two_cpus_of_many_that_could_be_present,
    |kernel| {
        let world = OURS.flat(kernel, 2)?.with_empty_sockets(31);
        let told = all(&world, &MOUNTS[..1])?;
        let cpus: String = told.one("cpus")?;
        told.check_eq("possible and online CPUs", cpus.as_str(), "0-63 0-1")
    }
);

// The others are present, and offline.
invariant!(it_schedules_one_cpu_of_many_possible_ones, |kernel| {
    let world = OURS.flat(kernel, 64)?;
    let world = world.with_kernel_word("maxcpus=1");
    let told = all(&world, &MOUNTS[..1])?;
    let cpus: String = told.one("cpus")?;
    told.check_eq("possible and online CPUs", cpus.as_str(), "0-63 0")
});
