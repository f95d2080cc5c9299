// SPDX-License-Identifier: GPL-2.0
//! What the guest may ask of this test program beside what any scheduler's tests
//! may ask (support/agent.rs).
//!
//! - `wander ...`, `displaced ...`, `sleepers ...`, `leavers ...`: see idle.rs.
//! - `idle-waits ...`: see kicks.rs. `children`: see gate.rs. `grace-periods ...`: see
//!   grace.rs. `groups ...`: see
//!   groups.rs. `goes-on ...`: see handoffs.rs. `intruded ...`: see classes.rs.
//! - `light-load ...`: see packing.rs. `load-step ...`: see frequency.rs.
//!   `late-game ...`: see games.rs. `latecomer ...`: see victims.rs. `parted ...`: see
//!   domains.rs. `kernel-thread ...`: see waits.rs.
//! - `shared-mutex ...`: see locks.rs. `unprivileged ...`: see profiles.rs.
//! - `roles ...`, `fresh-hog`, `young`, `processes ...`, `rivals ...`,
//!   `frames ...`: see roles.rs.
//! - `as ...`, `after ...`, `calls-itself ...`, `joins ...`, `lives ...`, `starts`,
//!   `messages ...`, `lowered ...`: see rules.rs. `begin-hogs ...`: see procdb.rs.
//!   `on-terminal ...`: see top.rs.
//! - `verified-insns`: see attach.rs. `bpf-objects`: see loader.rs.
//!   `sandboxed ...`: see sandbox.rs. `capable ...`: see service.rs. `unrest ...`: see
//!   races.rs.

use std::process::ExitCode;

use anyhow::Result;

use crate::support::agent;
use crate::{
    attach, classes, domains, frequency, games, gate, grace, groups, handoffs, idle, kicks, loader,
    locks, packing, procdb, profiles, races, requests, roles, rules, sandbox, service, top,
    victims, waits, yields,
};

/// Not a test but what the guest runs.
#[test]
fn in_a_guest() -> ExitCode {
    agent::main(answer)
}

/// Answer a request, if it is one of these.
pub fn answer(words: &[&str]) -> Option<Result<String>> {
    let answer = match words {
        ["wander", words @ ..] => idle::wander(words),
        ["displaced", words @ ..] => idle::displaced(words),
        ["sleepers", words @ ..] => idle::sleepers(words),
        ["leavers", words @ ..] => idle::leavers(words),
        ["latecomer", words @ ..] => victims::latecomer(words),
        ["goes-on", words @ ..] => handoffs::goes_on(words),
        ["brief-among-long", words @ ..] => requests::brief_among_long(words),
        ["hogs-and-yielders", words @ ..] => yields::hogs_and_yielders(words),
        ["job-beside-yielders"] => yields::job_beside_yielders(),
        ["intruded", words @ ..] => classes::intruded(words),
        ["shared-mutex", words @ ..] => locks::shared_mutex(words),
        ["grace-periods", words @ ..] => grace::grace_periods(words),
        ["groups", words @ ..] => groups::churn(words),
        ["idle-waits", words @ ..] => kicks::idle_waits(words),
        ["parted", words @ ..] => domains::parted(words),
        ["kernel-thread", words @ ..] => waits::kernel_thread(words),
        ["light-load", words @ ..] => packing::light_load(words),
        ["load-step", words @ ..] => frequency::load_step(words),
        ["late-game", words @ ..] => games::late_game(words),
        ["unprivileged", words @ ..] => profiles::unprivileged(words),
        ["children"] => gate::children(),
        ["roles", words @ ..] => roles::run(words),
        ["fresh-hog"] => roles::fresh_hog(),
        ["young"] => roles::young(),
        ["processes", words @ ..] => roles::processes(words),
        ["rivals", words @ ..] => roles::rivals(words),
        ["frames", words @ ..] => roles::frames(words),
        ["as", words @ ..] => rules::run_as(words),
        ["after", words @ ..] => rules::after(words),
        ["calls-itself", words @ ..] => rules::calls_itself(words),
        ["joins", words @ ..] => rules::joins(words),
        ["lives", words @ ..] => rules::lives(words),
        ["starts"] => rules::starts(),
        ["messages", words @ ..] => rules::messages(words),
        ["lowered", words @ ..] => rules::lowered(words),
        ["unrest", words @ ..] => races::unrest(words),
        ["on-terminal", words @ ..] => top::on_terminal(words),
        ["begin-hogs", words @ ..] => procdb::begin_hogs(words),
        ["verified-insns"] => attach::verified_insns(),
        ["bpf-objects"] => loader::bpf_objects(),
        ["sandboxed", words @ ..] => sandbox::become_sandboxed(words),
        ["capable", words @ ..] => service::become_capable(words),
        _ => return None,
    };
    Some(answer)
}
