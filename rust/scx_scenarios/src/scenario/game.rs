// SPDX-License-Identifier: GPL-2.0
//! A game beside a full machine: a program that needs more than an equal share.
//!
//! Alone, the frame of the game with workers takes 7.1 ms of the 16.7 ms between
//! two refreshes at 2, 4 and 8 CPUs: 7 ms of the main thread, beside it 5 ms of
//! each of N-1 workers. It asks for about a third of the machine (36% of 2 CPUs,
//! 33% of 4, 32% of 8), its main thread for 42% of one CPU. The game of one thread
//! takes 12 ms. So both can show 60 frames per second.
//!
//! Beside it are 4N hogs, as many as a `make -j` of four jobs for each CPU keeps
//! running. Were all tasks equal, each would be due a fifth of a CPU: less than
//! the game needs.

use anyhow::Result;

use super::build::Builds;
use super::{Scenario, WARMUP_NS, add_hogs, measure};
use crate::cgroup::{self, Tree};
use crate::clock::{NSEC_PER_MSEC, NSEC_PER_SEC};
use crate::load::game::GameSeen;
use crate::load::{Game, Hogs};
use crate::process::Process;
use crate::result::{Better, Findings};
use crate::session::Session;
use crate::thread;

/// Hogs for each CPU.
const HOGS_PER_CPU: usize = 4;

/// A game with workers beside hogs.
pub const GAME_MT: Scenario = Scenario {
    id: "game_mt",
    about: "4N hogs, in a process of their own. A game: for each frame its main thread wakes N-1 \
            workers (at least one) by futex, which use 5 ms of CPU each, uses 7 ms itself, waits \
            for the last of them and then for the next refresh (60 Hz, an absolute grid); late, it \
            waits for the first refresh after it is done. Frames per second: 60 at best; frame: \
            from the refresh at which it began to the end of its last thread; missed: refreshes \
            without a new frame; gap: longest time between two looks at the clock of any hog; \
            worker wait: of the last worker to begin, from before its wakeup.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: |session| beside_hogs(session, with_workers(session), false),
};

/// The same game in a control group of its own.
pub const GAME_MT_CG: Scenario = Scenario {
    id: "game_mt_cg",
    about: "As game_mt, with game and hogs each in a control group of weight 100, as systemd lays \
            out applications: each group is due half of the machine.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: |session| beside_hogs(session, with_workers(session), true),
};

/// A game of one thread beside hogs.
pub const GAME: Scenario = Scenario {
    id: "game",
    about: "4N hogs. A game of one thread that uses 12 ms of CPU for each frame. Otherwise as \
            game_mt.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: |session| beside_hogs(session, ONE_THREAD, false),
};

/// The same game in a control group of its own.
pub const GAME_CG: Scenario = Scenario {
    id: "game_cg",
    about: "As game, with game and hogs each in a control group of weight 100.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: |session| beside_hogs(session, ONE_THREAD, true),
};

/// A game with workers beside a real build.
pub const GAME_MT_BUILD: Scenario = Scenario {
    id: "game_mt_build",
    about: "A real `make -jN` as in build. A game as in game_mt beside it, and its figures. Build: \
            as there.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: false,
    run: |session| beside_build(session, with_workers(session)),
};

/// From one refresh to the next, in nanoseconds.
const PERIOD_NS: u64 = NSEC_PER_SEC / 60;

/// A game of one thread of 12 ms for each frame.
pub(super) const ONE_THREAD: Game = Game {
    name: "game",
    worker_name: "game_worker",
    period_ns: PERIOD_NS,
    main_ns: 12 * NSEC_PER_MSEC,
    workers: 0,
    worker_ns: 0,
};

fn with_workers(session: &Session) -> Game {
    Game {
        main_ns: 7 * NSEC_PER_MSEC,
        workers: (session.cpus - 1).max(1),
        worker_ns: 5 * NSEC_PER_MSEC,
        ..ONE_THREAD
    }
}

fn start_game(
    session: &Session,
    game: Game,
    group: Option<&cgroup::Group>,
) -> Result<Process<GameSeen>> {
    let session = session.for_process();
    Process::start(|| {
        group.map_or(Ok(()), cgroup::Group::enter)?;
        let game = game.spawn(&session)?;
        session.ensure_set_up()?;
        thread::join(game)?
    })
}

fn beside_hogs(session: &Session, game: Game, has_groups: bool) -> Result<Findings> {
    // Dropped last: its groups have to be empty.
    let tree = has_groups.then(Tree::new).transpose()?;
    let group = |name| {
        let group = tree.as_ref().map(|t| t.group(name, cgroup::WEIGHT_DFL));
        group.transpose()
    };
    let (game_group, hogs_group) = (group("game")?, group("hogs")?);
    let game = start_game(session, game, game_group.as_ref())?;
    let nr_hogs = session.nr_load(HOGS_PER_CPU * session.cpus);
    let hogs = Hogs::fork(session, nr_hogs, hogs_group.as_ref())?;
    let mut findings = measure(session)?;
    game.join()?.add_to(session, &mut findings);
    let hogs = hogs.join()?;
    let gap_ms = hogs.gap_max_ns() as f64 / NSEC_PER_MSEC as f64;
    findings.headline("gap", gap_ms, "ms", Better::Lower);
    add_hogs(session, &mut findings, &hogs);
    Ok(findings)
}

fn beside_build(session: &Session, game: Game) -> Result<Findings> {
    let game = start_game(session, game, None)?;
    let builds = match session.no_load {
        true => None,
        false => Some(Builds::start(session)?),
    };
    let mut findings = measure(session)?;
    game.join()?.add_to(session, &mut findings);
    if let Some(builds) = builds {
        findings.latency("build", &builds.join()?, &["mean"]);
    }
    Ok(findings)
}
