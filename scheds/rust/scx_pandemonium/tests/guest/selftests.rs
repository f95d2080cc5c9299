// SPDX-License-Identifier: GPL-2.0
//! A judge from outside: the kernel's own selftests of the cpu controller,
//! `test_cpu` of `tools/testing/selftests/cgroup`, as they are.
//!
//! `cargo xtask test` fetches the sources of the kernel and builds them. Without
//! them these tests are skipped.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use scx_guest::Kernel;

use crate::ours::OURS;
use crate::support::skip;

const PROGRAM: &str = "test_cpu";

/// What a selftest says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    Skip,
    Fail,
}
use Verdict::{Fail, Pass, Skip};

/// Each of them, with its verdict on 2 CPUs and on 4. Hogs that have a CPU each
/// are tested on 4 CPUs and more only. The last two want `cpu.max` to limit a
/// hog to a hundredth of a CPU; it is not honoured, see `cgroup.bpf.h`.
const EXPECTED: &[(&str, Verdict, Verdict)] = &[
    ("subtree_control", Pass, Pass),
    ("stats", Pass, Pass),
    ("nice", Pass, Pass),
    ("weight_overprovisioned", Pass, Pass),
    ("weight_underprovisioned", Skip, Pass),
    ("nested_weight_overprovisioned", Pass, Pass),
    ("nested_weight_underprovisioned", Skip, Pass),
    ("max", Fail, Fail),
    ("max_nested", Fail, Fail),
];

const SCRIPT: &str = "\
begin
test_cpu >/tmp/selftests 2>&1
tell selftest /tmp/selftests
stop INT
";

/// A line such as `ok 4 test_cpucg_stats`, `ok 5 # SKIP test_cpucg_max` or
/// `not ok 8 test_cpucg_max`; others say why a selftest failed.
fn verdict(line: &str) -> Option<(&str, Verdict)> {
    let (line, is_ok) = match line.strip_prefix("not ") {
        Some(rest) => (rest, false),
        None => (line, true),
    };
    let (_number, rest) = line.strip_prefix("ok ")?.split_once(' ')?;
    let (name, verdict) = match rest.strip_prefix("# SKIP ") {
        Some(name) => (name, Skip),
        None if is_ok => (rest, Pass),
        None => (rest, Fail),
    };
    Some((name.strip_prefix("test_cpucg_")?, verdict))
}

/// What a selftest says is said again by the processes that the next ones fork,
/// from what was not written yet.
fn without_repeats(lines: &[String]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let lines = lines.iter().map(String::as_str);
    lines.filter(|&line| seen.insert(line)).collect()
}

fn judged(kernel: &Kernel, nr_cpus: u32, expected: BTreeMap<&str, Verdict>) -> Result<()> {
    let program = scx_guest::selftests_dir()?.join(PROGRAM);
    if !program.is_file() {
        skip("no selftests of the kernel, which `cargo xtask test` builds");
        return Ok(());
    }
    let program = program.to_str().context("a path that is no text")?;
    let told = OURS
        .flat(kernel, nr_cpus)?
        .with_program(program)?
        .run(SCRIPT)?;
    let lines: Vec<String> = told.all("selftest")?;
    let lines = without_repeats(&lines).join("\n");
    println!("{lines}");
    let found: BTreeMap<_, _> = lines.lines().filter_map(verdict).collect();
    for (&name, verdict) in &expected {
        told.check(found.get(name) == Some(verdict), || {
            let found = found.get(name);
            format!("{name}: found {found:?}, expected {verdict:?}; the selftests said\n{lines}")
        })?;
    }
    told.check_eq("number of selftests", found.len(), expected.len())?;
    told.check_stops()
}

invariant!(the_kernels_own_tests_of_weights_pass_on_2_cpus, |kernel| {
    let on_2 = |&(name, verdict, _)| (name, verdict);
    judged(kernel, 2, EXPECTED.iter().map(on_2).collect())
});

invariant!(the_kernels_own_tests_of_weights_pass_on_4_cpus, |kernel| {
    let on_4 = |&(name, _, verdict)| (name, verdict);
    judged(kernel, 4, EXPECTED.iter().map(on_4).collect())
});
