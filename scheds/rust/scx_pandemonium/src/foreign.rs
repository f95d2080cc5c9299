//! Flags of other sched_ext schedulers: whose is one that we do not have?
//!
//! Loaders and services keep flags in a file of their own, and those of the scheduler
//! before stay there when another one is chosen. An unknown flag is an error, which
//! says where it may come from.
//!
//! The table holds what the help of these schedulers says as of their versions 1.1,
//! but for flags that ours has too. It need not be complete.

/// Flags by scheduler.
#[rustfmt::skip]
const FLAGS: &[(&str, &[&str])] = &[
    (
        "scx_beerland",
        &[
            "-c", "-l", "-m", "-n", "-s", "--cpu-busy-thresh", "--disable-numa", "--primary-domain",
            "--slice-us", "--slice-us-lag",
        ],
    ),
    (
        "scx_bpfland",
        &[
            "-I", "-L", "-P", "-S", "-T", "-d", "-f", "-k", "-l", "-m", "-p", "-s", "-t", "-w",
            "--debug", "--disable-numa", "--disable-smt", "--idle-resume-us", "--local-kthreads",
            "--local-pcpu", "--no-wake-sync", "--preferred-idle-scan", "--primary-domain",
            "--slice-min-us", "--slice-us", "--slice-us-lag", "--sticky-tasks", "--throttle-us",
        ],
    ),
    (
        "scx_cake",
        &["-p", "--interval", "--new-flow-bonus", "--quantum", "--starvation"],
    ),
    (
        "scx_cosmos",
        &[
            "-E", "-N", "-P", "-S", "-Y", "-a", "-c", "-d", "-e", "-f", "-g", "-i", "-l", "-m",
            "-n", "-p", "-s", "-w", "-y", "--avoid-smt", "--cpu-busy-thresh", "--disable-cpufreq",
            "--disable-numa", "--disable-smt", "--flat-idle-scan", "--mm-affinity",
            "--no-deferred-wakeup", "--no-early-clear", "--no-wake-sync", "--perf-config",
            "--perf-sticky", "--perf-threshold", "--polling-ms", "--preferred-idle-scan",
            "--primary-domain", "--slice-lag-us", "--slice-us", "--time-preemption",
        ],
    ),
    (
        "scx_flash",
        &[
            "-I", "-R", "-T", "-d", "-f", "-l", "-m", "-s", "-t", "--debug", "--disable-numa",
            "--disable-smt", "--idle-resume-us", "--primary-domain", "--rr-sched", "--slice-us",
            "--slice-us-lag", "--throttle-us", "--tickless", "--wakeup-throttle",
        ],
    ),
    ("scx_flow", &["-d", "--debug", "--no-autotune", "--no-webui"]),
    (
        "scx_lavd",
        &[
            "--autopilot", "--autopower", "--balanced", "--cpu-pref-order", "--enable-cpu-bw",
            "--lat-load-target-pct", "--lb-local-dsq-util-pct", "--lb-low-util-pct", "--log-level",
            "--mig-delta-pct", "--monitor-sched-samples", "--no-core-compaction", "--no-fast-lb",
            "--no-freq-scaling", "--no-futex-boost", "--no-preemption", "--no-slice-boost",
            "--no-use-em", "--no-wake-sync", "--partial", "--per-cpu-dsq", "--performance",
            "--pinned-slice-us", "--powersave", "--preempt-shift", "--run-id", "--slice-max-us",
            "--slice-min-us", "--warm-cpu-us",
        ],
    ),
    (
        "scx_p2dq",
        &[
            "-a", "-d", "-e", "-f", "-g", "-i", "-k", "-l", "-m", "-q", "-r", "-s", "-t", "-x",
            "-y", "--autoslice", "--cpu-priority", "--deadline", "--disable-kthreads-local",
            "--dispatch-lb-busy", "--dispatch-pick2-disable", "--dsq-shift", "--dsq-time-slices",
            "--dumb-queues", "--eager-load-balance", "--enable-eas", "--freq-control",
            "--greedy-idle-disable", "--idle-resume-us", "--interactive-ratio", "--keep-running",
            "--lb-mode", "--lb-slack-factor", "--log-level", "--min-slice-us", "--run-id",
            "--sched-mode", "--select-idle-in-enqueue", "--task-slice", "--turbo",
            "--wakeup-lb-busy", "--wakeup-preemption",
        ],
    ),
    (
        "scx_rustland",
        &[
            "-S", "-l", "-n", "-p", "-s", "--numa-local", "--partial", "--percpu-local",
            "--slice-us", "--slice-us-min",
        ],
    ),
    (
        "scx_rusty",
        &[
            "-C", "-D", "-I", "-K", "-b", "-c", "-f", "-g", "-i", "-k", "-l", "-o", "-p", "-r",
            "-u", "--balanced-kworkers", "--cache-level", "--cpumasks", "--direct-greedy-numa",
            "--direct-greedy-under", "--fifo-sched", "--greedy-threshold", "--interval",
            "--kick-greedy-under", "--kthreads-local", "--load-half-life", "--mempolicy-affinity",
            "--no-load-balance", "--partial", "--perf", "--slice-us-overutil",
            "--slice-us-underutil", "--tune-interval",
        ],
    ),
    (
        "scx_tickless",
        &["-f", "-m", "-n", "-s", "--frequency", "--nosmt", "--primary-domain", "--slice-us"],
    ),
];

/// A sentence about `flag`, such as `-s` or `--slice-us`, if other schedulers have it.
pub fn explain(flag: &str) -> Option<String> {
    let owners: Vec<&str> = FLAGS
        .iter()
        .filter(|(_, flags)| flags.contains(&flag))
        .map(|(owner, _)| *owner)
        .collect();
    let (last, others) = owners.split_last()?;
    let owners = match others {
        [] => (*last).to_owned(),
        others => format!("{} and {last}", others.join(", ")),
    };
    Some(format!(
        "'{flag}' is a flag of {owners}: remove it from SCX_FLAGS, or from the arguments in the \
         configuration of scx_loader, if it is left from there"
    ))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Opts;

    #[test]
    fn a_flag_of_others_is_explained_and_any_other_is_not() {
        let explained = |flag| explain(flag).unwrap_or_default();
        assert!(explained("--autopower").contains("a flag of scx_lavd:"));
        let owners = "scx_beerland, scx_bpfland, scx_cosmos, scx_flash, scx_rustland and \
                      scx_tickless";
        assert!(explained("--slice-us").contains(owners));
        for flag in ["--stat", "", "-", "slice-us", "--slice"] {
            assert_eq!(explain(flag), None, "{flag}");
        }
    }

    #[test]
    fn the_table_holds_no_flag_of_ours() {
        let mut command = Opts::command();
        command.build();
        for arg in command.get_arguments() {
            let long = arg.get_long().map(|long| format!("--{long}"));
            let short = arg.get_short().map(|short| format!("-{short}"));
            for flag in long.into_iter().chain(short) {
                assert_eq!(explain(&flag), None);
            }
        }
    }
}
