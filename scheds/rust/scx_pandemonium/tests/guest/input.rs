// SPDX-License-Identifier: GPL-2.0
//! What is wrong with how the program was started is said in one line.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::ours::OURS;
use crate::support::skip;

/// The shell that runs this belongs to root, the scheduler to the user nobody.
const SCRIPT: &str = "\
su -s /bin/sh nobody -c \"$SCHEDULER\" >/tmp/out 2>&1
fact code $?
fact state $(cat $STATE)
while read -r line; do
	fact line $line
done </tmp/out
";

/// Run the scheduler here with `args`: exit code and what it printed on
/// standard error.
fn run_here(args: &[&str]) -> Result<(Option<i32>, String)> {
    let output = Command::new(OURS.program())
        .args(args)
        .output()
        .context("running the scheduler")?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    println!("{args:?}: {}\n{stderr}", output.status);
    Ok((output.status.code(), stderr))
}

#[test]
fn a_wrong_command_line_is_refused_with_2() -> Result<()> {
    for (args, word) in [
        (&["--no-such-flag"][..], "--no-such-flag"),
        (&["--stats", "0"], "0"),
        (&["--stats", "nan"], "nan"),
        (&["--stats", "-1"], "must be above 0"),
        (&["--monitor", "-0.5"], "must be above 0"),
        (&["--monitor", "inf"], "inf"),
        (&["--stats"], "--stats"),
        (&["--exit-dump-len", "-5"], "-5"),
        (&["--nr-cpus", "0"], "8192"),
        (&["--nr-cpus", "8193"], "8192"),
        (&["--compositor", ""], "empty"),
        (&["--compositor", "*"], "every"),
        (&["--compositor", "k*n"], "k*n"),
        (&["--compositor", "a\tb"], "control"),
        (
            &["--monitor", "1", "--monitor-format", "xml"],
            "openmetrics",
        ),
        (&["--monitor", "1", "--monitor-format"], "openmetrics"),
        (&["--monitor-format", "json"], "--monitor"),
        (&["tasks", "--watch", "0"], "0"),
        (&["tasks", "--watch", "-1"], "must be above 0"),
        (&["top", "--interval", "-1"], "must be above 0"),
        (&["tasks", "--sort", "colour"], "score"),
        (&["tasks", "--tier", "best"], "lat_critical"),
        (&["tasks", "--pid", "0"], "1.."),
        (&["tasks", "--name", "*"], "everything"),
        (&["word"], "word"),
    ] {
        let (code, stderr) = run_here(args)?;
        ensure!(code == Some(2), "{args:?} ended with {code:?}");
        ensure!(
            stderr.starts_with("error: ") && stderr.contains(word),
            "{args:?} was not explained: {stderr}"
        );
    }
    Ok(())
}

#[test]
fn a_kernel_without_sched_ext_is_named_in_one_line() -> Result<()> {
    if Path::new("/sys/kernel/sched_ext").exists() {
        skip("this kernel has sched_ext");
        return Ok(());
    }
    let (code, stderr) = run_here(&[])?;
    ensure!(code == Some(1), "it ended with {code:?}");
    let errors = without_log(&stderr);
    ensure!(
        errors.len() == 1 && errors[0].contains("this kernel has no sched_ext"),
        "not one clear line: {stderr}"
    );
    Ok(())
}

invariant!(a_user_who_is_not_root_is_told_so_in_one_line, |kernel| {
    let told = OURS.flat(kernel, 1)?.run(SCRIPT)?;
    told.check_eq("exit code", told.one("code")?, 1)?;
    told.check_eq("sched_ext", told.one("state")?, "disabled".to_owned())?;
    let lines = told.all::<String>("line")?.join("\n");
    println!("{lines}");
    let errors = without_log(&lines);
    told.check(errors.len() == 1 && errors[0].contains("root"), || {
        format!("not one clear line: {lines}")
    })
});

/// The lines that are not of the log.
fn without_log(text: &str) -> Vec<&str> {
    let is_log = |line: &str| line.starts_with("[INFO]") || line.starts_with("[WARN]");
    text.lines().filter(|line| !is_log(line)).collect()
}
