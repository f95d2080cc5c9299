//! scx_pandemonium: loads the scheduler, reports what it does, and leaves.
//!
//! The program runs until it is asked to stop (SIGINT, SIGTERM) or the kernel
//! unloads the scheduler. Exit codes: 0 after a stop that was asked for or a
//! normal unregistration, 1 after any failure, with one line that says why, and
//! 2 for a wrong command line.

mod bpf_intf;
mod bpf_skel;
mod cli;
mod compositor;
mod cpufreq;
mod hint;
mod hist;
mod monitor;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod reference;
mod rules;
mod scheduler;
mod server;
mod stats;
mod tasks;
mod tasks_command;
mod text;
mod topology;

use std::io::IsTerminal;
use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use crossbeam::channel::{Receiver, bounded, never, select};
use log::{debug, info, warn};
use scx_stats::prelude::StatsServer;
use scx_utils::UserExitInfo;
use scx_utils::build_id;
use simplelog::{ColorChoice, ConfigBuilder, LevelFilter, TermLogger, TerminalMode};

use crate::cli::{Command, Opts};
use crate::hint::Source;
use crate::rules::Rules;
use crate::rules::programs::Programs;
use crate::rules::watch::{Known, Watch};
use crate::scheduler::{Scheduler, Started};
use crate::server::{Request, Response};

/// How often to look whether the kernel has unloaded the scheduler.
const EXIT_POLL: Duration = Duration::from_millis(500);

/// How often to look whether a governor was changed.
const GOVERNOR_POLL: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    match run(Opts::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("scx_pandemonium: {err:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(opts: Opts) -> Result<()> {
    let version = build_id::full_version(env!("CARGO_PKG_VERSION"));
    if opts.version {
        println!("scx_pandemonium {version}");
        return Ok(());
    }
    if opts.help_stats {
        return server::describe(&mut std::io::stdout());
    }
    match &opts.command {
        Some(Command::Tasks(opts)) => return tasks_command::run(opts),
        Some(Command::Rules(command)) => return rules::command::run(command),
        None => {}
    }
    init_logging(opts.verbose)?;

    let shutdown = Arc::new(AtomicBool::new(false));
    let (stop, stopped) = bounded::<()>(1);
    {
        let shutdown = shutdown.clone();
        ctrlc::set_handler(move || {
            shutdown.store(true, Ordering::Relaxed);
            // A full channel means that a stop is under way already.
            let _ = stop.try_send(());
        })
        .context("setting up the signal handler")?;
    }

    if let Some(interval) = opts.monitor {
        return monitor::monitor(interval, shutdown);
    }
    if let Some(interval) = opts.stats {
        std::thread::spawn(move || {
            if let Err(err) = monitor::monitor(interval, shutdown) {
                warn!("no telemetry from now on: {err:#}");
            }
        });
    }

    info!("scx_pandemonium {version}");
    let rules = rules::load(&opts.rules)?;
    loop {
        let mut open_object = MaybeUninit::uninit();
        let scheduler = Scheduler::init(&opts, !rules.is_empty(), &mut open_object)?;
        info!("scheduling");
        if !serve_until_exit(scheduler, &rules, &stopped)?.should_restart() {
            return Ok(());
        }
        info!("the kernel asks for a restart");
    }
}

/// Log to standard error: what this program does, and what the libraries below
/// it say only if asked for.
fn init_logging(is_verbose: bool) -> Result<()> {
    let level = if is_verbose {
        LevelFilter::Debug
    } else {
        LevelFilter::Info
    };
    // The journal and files want no escape sequences.
    let color = if std::io::stderr().is_terminal() {
        ColorChoice::Auto
    } else {
        ColorChoice::Never
    };
    let mut config = ConfigBuilder::new();
    config
        .set_time_level(LevelFilter::Off)
        .set_location_level(LevelFilter::Off)
        .set_target_level(LevelFilter::Off)
        .set_thread_level(LevelFilter::Off);
    if !is_verbose {
        config.add_filter_allow_str("scx_pandemonium");
    }
    TermLogger::init(level, config.build(), TerminalMode::Stderr, color)
        .context("setting up the log")
}

/// Answer requests for telemetry, and tell what the rules say of programs, until
/// a stop is asked for or the kernel unloads the scheduler.
fn serve_until_exit(
    mut scheduler: Scheduler<'_>,
    rules: &Rules,
    stopped: &Receiver<()>,
) -> Result<UserExitInfo> {
    let server = StatsServer::new(server::data())
        .launch()
        .context("starting the stats server")?;
    let (responses, requests) = server.channels();

    let mut looked_at = Instant::now();
    let programs = Programs::watch(scheduler.started_fd()?)?;
    let mut news = programs.news.clone();
    let mut watch = Watch::new(rules);
    tell(&scheduler, &watch.all(Instant::now()));

    while !scheduler.exited() {
        if looked_at.elapsed() >= GOVERNOR_POLL {
            looked_at = Instant::now();
            scheduler.follow_governors();
        }
        select! {
            recv(stopped) -> _ => break,
            recv(requests) -> request => {
                let request = request.context("the stats server ended")?;
                responses.send(answer(&scheduler, request))?;
            }
            recv(news) -> word => {
                if word.is_err() {
                    // The thread has ended: there will be no more.
                    news = never();
                }
                match scheduler.started()? {
                    Started::Some(pids) => tell(&scheduler, &watch.started(&pids, Instant::now())),
                    Started::Any => watch.lost_some(Instant::now()),
                }
            }
            default(EXIT_POLL) => {}
        }
        tell(&scheduler, &watch.again(Instant::now()));
    }
    debug!("detaching");
    scheduler.finish()
}

/// Tell the BPF half what is known of processes. One that cannot be told is served
/// by what it does.
fn tell(scheduler: &Scheduler<'_>, known: &[Known]) {
    for (pid, hint) in known {
        if let Err(err) = scheduler.set_hint(*pid, *hint, Source::Rule) {
            warn!("{err:#}");
        }
    }
}

/// Answer one request. What cannot be read is the client's trouble, no reason to
/// stop scheduling.
fn answer(scheduler: &Scheduler<'_>, request: Request) -> Response {
    let answer = match request {
        Request::Counters => scheduler.sample().map(Box::new).map(Response::Counters),
        Request::Tasks => scheduler.tasks().map(Response::Tasks),
    };
    answer.unwrap_or_else(|err| Response::Failed(format!("{err:#}")))
}
