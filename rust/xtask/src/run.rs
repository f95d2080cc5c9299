// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask run`: the scheduler scheduling, with its telemetry on the screen.
//!
//!   1. On a kernel with sched_ext, as root: here, until Ctrl-C.
//!   2. There, but not as root: an error that says how, because loading a
//!      scheduler into the running kernel is not something to do unasked.
//!   3. Otherwise in a guest: a mixed load under the scheduler, the same load
//!      under the kernel's default scheduler, and both side by side.
//!
//! An option that only a guest understands asks for the guest.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use scx_guest::{Guest, Kernel, quote};

use crate::interrupt;
use crate::process;
use crate::setup::{self, Purpose};
use crate::workspace::Workspace;

/// The kernel's sched_ext directory; absent if it has none.
const SCHED_EXT_DIR: &str = "/sys/kernel/sched_ext";

/// How long each of the two loads runs in the guest by default.
const SECONDS_DFL: u64 = 10;

/// Guest seconds take longer here: one host thread executes all virtual CPUs.
/// A busy second at 4 CPUs takes about 4 on a plain machine; this is for a slow
/// and loaded one.
const HOST_PER_GUEST_SECONDS_MAX: u64 = 60;

/// Time for boot, loading and the end, in seconds of the host.
const GUEST_OVERHEAD_S: u64 = 300;

/// The arguments of `cargo xtask run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// On this machine's kernel; fails if it cannot
    #[arg(long, conflicts_with_all = ["guest", "kernel", "cpus", "memory", "seed"])]
    here: bool,
    /// In a guest, even if this machine's kernel could
    #[arg(long)]
    guest: bool,
    /// Kernel image for the guest, instead of the one that is found or downloaded
    #[arg(long, value_name = "PATH")]
    kernel: Option<PathBuf>,
    /// CPUs of the guest [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    cpus: Option<u32>,
    /// Memory of the guest [default: 2048]
    #[arg(long, value_name = "MIB")]
    memory: Option<u32>,
    /// How long: for each load of the guest [default: 10]; on this machine until Ctrl-C
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Shifts the phases of the load; each seed repeats exactly [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Use sudo without asking when something has to be installed
    #[arg(long, short)]
    yes: bool,
    /// Passed on to the scheduler
    #[arg(last = true, value_name = "ARGS")]
    scheduler: Vec<String>,
}

impl Args {
    /// Whether the guest is where to run, on a machine that has sched_ext or not.
    fn wants_guest(&self, has_sched_ext: bool) -> Result<bool> {
        ensure!(
            has_sched_ext || !self.here,
            "this kernel has no sched_ext: leave out --here"
        );
        let asks_for_guest = self.guest
            || self.kernel.is_some()
            || self.cpus.is_some()
            || self.memory.is_some()
            || self.seed.is_some();
        Ok(asks_for_guest || !has_sched_ext)
    }
}

/// Install, build, run.
pub fn main(args: &Args) -> Result<()> {
    if args.wants_guest(Path::new(SCHED_EXT_DIR).exists())? {
        return in_guest(args);
    }
    let tools = setup::ensure(&[Purpose::Build], args.yes)?;
    let workspace = Workspace::find(&tools)?;
    workspace.build(&tools, "scx_pandemonium")?;
    let scheduler = workspace.binary("scx_pandemonium");
    if !Uid::effective().is_root() {
        bail!(
            "only root can load a scheduler: sudo {} --stats 1, or try it in a guest: \
             cargo xtask run --guest",
            quote(&scheduler.to_string_lossy())
        );
    }
    run_here(args, &scheduler)
}

/// Run the scheduler on this machine until it ends, or Ctrl-C, or the time is over.
fn run_here(args: &Args, scheduler: &Path) -> Result<()> {
    println!("on this machine's kernel; Ctrl-C ends it");
    let mut child = Command::new(scheduler)
        .args(["--stats", "1"])
        .args(&args.scheduler)
        .spawn()
        .with_context(|| format!("cannot run {}", scheduler.display()))?;
    let deadline = args
        .seconds
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let status = wait_until(&mut child, deadline)?;
    interrupt::check()?;
    ensure!(status.success(), "the scheduler failed ({status})");
    Ok(())
}

/// Wait for `child`, which is asked to stop at `deadline`.
fn wait_until(child: &mut Child, deadline: Option<Instant>) -> Result<std::process::ExitStatus> {
    if let Some(deadline) = deadline {
        while Instant::now() < deadline {
            if let Some(status) = child.try_wait().context("waiting for the scheduler")? {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(50));
        }
        // It may just have ended by itself.
        let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGINT);
    }
    child.wait().context("waiting for the scheduler")
}

/// Run both loads in a guest and show the table.
fn in_guest(args: &Args) -> Result<()> {
    let tools = setup::ensure(&[Purpose::Build, Purpose::Guest], args.yes)?;
    let workspace = Workspace::find(&tools)?;
    // Before the build: a kernel that will not do is said at once.
    let kernel = Kernel::find(args.kernel.as_deref())?;
    workspace.build(&tools, "scx_pandemonium")?;
    workspace.build(&tools, "scx_bench")?;

    let cpus = args.cpus.unwrap_or(4);
    let seconds = args.seconds.unwrap_or(SECONDS_DFL);
    let seed = args.seed.unwrap_or(1);
    println!(
        "guest: Linux {}, {cpus} CPUs, seed {seed}",
        kernel.release()
    );
    println!("{seconds} s of mixed load under pandemonium, then under the default scheduler");
    println!("(seconds of the guest's clock, which is slower than yours)");
    let time_limit = GUEST_OVERHEAD_S + 2 * seconds * HOST_PER_GUEST_SECONDS_MAX;
    let mut guest = Guest::new(&kernel)
        .cpus(cpus)
        .seed(seed)
        .program(workspace.binary("scx_pandemonium"))
        .program(workspace.binary("scx_bench"))
        .time_limit(Duration::from_secs(time_limit))
        .quiet();
    if let Some(memory_mib) = args.memory {
        guest = guest.memory_mib(memory_mib);
    }
    let script = script(seconds, seed, &args.scheduler);
    // Under the default scheduler nothing is printed for a while.
    let clock = process::progress("the guest runs");
    let outcome = guest.run(&script, &mut |line| clock.suspend(|| println!("{line}")));
    clock.finish_and_clear();
    interrupt::check()?;
    let outcome = outcome.map_err(without_seen_lines)?;
    ensure!(
        outcome.exit_code == 0,
        "the run in the guest failed (exit {})",
        outcome.exit_code
    );
    print_comparison(&workspace, &outcome.report)
}

/// Both runs side by side, from the results that the guest reported.
fn print_comparison(workspace: &Workspace, report: &[u8]) -> Result<()> {
    let mut file = tempfile::NamedTempFile::new().context("opening a file for the results")?;
    file.write_all(report).context("writing the results")?;
    println!();
    let mut command = Command::new(workspace.binary("scx_bench"));
    process::run(command.args(["report", "--brief"]).arg(file.path()))
}

/// The error without the guest's last lines, which are on the screen already.
fn without_seen_lines(error: scx_guest::Error) -> anyhow::Error {
    match error.failure() {
        Some(failure) => anyhow!("{failure}"),
        None => error.into(),
    }
}

/// What the guest runs. It waits for the kernel to say that the scheduler is
/// there, or for the scheduler to give up: attaching takes seconds when emulated.
fn script(seconds: u64, seed: u64, scheduler_args: &[String]) -> String {
    let scheduler_args: String = scheduler_args
        .iter()
        .map(|arg| format!(" {}", quote(arg)))
        .collect();
    format!(
        r#"state() {{ cat {SCHED_EXT_DIR}/state; }}
load() {{
	scx_bench run --scenario demo --seconds {seconds} --seed {seed} --json /tmp/result.json >/dev/null || exit 1
	cat /tmp/result.json >/dev/report
}}
scx_pandemonium --stats 1{scheduler_args} &
pid=$!
until [ "$(state)" = enabled ]; do
	if ! kill -0 $pid 2>/dev/null; then
		wait $pid
		echo "the scheduler ended before it was attached (exit $?)"
		exit 1
	fi
	sleep 0.05
done
load
kill -INT $pid
wait $pid
status=$?
if [ $status != 0 ]; then
	echo "the scheduler failed (exit $status)"
	exit 1
fi
echo "the same load under the default scheduler"
load
"#
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn wants_guest(line: &[&str], has_sched_ext: bool) -> Result<bool> {
        let line = Line::try_parse_from([&["run"], line].concat())?;
        line.args.wants_guest(has_sched_ext)
    }

    #[test]
    fn this_kernel_is_used_where_it_can_and_nothing_asks_for_a_guest() {
        assert!(!wants_guest(&[], true).expect("valid"));
        assert!(!wants_guest(&["--seconds", "3"], true).expect("valid"));
        for line in [
            ["--guest", "--yes"],
            ["--kernel", "x"],
            ["--cpus", "2"],
            ["--memory", "512"],
            ["--seed", "7"],
        ] {
            assert!(wants_guest(&line, true).expect("valid"), "{line:?}");
        }
        assert!(wants_guest(&[], false).expect("valid"));
    }

    #[test]
    fn contradictions_are_refused() {
        assert!(wants_guest(&["--here"], false).is_err());
        assert!(wants_guest(&["--here", "--guest"], true).is_err());
        assert!(wants_guest(&["--here", "--kernel", "x"], true).is_err());
        assert!(wants_guest(&["--cpus", "0"], true).is_err());
        assert!(wants_guest(&["--seconds", "0"], true).is_err());
    }

    #[test]
    fn the_script_is_valid_shell_and_quotes_what_it_is_given() {
        let script = script(3, 7, &["--name".into(), "it's".into()]);
        assert!(script.contains(r"--stats 1 --name 'it'\''s' &"), "{script}");
        let is_valid = Command::new("sh")
            .args(["-n", "-c", &script])
            .status()
            .expect("sh runs");
        assert!(is_valid.success());
    }
}
