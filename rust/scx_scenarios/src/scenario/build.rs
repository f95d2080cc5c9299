// SPDX-License-Identifier: GPL-2.0
//! A real build: make starts a compiler for each object, again and again.
//!
//! The compiler is tcc, which is small and quick, so that a whole build fits
//! into a short measurement even where instructions count as nanoseconds. The
//! project is generated, one object a few thousand lines; it needs no library
//! and no header of the system.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::wake::PLAIN_PROBE;
use super::{Scenario, WARMUP_NS, measure};
use crate::clock::{self, NSEC_PER_MSEC, NSEC_PER_SEC, NSEC_PER_USEC, now_ns};
use crate::interrupt::{self, Undo};
use crate::probe::Probe;
use crate::result::{Better, Findings};
use crate::session::Session;
use crate::shared::{Helper, Log};
use crate::stats::Recorder;
use crate::thread;
use crate::tool::Tool;

/// What drives the build.
pub const MAKE_TOOL: Tool = Tool {
    program: "make",
    package: "make",
};
/// What compiles.
pub const TCC_TOOL: Tool = Tool {
    program: "tcc",
    package: "tcc",
};

/// Objects of the project.
const UNITS: usize = 24;
/// Functions in each: 2500 lines, some 15 million instructions to compile.
const FUNCTIONS: usize = 100;

/// What the log says of a build that failed.
const FAILED: u64 = u64::MAX;

/// A build beside a probe.
pub const BUILD: Scenario = Scenario {
    id: "build",
    about: "A real `make -jN`, again and again: 24 objects of 2500 lines each are compiled by tcc \
            and joined. A probe wakes every 2 ms and uses 0.1 ms of CPU. Build: from before make \
            is started to after its end, of builds that begin in the measurement; wake latency of \
            the probe.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: false,
    run: run_build,
};

/// A game under a build.
pub const FRAMES_BUILD: Scenario = Scenario {
    id: "frames_build",
    about: "A real `make -jN` as in build. A frame thread as in frames60 beside it: 60 times a \
            second 4 ms of CPU. Done, missed and build as there.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: false,
    run: run_frames,
};

fn run_build(session: &Session) -> Result<Findings> {
    let builds = Builds::start(session)?;
    // As in compile: a delay that shows in a build would hold up the probe.
    let mut undelayed = session.clone();
    undelayed.inject_ns = 0;
    let probe = Probe {
        work_ns: 100 * NSEC_PER_USEC,
        ..PLAIN_PROBE
    }
    .spawn(&undelayed)?;
    let mut findings = measure(session)?;
    let probe = thread::join(probe)?;
    findings.latency("build", &builds.join()?, &["mean"]);
    findings.latency("wake", &probe.wake, &["p99"]);
    findings.group("probe", probe.usage);
    Ok(findings)
}

fn run_frames(session: &Session) -> Result<Findings> {
    let builds = match session.no_load {
        true => None,
        false => Some(Builds::start(session)?),
    };
    let frame = Probe {
        name: "frame",
        period_ns: NSEC_PER_SEC / 60,
        work_ns: 4 * NSEC_PER_MSEC,
    }
    .spawn(session)?;
    let mut findings = measure(session)?;
    let frame = thread::join(frame)?;
    findings.latency("done", &frame.done, &["p95"]);
    findings.latency("wake", &frame.wake, &[]);
    findings.headline("missed", frame.missed as f64, "", Better::Lower);
    findings.detail("events", frame.done.count() as f64, "", Better::Neither);
    if let Some(builds) = builds {
        findings.latency("build", &builds.join()?, &["mean"]);
    }
    findings.group("frame", frame.usage);
    Ok(findings)
}

/// Builds of one project that follow each other without a pause.
pub(super) struct Builds {
    helper: Helper,
    project: Project,
    args: Vec<String>,
}

impl Builds {
    /// Build until the loads end. The last one is waited for.
    pub(super) fn start(session: &Session) -> Result<Self> {
        let project = Project::generate(UNITS, FUNCTIONS)?;
        // Without make's own rules, and everything anew each time.
        let args = ["-r", "-R", "-s", "-B", &format!("-j{}", session.cpus)].map(String::from);
        let args = args.to_vec();
        let start_ns = session.next_start_ns();
        let helper = {
            let (session, dir, args) = (session.clone(), project.dir().to_path_buf(), args.clone());
            Helper::start(move |log| build_again(&session, log, &dir, &args, start_ns))?
        };
        Ok(Self {
            helper,
            project,
            args,
        })
    }

    /// Times of the builds that began in the measurement.
    pub(super) fn join(self) -> Result<Recorder> {
        let mut times = Recorder::new();
        for time_ns in self.helper.join()? {
            if time_ns == FAILED {
                // Once more, for what it says.
                MAKE_TOOL.start(&self.args, self.project.dir())?.join()?;
                bail!("a build failed, and the next one did not");
            }
            times.record(time_ns);
        }
        if times.count() == 0 {
            bail!("no build began in the measurement: the one before had not ended");
        }
        Ok(times)
    }
}

fn build_again(session: &Session, log: &Log, dir: &Path, args: &[String], start_ns: u64) {
    clock::sleep_until_ns(start_ns);
    while now_ns() < session.load_to_ns {
        let began_ns = now_ns();
        let outcome = MAKE_TOOL.start(args, dir).and_then(|make| make.join());
        clock::spin_for_ns(session.inject_ns);
        if outcome.is_err() {
            log.push(FAILED);
            return;
        }
        if session.counts(began_ns) {
            log.push(now_ns() - began_ns);
        }
    }
}

/// A generated C project in a directory of its own.
struct Project {
    dir: std::path::PathBuf,
    _remove: Undo,
}

impl Project {
    fn generate(nr_units: usize, nr_functions: usize) -> Result<Self> {
        let dir = tempfile::tempdir()
            .context("making a directory to build in")?
            .keep();
        let path = dir.clone();
        // What cannot be removed is below /tmp; there is nobody to tell.
        let remove = interrupt::undo_later(move || drop(fs::remove_dir_all(path)));
        let files = [
            ("common.h", HEADER.to_string()),
            ("unit.c", unit(nr_functions)),
            ("Makefile", makefile(nr_units)),
        ];
        for (name, text) in files {
            let path = dir.join(name);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(Self {
            dir,
            _remove: remove,
        })
    }

    fn dir(&self) -> &Path {
        &self.dir
    }
}

const HEADER: &str = "\
struct item {
	long key;
	long value;
	const char *name;
};

#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define PASTE(unit, nth) unit_##unit##_##nth
#define NAME(unit, nth) PASTE(unit, nth)
#define SALT(nth) ((long)UNIT * 1000003 + (nth))

static inline long mix(long a, long b)
{
	a ^= b + (a << 6) + (a >> 2);
	return a * 31;
}
";

/// One source for all objects, told apart by UNIT: tables, loops, branches and
/// macros, as much as a compiler meets anywhere.
fn unit(nr_functions: usize) -> String {
    let mut text = String::from("#include \"common.h\"\n");
    for nth in 0..nr_functions {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "
static const struct item table_{nth}[] = {{
	{{ UNIT, {nth}, \"item {nth}\" }},
	{{ UNIT + {nth}, UNIT ^ {nth}, \"other {nth}\" }},
}};

long NAME(UNIT, {nth})(long x, struct item *item)
{{
	long sum = x + SALT({nth});
	int i;

	for (i = 0; i < LENGTH(table_{nth}); i++) {{
		switch ((sum >> i) & 3) {{
		case 0:
			sum += table_{nth}[i].key * (long)sizeof(struct item);
			break;
		case 1:
			sum ^= mix(sum, table_{nth}[i].value);
			break;
		default:
			sum = item ? sum - item->value : sum << 1;
		}}
	}}
	return sum;
}}
"
        );
    }
    text
}

fn makefile(nr_units: usize) -> String {
    let objects: Vec<String> = (0..nr_units).map(|nth| format!("unit{nth}.o")).collect();
    let objects = objects.join(" ");
    format!(
        "all.o: {objects}\n\ttcc -nostdlib -r -o $@ $^\n\n\
         unit%.o: unit.c common.h\n\ttcc -nostdinc -DUNIT=$* -c -o $@ $<\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_makefile_names_every_object_once() {
        let text = makefile(3);
        assert!(
            text.starts_with("all.o: unit0.o unit1.o unit2.o\n\ttcc "),
            "{text}"
        );
    }

    #[test]
    fn a_project_vanishes_with_its_guard() {
        let project = Project::generate(1, 1).unwrap();
        let dir = project.dir().to_path_buf();
        assert!(dir.join("unit.c").is_file());
        drop(project);
        assert!(!dir.exists());
    }

    /// Any C compiler will do, since tcc may be missing where tests run.
    #[test]
    fn the_source_is_valid_c() {
        let project = Project::generate(1, 3).unwrap();
        let status = std::process::Command::new("cc")
            .args(["-fsyntax-only", "-Wall", "-Werror", "-nostdinc", "-DUNIT=7"])
            .arg("unit.c")
            .current_dir(project.dir())
            .status()
            .unwrap();
        assert!(status.success());
    }
}
