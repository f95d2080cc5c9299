//! `scx_pandemonium probe`: how long tasks wait for a CPU under the scheduler that
//! runs now, whichever that is.
//!
//! It asks neither the scheduler nor the kernel: tasks of its own wake and look at
//! the clock. So it compares schedulers, and needs no permission.
//!
//! Not here: the tasks that are measured (`sample`), the work beside them (`load`),
//! the tables and pictures (`picture`).

mod load;
mod picture;
mod sample;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::check::SCHED_EXT;
use crate::output;
use crate::probe::load::Load;
use crate::probe::sample::Waits;
use crate::text::printable;

/// What the kernel's own scheduler is called here.
const DEFAULT_SCHEDULER: &str = "default";

/// What [`Run::format`] is of files that this program writes and reads.
const FORMAT: u32 = 1;

/// Longest measurement, in seconds, and most jobs beside it.
const SECONDS_MAX: i64 = 3600;
const NR_JOBS_MAX: i64 = 1024;

/// Jobs for each CPU, where no number is given.
const NR_JOBS_PER_CPU: u32 = 2;

/// Options of `probe`.
#[derive(Args, Debug)]
pub struct ProbeOpts {
    /// Measure for SEC seconds.
    #[clap(
        long,
        value_name = "SEC",
        default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=SECONDS_MAX)
    )]
    pub seconds: u32,

    /// Keep N jobs busy beside the measurement, as a build does: each one computes
    /// for a fifth of a second and ends, and another one is started. Two for each
    /// CPU if N is not given.
    #[clap(
        long,
        value_name = "N",
        num_args = 0..=1,
        value_parser = clap::value_parser!(u32).range(1..=NR_JOBS_MAX)
    )]
    pub load: Option<Option<u32>>,

    /// Keep what was measured in FILE, for --against.
    #[clap(long, value_name = "FILE")]
    pub save: Option<PathBuf>,

    /// Print what FILE keeps of an earlier measurement beside this one.
    #[clap(long, value_name = "FILE")]
    pub against: Option<PathBuf>,

    /// Print JSON, as --save writes it.
    #[clap(long, conflicts_with = "against")]
    pub json: bool,

    /// Be one of the jobs.
    #[clap(long, hide = true, exclusive = true)]
    pub job: bool,
}

/// What was measured once.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Run {
    /// [`FORMAT`].
    format: u32,
    /// Name of the sched_ext scheduler, or `default`.
    scheduler: String,
    /// The kernel's version.
    kernel: String,
    /// Number of CPUs that the probe may use.
    nr_cpus: u32,
    /// How long it measured, in seconds.
    seconds: u32,
    /// Number of jobs beside it.
    nr_jobs: u32,
    /// The waits, by what was measured.
    waits: Vec<Waits>,
}

/// Measure, and print, keep and compare what was measured.
///
/// # Errors
///
/// If a file cannot be read or written, a job or a thread cannot be started, or
/// another scheduler has taken over meanwhile.
pub fn run(opts: &ProbeOpts) -> Result<()> {
    if opts.job {
        return load::job();
    }
    // Before the measurement, which takes its time.
    let earlier = opts.against.as_deref().map(Run::read).transpose()?;
    let file = opts.save.as_deref().map(output::File::new).transpose()?;
    let run = Run::measure(opts)?;
    let json = || serde_json::to_string(&run).map(|json| json + "\n");
    if let Some(file) = file {
        file.replace(&json()?)?;
    }
    if opts.json {
        return output::print(&json()?);
    }
    output::print(&picture::draw(earlier.as_ref().into_iter().chain([&run])))
}

impl Run {
    fn measure(opts: &ProbeOpts) -> Result<Run> {
        let nr_cpus = thread::available_parallelism().context("counting CPUs")?;
        let nr_cpus = u32::try_from(nr_cpus.get())?;
        let nr_jobs = opts
            .load
            .map_or(0, |nr| nr.unwrap_or(nr_cpus * NR_JOBS_PER_CPU));
        let scheduler = scheduler();
        let load = Load::start(nr_jobs)?;
        let waits = sample::measure(Duration::from_secs(opts.seconds.into()))?;
        load.stop()?;
        let now = self::scheduler();
        ensure!(
            now == scheduler,
            "the scheduler has changed from {scheduler} to {now} meanwhile: measure again"
        );
        Ok(Run {
            format: FORMAT,
            scheduler,
            kernel: nix::sys::utsname::uname()?
                .release()
                .to_string_lossy()
                .into_owned(),
            nr_cpus,
            seconds: opts.seconds,
            nr_jobs,
            waits,
        })
    }

    /// What `path` keeps.
    fn read(path: &Path) -> Result<Run> {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("reading {name}"))?;
        Run::parse(&text)
            .with_context(|| format!("{name} is not what `scx_pandemonium probe --save` writes"))
    }

    fn parse(text: &str) -> Result<Run> {
        let run: Run = serde_json::from_str(text)?;
        ensure!(
            run.format == FORMAT,
            "it has format {}, this program reads {FORMAT}",
            run.format
        );
        Ok(run)
    }
}

/// Name of the scheduler that schedules now.
fn scheduler() -> String {
    let ops = fs::read_to_string(Path::new(SCHED_EXT).join("root/ops")).unwrap_or_default();
    match printable(ops.trim()) {
        name if name.is_empty() => DEFAULT_SCHEDULER.to_owned(),
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use proptest::prelude::*;

    use super::*;
    use crate::cli::{Command, Opts};
    use crate::fuzz;

    fn parse(words: &[&str]) -> Result<ProbeOpts, clap::Error> {
        let words = [&["scx_pandemonium", "probe"], words].concat();
        match Opts::try_parse_from(words)?.command {
            Some(Command::Probe(opts)) => Ok(opts),
            other => panic!("{other:?}"),
        }
    }

    pub fn example(scheduler: &str) -> Run {
        Run {
            format: FORMAT,
            scheduler: scheduler.to_owned(),
            kernel: "6.18.0".to_owned(),
            nr_cpus: 4,
            seconds: 10,
            nr_jobs: 8,
            waits: vec![Waits::of("timer", &[20_000, 30_000, 3_000_000]).unwrap()],
        }
    }

    #[test]
    fn a_load_is_off_of_a_default_size_or_of_a_given_one() {
        assert_eq!(parse(&[]).unwrap().load, None);
        assert_eq!(parse(&["--load"]).unwrap().load, Some(None));
        assert_eq!(parse(&["--load", "3"]).unwrap().load, Some(Some(3)));
        for bad in [
            &["--load", "0"][..],
            &["--load", "1025"],
            &["--seconds", "0"],
            &["--seconds", "3601"],
            &["--json", "--against", "x"],
            &["--job", "--load"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn what_is_kept_is_read_again_and_another_format_is_refused() {
        let run = example("default");
        let text = serde_json::to_string(&run).unwrap();
        assert_eq!(Run::parse(&text).unwrap(), run);
        let other = text.replace("\"format\":1", "\"format\":2");
        let why = Run::parse(&other).unwrap_err().to_string();
        assert!(why.contains("format 2"), "{why}");
    }

    proptest! {
        #![proptest_config(fuzz::config(2000))]

        #[test]
        fn fuzz_a_damaged_file_is_refused_or_drawn(
            at in 0usize..400, with in "[-0-9a-z\\[\\]{},\":\\PC]{0,6}"
        ) {
            let mut text = serde_json::to_string(&example("default")).unwrap();
            let at = at.min(text.len() - 1);
            text.replace_range(at..(at + with.len()).min(text.len()), &with);
            if let Ok(run) = Run::parse(&text) {
                picture::draw([&run].into_iter());
            }
        }
    }
}
