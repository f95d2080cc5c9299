// SPDX-License-Identifier: GPL-2.0
//! `scx_guest`: run a program in a real kernel with a deterministic clock.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Parser;
use scx_guest::{Caches, Clock, Guest, Kernel, Topology, debian, find_program, has_applet, quote};

/// The exit status for a guest that failed, apart from any of the program's.
const EXIT_GUEST_FAILED: u8 = 125;

/// Boot a sched_ext kernel in QEMU and run a program in it.
///
/// The same run gives the same output on any machine, byte for byte, since the
/// guest's clock counts instructions. Exits with the program's exit status, or
/// with 125 if the guest itself failed.
#[derive(Debug, Parser)]
#[command(name = "scx_guest", version, verbatim_doc_comment)]
struct Options {
    /// Kernel image (bzImage) of any distribution, or `host` for the one that this machine runs.
    /// Without it: $SCX_GUEST_KERNEL, else the one of Debian that is pinned, fetched once.
    #[arg(long, value_name = "PATH")]
    kernel: Option<PathBuf>,

    /// Number of CPUs, all below one cache.
    #[arg(long, value_name = "N", conflicts_with = "topology")]
    cpus: Option<u32>,

    /// Shape of the machine as NODESxLLCSxCORESxTHREADS, such as 2x1x2x2, or of one that people
    /// have: 8core, 16core-2ccx, 13900k, 2socket-64.
    #[arg(long, value_name = "SHAPE")]
    topology: Option<Topology>,

    /// Empty sockets beside those: their CPUs are possible and not present.
    #[arg(long, value_name = "N", default_value_t = 0)]
    empty_sockets: u32,

    /// Memory in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    memory: u32,

    /// Seed, which shifts phases and is $SEED in the guest.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Use the host's clock and KVM: fast, not repeatable.
    #[arg(long, conflicts_with = "seed")]
    kvm: bool,

    /// Use the host's clock and a thread for each CPU, so that CPUs really run at the same time
    /// and race: not repeatable, and no latency is to be trusted.
    #[arg(long, conflicts_with_all = ["seed", "kvm"])]
    parallel: bool,

    /// Wall time in seconds after which the run has failed.
    #[arg(long, value_name = "SEC", default_value_t = 1800)]
    time_limit: u64,

    /// Put a host file or directory into the guest (repeatable).
    #[arg(long, value_name = "HOST:GUEST")]
    file: Vec<String>,

    /// Put a host file or directory into the guest at its own path, with the libraries of all
    /// programs in it: plugins, data (repeatable).
    #[arg(long, value_name = "HOST")]
    installed: Vec<PathBuf>,

    /// Put a further host program into the guest's /bin (repeatable).
    #[arg(long, value_name = "HOST")]
    program: Vec<String>,

    /// Write what the guest wrote to /dev/report into this file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Count what accesses would meet in such caches between `guest-count begin NAME` and
    /// `guest-count end` in the guest: zen5-2ccd, raptor-lake, xeon, laptop-4, sketch, or like
    /// l1=32K/8,l2=1M/8,l3=16M/16,top=10. The run takes several times as long and is the same
    /// otherwise.
    #[arg(long, value_name = "SPEC", conflicts_with_all = ["kvm", "parallel"],
          requires = "caches_report")]
    caches: Option<Caches>,

    /// Write what was counted into this file, as JSON.
    #[arg(long, value_name = "FILE", requires = "caches")]
    caches_report: Option<PathBuf>,

    /// One more word on the kernel's command line (repeatable).
    #[arg(long, value_name = "WORD")]
    kernel_arg: Vec<String>,

    /// Do not fail when the kernel throws a scheduler out with an error.
    #[arg(long)]
    allow_scx_error: bool,

    /// Say which kernel would be used, fetching it if necessary, and exit.
    #[arg(long)]
    check_kernel: bool,

    /// Lines for the shell before that, after which the machine is kept, and gone on with: as
    /// tests do that begin alike. A seed counts from there on.
    #[arg(long, value_name = "SCRIPT", conflicts_with_all = ["kvm", "parallel"])]
    prepare: Option<String>,

    /// A host program with its arguments, or one shell line.
    #[arg(
        value_name = "PROGRAM",
        last = true,
        required_unless_present = "check_kernel"
    )]
    words: Vec<String>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("scx_guest: {error:#}");
            ExitCode::from(EXIT_GUEST_FAILED)
        }
    }
}

fn run(options: &Options) -> Result<u8> {
    let kernel = Kernel::find(options.kernel.as_deref())?;
    if options.check_kernel {
        print_kernel(&kernel);
        return Ok(0);
    }
    if let Some(reason) = debian::known_bad(kernel.release()) {
        eprintln!(
            "scx_guest: Linux {} is known not to load schedulers: {reason}",
            kernel.release()
        );
    }

    let (guest, script) = prepare(options, &kernel)?;
    let mut has_output = false;
    let mut on_line = |line: &str| {
        has_output = true;
        println!("{line}");
    };
    let result = match &options.prepare {
        Some(first) => guest
            .clone()
            .prepare(first, &mut |_| ())
            .and_then(|prepared| prepared.run(&guest, &script, &mut on_line)),
        None => guest.run(&script, &mut on_line),
    };
    let outcome = result.map_err(|error| match error.failure() {
        // The last lines are on the screen already.
        Some(failure) if has_output => anyhow!("{failure}"),
        _ => error.into(),
    })?;
    if let Some(path) = &options.report {
        fs::write(path, &outcome.report)
            .with_context(|| format!("writing the report to {}", path.display()))?;
    }
    if let (Some(path), Some(spans)) = (&options.caches_report, &outcome.caches) {
        let mut text = serde_json::to_string_pretty(spans)?;
        text.push('\n');
        fs::write(path, text)
            .with_context(|| format!("writing the counts to {}", path.display()))?;
    }
    // A shell's status is 0 to 255.
    Ok(u8::try_from(outcome.exit_code).unwrap_or(EXIT_GUEST_FAILED))
}

fn print_kernel(kernel: &Kernel) {
    println!("image:   {}", kernel.image().display());
    println!("release: {}", kernel.release());
    match kernel.hz() {
        Some(hz) => println!("ticks:   {hz} Hz"),
        None => println!("ticks:   unknown, its configuration was not found"),
    }
    if let Some(reason) = debian::known_bad(kernel.release()) {
        println!("warning: schedulers are known not to load: {reason}");
    }
}

/// The guest and the script that runs the user's words in it.
fn prepare(options: &Options, kernel: &Kernel) -> Result<(Guest, String)> {
    let mut guest = Guest::new(kernel)
        .memory_mib(options.memory)
        .empty_sockets(options.empty_sockets)
        .seed(options.seed)
        .time_limit(Duration::from_secs(options.time_limit));
    if options.kvm {
        guest = guest.clock(Clock::Kvm);
    }
    if options.parallel {
        guest = guest.clock(Clock::Parallel);
    }
    if let Some(topology) = options.topology.or(options.cpus.map(Topology::flat)) {
        guest = guest.topology(topology);
    }
    if let Some(caches) = options.caches {
        guest = guest.caches(caches);
    }
    for word in &options.kernel_arg {
        guest = guest.kernel_arg(word);
    }
    if options.allow_scx_error {
        guest = guest.allow_scx_error();
    }
    for pair in &options.file {
        let Some((host_path, guest_path)) = pair.rsplit_once(':') else {
            bail!("--file {pair}: not of the form HOST:GUEST");
        };
        guest = guest.file(host_path, guest_path);
    }
    for path in &options.installed {
        guest = guest.installed(path);
    }
    for name in &options.program {
        guest = guest.program(find_program(name).unwrap_or_else(|| PathBuf::from(name)));
    }

    let [name, arguments @ ..] = options.words.as_slice() else {
        bail!("no program to run");
    };
    let Some(path) = find_program(name) else {
        // One word that is no program is a line for the shell.
        if arguments.is_empty() && !name.starts_with('/') {
            return Ok((guest, name.clone()));
        }
        if has_applet(name)? {
            return Ok((guest, shell_line(name, arguments)));
        }
        bail!("{name}: there is no such program on this machine");
    };
    // The shell's own programs need not be brought.
    let file_name = Path::new(name)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if name.contains('/') || !has_applet(name)? {
        guest = guest.program(path);
    }
    Ok((guest, shell_line(&file_name, arguments)))
}

fn shell_line(program: &str, arguments: &[String]) -> String {
    let words = std::iter::once(program).chain(arguments.iter().map(String::as_str));
    words.map(quote).collect::<Vec<_>>().join(" ")
}
