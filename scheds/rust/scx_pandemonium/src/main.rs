//! scx_pandemonium: loads the scheduler, reports what it does, and leaves.
//!
//! The program runs until it is asked to stop (SIGINT, SIGTERM) or the kernel
//! unloads the scheduler. Exit codes: 0 after a stop that was asked for or a
//! normal unregistration, 1 after any failure, with one line that says why, and
//! 2 for a wrong command line.

mod adapt;
mod bpf_intf;
mod bpf_skel;
mod check;
mod cli;
mod client;
mod compositor;
mod control;
mod cpu_max;
mod cpufreq;
mod dmesg;
mod ending;
mod exposition;
mod foreign;
#[cfg(test)]
mod fuzz;
mod held;
mod hint;
mod hist;
mod home;
mod kernel_log;
mod libbpf;
mod machine;
mod manual;
mod monitor;
mod output;
mod patience;
#[cfg(test)]
mod policy;
mod probe;
mod procdb;
mod profile_command;
#[cfg(test)]
mod reference;
mod refusal;
mod report;
mod rules;
mod scheduler;
mod selection;
mod server;
mod stats;
mod tasks;
mod tasks_command;
mod text;
mod top;
mod topology;
mod waker;

use std::env;
use std::fs;
use std::io;
use std::io::IsTerminal;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::CommandExt;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use crossbeam::channel::{Receiver, bounded, never, select};
use log::{debug, info, warn};
use scx_stats::prelude::StatsServer;
use scx_utils::{NR_CPU_IDS, build_id};
use simplelog::{ColorChoice, ConfigBuilder, LevelFilter, TermLogger, TerminalMode};

use crate::adapt::Observer;
use crate::cli::{Command, Opts};
use crate::control::knob;
use crate::control::profile::Profile;
use crate::control::{Adaptation, Control};
use crate::ending::Ending;
use crate::hint::Source;
use crate::monitor::Monitor;
use crate::output::{ReaderGone, tell};
use crate::procdb::learner::{Learner, Numbered};
use crate::rules::Rules;
use crate::rules::programs::Programs;
use crate::rules::watch::{Known, Watch};
use crate::scheduler::{Scheduler, Started};
use crate::server::{Request, Response};

/// How often to look whether the kernel has unloaded the scheduler.
const EXIT_POLL: Duration = Duration::from_millis(500);

/// How often to look whether a governor was changed, or `cpu.idle` of a cgroup.
const GOVERNOR_POLL: Duration = Duration::from_secs(2);

/// Columns of the table of knobs where there is no terminal, and the least with
/// which it can be read.
const KNOBS_WIDTH_DFL: u16 = 160;
const KNOBS_WIDTH_MIN: u16 = 120;

fn main() -> ExitCode {
    let result = match Opts::try_parse() {
        Ok(opts) => run(opts).map(|()| ExitCode::SUCCESS),
        // What is wrong with the command line, or the help that was asked for.
        Err(answer) => print_answer(&answer),
    };
    match result {
        Ok(code) => code,
        Err(err) if err.is::<ReaderGone>() => ExitCode::SUCCESS,
        Err(err) => {
            tell(format_args!("scx_pandemonium: {err:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Print what clap says instead of options, and give the exit code for it.
fn print_answer(answer: &clap::Error) -> Result<ExitCode> {
    let printed = answer.print();
    if !answer.use_stderr() {
        output::finish(printed)?;
    }
    if let Some(why) = foreign_flag(answer) {
        tell(format_args!("\n{why}"));
    }
    Ok(u8::try_from(answer.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// What is known of the flag that `answer` refuses, if it is one of another scheduler.
fn foreign_flag(answer: &clap::Error) -> Option<String> {
    if answer.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    match answer.get(ContextKind::InvalidArg)? {
        ContextValue::String(flag) => foreign::explain(flag),
        _ => None,
    }
}

fn run(opts: Opts) -> Result<()> {
    let version = build_id::full_version(env!("CARGO_PKG_VERSION"));
    if opts.version {
        return output::print(&format!("scx_pandemonium {version}\n"));
    }
    if opts.help_stats {
        return output::print(&server::describe()?);
    }
    if opts.help_knobs {
        return print_knobs();
    }
    match &opts.command {
        Some(Command::Tasks(opts)) => return tasks_command::run(opts),
        Some(Command::Top(opts)) => return top::run(opts),
        Some(Command::Profile { profile }) => return profile_command::run(*profile),
        Some(Command::Check) => return check::run(),
        Some(Command::Probe(opts)) => return probe::run(opts),
        Some(Command::Report(opts)) => return report::run(opts),
        Some(Command::Dmesg) => return dmesg::run(),
        Some(Command::Rules(command)) => return rules::command::run(command),
        Some(Command::Procdb(command)) => return procdb::command::run(command),
        Some(Command::Completions { shell }) => return manual::print_completions(*shell),
        Some(Command::Man { output_dir: None }) => return manual::print_page(),
        Some(Command::Man {
            output_dir: Some(dir),
        }) => return manual::write_pages(dir),
        None => {}
    }
    init_logging(opts.verbose)?;

    let monitor = Monitor::new(&opts.telemetry)?;
    let shutdown = Arc::new(AtomicBool::new(false));
    let (stop, stopped) = bounded::<()>(1);
    let ask_to_stop = {
        let shutdown = shutdown.clone();
        move || {
            shutdown.store(true, Ordering::Relaxed);
            // A full channel means that a stop is under way already.
            let _ = stop.try_send(());
        }
    };
    ctrlc::set_handler(ask_to_stop.clone()).context("setting up the signal handler")?;

    if let Some(interval) = opts.monitor {
        return monitor.run_until_stopped(interval, shutdown, &stopped);
    }
    if let Some(interval) = opts.stats {
        let shutdown = shutdown.clone();
        std::thread::spawn(move || match monitor.run(interval, &shutdown) {
            Ok(()) => {}
            // As for any command of a pipeline.
            Err(err) if err.is::<ReaderGone>() && prints_to_pipe() => ask_to_stop(),
            Err(err) => warn!("no telemetry from now on: {err:#}"),
        });
    }

    info!("scx_pandemonium {version}");
    let rules = rules::load(&opts.rules)?;
    let mut learner = Learner::load(&opts.procdb);
    let follows_programs = !rules.is_empty() || learner.is_some();
    let mut control = Control {
        profile: opts.profile,
        affinity: opts.affinity,
        adaptation: (!opts.no_adaptive)
            .then(|| Adaptation::new(opts.adaptive_turns, rules.confine())),
    };
    loop {
        let mut open_object = MaybeUninit::uninit();
        let memories = learner.as_mut().map(Learner::begin);
        let scheduler = Scheduler::init(
            &opts,
            &control,
            follows_programs,
            memories.as_deref(),
            &shutdown,
            &mut open_object,
        )?;
        let Some(scheduler) = scheduler else {
            info!("stopped before it scheduled");
            return Ok(());
        };
        info!("scheduling, profile {}", control.profile);
        cpu_max::warn_if_set();
        let exit = serve_until_exit(scheduler, &mut control, &rules, learner.as_mut(), &stopped);
        // Only now: a slow disk does not keep the machine from its own scheduler.
        if let Some(learner) = &mut learner {
            learner.save();
        }
        if !exit?.should_restart() || shutdown.load(Ordering::Relaxed) {
            return Ok(());
        }
        info!("the kernel asks for a restart");
        if has_new_cpu().unwrap_or(false) {
            let err = start_anew(control.profile);
            warn!("a new CPU stays without its caches: {err}");
        }
    }
}

/// Whether standard output is a pipe, and not the journal, which may start anew.
fn prints_to_pipe() -> bool {
    fs::metadata("/proc/self/fd/1").is_ok_and(|file| file.file_type().is_fifo())
}

/// Whether there is a CPU that `scx_utils` cannot know, since it counts them once in
/// the life of a program: one that was plugged into a virtual machine.
fn has_new_cpu() -> Result<bool> {
    let present = fs::read_to_string("/sys/devices/system/cpu/present")?;
    topology::has_beyond(&present, *NR_CPU_IDS)
}

/// Become a new process of this program with the same id and command line, and with
/// the profile that was chosen since. Return why that is not possible.
fn start_anew(profile: Profile) -> io::Error {
    let path = match env::current_exe() {
        Ok(path) => path,
        Err(err) => return err,
    };
    // What stands there now, if it was replaced.
    let path = path.to_string_lossy();
    let path = path.strip_suffix(" (deleted)").unwrap_or(&path);
    process::Command::new(path)
        .args(env::args_os().skip(1))
        .arg(format!("--profile={profile}"))
        .exec()
}

/// Log to standard error: what this program does, and what the libraries below
/// it say only if asked for, by how often that was.
fn init_logging(verbose: u8) -> Result<()> {
    let level = match verbose {
        0 => LevelFilter::Info,
        1 => LevelFilter::Debug,
        2.. => LevelFilter::Trace,
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
    if verbose == 0 {
        config.add_filter_allow_str("scx_pandemonium");
        // That a monitor waits for a scheduler.
        config.add_filter_allow_str("scx_utils::misc");
    }
    TermLogger::init(level, config.build(), TerminalMode::Stderr, color)
        .context("setting up the log")
}

/// Answer requests for telemetry, and tell what the rules say of programs, until
/// a stop is asked for or the kernel unloads the scheduler.
fn serve_until_exit(
    mut scheduler: Scheduler<'_>,
    control: &mut Control,
    rules: &Rules,
    mut learner: Option<&mut Learner>,
    stopped: &Receiver<()>,
) -> Result<Ending> {
    let server = launch_server();
    let (responses, requests) = match &server {
        Some(server) => server.channels(),
        None => (bounded(0).0, never()),
    };

    let mut looked_at = Instant::now();
    let mut observer = Observer::new();
    let programs = Programs::watch(scheduler.started_fd()?)?;
    let mut news = programs.news.clone();
    let mut watch = Watch::new(rules);
    want_reports(&mut scheduler, rules, learner.as_deref());
    tell_hints(&scheduler, &watch.all(Instant::now()));

    while !scheduler.exited() {
        if looked_at.elapsed() >= GOVERNOR_POLL {
            looked_at = Instant::now();
            scheduler.follow_governors();
            scheduler.look_for_idle_cgroups()?;
        }
        observer.adapt(&mut scheduler, control);
        select! {
            recv(stopped) -> _ => break,
            recv(requests) -> request => {
                let request = request.context("the stats server ended")?;
                let answer = answer(&mut scheduler, control, learner.as_deref(), request);
                responses.send(answer)?;
            }
            recv(news) -> word => {
                if word.is_err() {
                    // The thread has ended: there will be no more.
                    news = never();
                }
                match scheduler.started()? {
                    Started::Some(pids) => {
                        tell_hints(&scheduler, &watch.started(&pids, Instant::now()));
                        if let Some(learner) = &learner {
                            tell_programs(&scheduler, &learner.started(&pids));
                        }
                    }
                    Started::Any => watch.lost_some(Instant::now()),
                }
            }
            default(EXIT_POLL) => {}
        }
        tell_hints(&scheduler, &watch.again(Instant::now()));
        if let Some(learner) = &mut learner {
            learn(&scheduler, learner, Instant::now());
        }
        want_reports(&mut scheduler, rules, learner.as_deref());
    }
    debug!("detaching");
    scheduler.finish()
}

/// Start the stats server. Without it the scheduler schedules as well, so that its socket
/// cannot be made, as on a read-only root, costs a warning.
fn launch_server() -> Option<StatsServer<Request, Response>> {
    let server = server::launch();
    let warn = |err: &anyhow::Error| {
        warn!("no telemetry, list of tasks or change of the profile: {err:#}");
    };
    server.inspect_err(warn).ok()
}

/// Tell the BPF half what is known of processes. One that cannot be told is served
/// by what it does.
fn tell_hints(scheduler: &Scheduler<'_>, known: &[Known]) {
    for (pid, hint) in known {
        if let Err(err) = scheduler.set_hint(*pid, *hint, Source::Rule) {
            warn!("{err:#}");
        }
    }
}

/// Let the BPF half report programs that start if there is something to tell it of
/// them: rules, or the number of a script.
fn want_reports(scheduler: &mut Scheduler<'_>, rules: &Rules, learner: Option<&Learner>) {
    scheduler.want_reports(!rules.is_empty() || learner.is_some_and(Learner::knows_numbers));
}

/// Tell the BPF half which scripts and games run.
fn tell_programs(scheduler: &Scheduler<'_>, numbered: &[Numbered]) {
    for (pid, program) in numbered {
        if let Err(err) = scheduler.set_program(*pid, *program) {
            debug!("{err:#}");
        }
    }
}

/// Learn what programs are, if it is time to, and let the BPF half know. What
/// cannot be learned now is learned later.
fn learn(scheduler: &Scheduler<'_>, learner: &mut Learner, now: Instant) {
    if !learner.is_sweep_due(now) {
        return;
    }
    let rows = scheduler.learned();
    let news = rows.map(|rows| learner.learn(&rows, now));
    let told = news.and_then(|news| {
        scheduler.remember(&news.memories)?;
        tell_programs(scheduler, &news.numbered);
        Ok(())
    });
    if let Err(err) = told {
        debug!("learning what programs are: {err:#}");
    }
    learner.save_if_due(now);
}

/// Answer one request. What cannot be read is the client's trouble, no reason to
/// stop scheduling.
fn answer(
    scheduler: &mut Scheduler<'_>,
    control: &mut Control,
    learner: Option<&Learner>,
    request: Request,
) -> Response {
    let answer = match request {
        Request::Counters => scheduler.sample().map(|mut sample| {
            sample.profile = control.profile;
            sample.regime = control.adaptation.map(Adaptation::regime);
            (sample.nr_procdb, sample.nr_procdb_known) =
                learner.map(Learner::counts).unwrap_or_default();
            Response::Counters(Box::new(sample))
        }),
        Request::Tasks => scheduler.tasks().map(Response::Tasks),
        Request::Profile(None) => Ok(Response::Profile(control.profile)),
        Request::Profile(Some(profile)) => {
            control.profile = profile;
            scheduler.set_knobs(control).map(|()| {
                info!("profile {profile}");
                Response::Profile(profile)
            })
        }
    };
    answer.unwrap_or_else(|err| Response::Failed(format!("{err:#}")))
}

/// Print the table of knobs as wide as the terminal is.
fn print_knobs() -> Result<()> {
    let width = terminal_size::terminal_size().map_or(KNOBS_WIDTH_DFL, |(width, _)| width.0);
    let table = knob::table(scheduler::default_knobs()?, width.max(KNOBS_WIDTH_MIN));
    output::print(&table.to_string())
}
