//! The work beside a measurement: jobs that compute and end, as those of a build.
//!
//! A job is a process, since schedulers and the kernel treat a new process
//! otherwise than a thread of the one that measures.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use nix::sys::prctl;
use nix::time::{ClockId, clock_gettime};

/// CPU time that a job takes. It has an end, so that none outlives a probe that is
/// killed for long.
const JOB_TIME: Duration = Duration::from_millis(200);

/// What a job is called, so that what is learned of jobs is not taken to be true of
/// the program that measures.
const JOB_NAME: &str = "probe-job";

/// Jobs that run until they are stopped.
pub struct Load {
    stop: Arc<AtomicBool>,
    makers: Vec<JoinHandle<Result<()>>>,
}

impl Load {
    /// Keep `nr_jobs` jobs running.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started.
    pub fn start(nr_jobs: u32) -> Result<Load> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut makers = Vec::new();
        for _ in 0..nr_jobs {
            let stop = stop.clone();
            let maker = thread::Builder::new()
                .name("probe-make".to_owned())
                .spawn(move || make(&stop))
                .context("starting a thread")?;
            makers.push(maker);
        }
        Ok(Load { stop, makers })
    }

    /// Wait for the jobs to end, and start no more.
    ///
    /// # Errors
    ///
    /// If a job has failed or could not be started: there was less load then.
    pub fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for maker in self.makers {
            maker.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        Ok(())
    }
}

/// Run one job after the other.
fn make(stop: &AtomicBool) -> Result<()> {
    while !stop.load(Ordering::Relaxed) {
        let status = Command::new("/proc/self/exe")
            .arg0(JOB_NAME)
            .args(["probe", "--job"])
            .stdin(Stdio::null())
            .status()
            .context("starting a job of the load")?;
        ensure!(status.success(), "a job of the load has failed: {status}");
    }
    Ok(())
}

/// Be a job.
///
/// # Errors
///
/// If the kernel does not tell the CPU time.
pub fn job() -> Result<()> {
    prctl::set_name(c"probe-job").context("naming a job")?;
    while Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?) < JOB_TIME {}
    Ok(())
}
