// SPDX-License-Identifier: GPL-2.0
//! What goes wrong is said, in words and by the exit status, and leaves nothing
//! behind.

#![allow(clippy::expect_used)]

use std::fs::File;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// What a command ended by Ctrl-C exits with.
const INTERRUPTED: i32 = 130;

fn bench(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_bench"));
    command.args(line.split_whitespace());
    command
}

/// It fails with status 1 and says all of `words`.
fn is_refused(output: &Output, words: &[&str]) {
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn wrong_names_are_refused_and_the_right_ones_are_named() {
    for (line, words) in [
        ("run --scenario nonsense", ["nonsense", "saturation"]),
        ("guest --sched scx_nonsense", ["scx_nonsense", "scx_lavd"]),
        ("host --sched scx_nonsense", ["scx_nonsense", "scx_lavd"]),
        (
            "host --sched mine=/nonexistent",
            ["/nonexistent", "no such program"],
        ),
        ("host --repeats 0", ["--repeats", "at least 1"]),
        ("lines --runs 0", ["--runs", "at least 1"]),
        ("lines --cpus 0,4095", ["--cpus", "CPU 4095"]),
        (
            "guest --caches --scenario nonsense",
            ["nonsense", "walk_wakers"],
        ),
        ("guest --caches --sched limit", ["limit", "no result"]),
        (
            "guest --sched default --peers /nonexistent",
            ["published schedulers", "/nonexistent"],
        ),
    ] {
        is_refused(&bench(line).output().expect("it starts"), &words);
    }
}

#[test]
fn a_missing_tool_is_a_message_with_its_package_and_no_result() {
    for line in [
        "run --scenario ext_hackbench",
        "host --scenario ext_hackbench",
    ] {
        let output = bench(line).env("PATH", "/nonexistent").output();
        is_refused(&output.expect("it starts"), &["hackbench", "rt-tests"]);
    }
}

#[test]
fn a_scheduler_that_does_not_load_is_quoted_and_has_no_result() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("json");
    let output = bench("run --scenario pipe_idle --seconds 0.1 --json")
        .arg(&path)
        .args(["--", "/bin/sh", "-c", "echo the verifier says no; exit 4"])
        .output()
        .expect("it starts");
    is_refused(&output, &["did not load", "the verifier says no"]);
    let json = std::fs::read_to_string(path).expect("the failure is written");
    assert!(
        json.contains("the verifier says no") && json.contains("\"scenarios\":[]"),
        "{json}"
    );
}

#[test]
fn a_full_disk_is_an_error_and_no_panic() {
    let full = || {
        File::options()
            .write(true)
            .open("/dev/full")
            .expect("it exists")
    };
    let line = "run --scenario pipe_idle --seconds 0.1";
    let output = bench(line).args(["--json", "/dev/full"]).output();
    is_refused(&output.expect("it starts"), &["/dev/full", "No space left"]);
    let output = bench(line).stdout(full()).output();
    is_refused(
        &output.expect("it starts"),
        &["standard output", "No space left"],
    );
}

/// Interrupt it when it is well under way; its exit status.
fn interrupt(mut command: Command, signal: Signal) -> i32 {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(800));
    kill(Pid::from_raw(process.id() as i32), signal).expect("it runs");
    let began = Instant::now();
    let status = process.wait().expect("it ends");
    assert!(
        began.elapsed() < Duration::from_secs(12),
        "{:?}",
        began.elapsed()
    );
    status.code().expect("it exits by itself")
}

#[test]
fn an_interrupt_ends_a_run_and_removes_its_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let scenario = match scx_guest::find_program("tcc") {
        Some(_) => "build",
        None => "storm",
    };
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut command = bench(&format!("run --seconds 60 --scenario {scenario}"));
        command.env("TMPDIR", dir.path());
        assert_eq!(interrupt(command, signal), INTERRUPTED);
        let left = std::fs::read_dir(dir.path()).expect("it is there").count();
        assert_eq!(left, 0, "files are left behind");
    }
}

#[test]
fn an_interrupt_ends_a_comparison_with_all_it_started() {
    let command = bench("host --scenario saturation --seconds 60");
    assert_eq!(interrupt(command, Signal::SIGINT), INTERRUPTED);
}

#[test]
fn a_comparison_leaves_results_a_page_and_figures() {
    let dir = tempfile::tempdir().expect("a directory");
    let figures = dir.path().join("figures.prom");
    let output = bench("host --scenario pipe_idle --seconds 0.1 --repeats 1 --out")
        .arg(dir.path())
        .arg("--prometheus")
        .arg(&figures)
        .output()
        .expect("it starts");
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&said)
    );
    let text = |path| std::fs::read_to_string(path).expect("it is written");
    let command = "scx_bench host --repeats 1 --sched default --scenario pipe_idle --seconds 0.1";
    for file in ["results.json", "report.html"] {
        assert!(text(dir.path().join(file)).contains(command), "{file}");
    }
    assert!(text(figures).contains("scenario=\"pipe_idle\""));
}

#[test]
fn lines_have_a_figure_for_each_cache_and_say_what_is_left_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("lines.json");
    let output = bench("lines --runs 3 --json").arg(&path).output();
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("load from L1"),
        "{said}"
    );
    let json = std::fs::read_to_string(path).expect("it is written");
    let report: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    let figures = report["figures"].as_array().expect("figures");
    assert_eq!(figures[0]["what"], "l1");
    assert!(
        figures
            .iter()
            .all(|figure| figure["ns"]["median"].as_f64() > Some(0.0)),
        "{json}"
    );
    // What a pair would tell is there, or the reason why it is not.
    let has_pair = figures.iter().any(|figure| figure["what"] == "round_trip");
    let reasons = report["left_out"].to_string();
    assert!(has_pair != reasons.contains("only one CPU"), "{json}");
}

#[test]
fn a_single_cpu_is_enough_for_its_caches() {
    let status = std::fs::read_to_string("/proc/self/status").expect("it is there");
    let list = status.split("Cpus_allowed_list:").nth(1).expect("a list");
    let cpu: String = list
        .trim()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu, env!("CARGO_BIN_EXE_scx_bench")]);
    let output = command.args(["lines", "--runs", "3"]).output();
    let Ok(output) = output else {
        return;
    };
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("only one CPU") && !said.contains("round trip"),
        "{said}"
    );
}
