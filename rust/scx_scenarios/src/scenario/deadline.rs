// SPDX-License-Identifier: GPL-2.0
//! Tasks with deadlines: frames of a game, periods of an audio server.

use anyhow::Result;

use super::{Scenario, WARMUP_NS, add_hogs, game, measure};
use crate::clock::{NSEC_PER_MSEC, NSEC_PER_SEC, NSEC_PER_USEC};
use crate::load::{Game, Hogs, Storm};
use crate::probe::Probe;
use crate::result::{Better, Findings};
use crate::session::Session;
use crate::thread;

/// A frame at 60 Hz beside 2N hogs.
pub const FRAMES60: Scenario = Scenario {
    id: "frames60",
    about: "2N hogs. A frame thread wakes 60 times a second (16.67 ms) and uses 4 ms of CPU. Done: \
            from the frame's absolute start to the end of its work; missed: frames done later \
            than a period after their start.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: |session| {
        let frame = Probe {
            name: "frame",
            period_ns: NSEC_PER_SEC / 60,
            work_ns: 4 * NSEC_PER_MSEC,
        };
        run_deadlines(session, frame, None, "p95")
    },
};

/// A frame that needs nearly its fair share beside 2N hogs.
pub const FRAMES60_5MS: Scenario = synced_frames::<5>(
    "frames60_5ms",
    "2N hogs. A frame thread uses 5 ms of CPU for each frame, 30% of a CPU, where a fair third is \
     its due, and then waits for the next refresh (60 Hz, an absolute grid); late, it waits for \
     the first refresh after it is done. Frames per second: 60 at best; frame: from the refresh \
     at which it began to its end; missed: refreshes without a new frame.",
);

/// A frame that needs more than its fair share.
pub const FRAMES60_8MS: Scenario = synced_frames::<8>(
    "frames60_8ms",
    "As frames60_5ms with 8 ms of CPU for each frame: 48% of a CPU, more than a third.",
);

/// A frame that needs most of a CPU.
pub const FRAMES60_12MS: Scenario = synced_frames::<12>(
    "frames60_12ms",
    "As frames60_5ms with 12 ms of CPU for each frame: 72% of a CPU.",
);

/// A frame thread of `WORK_MS` of CPU for each frame that waits for refreshes.
const fn synced_frames<const WORK_MS: u64>(id: &'static str, about: &'static str) -> Scenario {
    Scenario {
        id,
        about,
        seconds: 3.0,
        warmup_ns: WARMUP_NS,
        saturates: true,
        run: run_frames::<WORK_MS>,
    }
}

/// A frame at 144 Hz beside 2N hogs.
pub const FRAMES144: Scenario = Scenario {
    id: "frames144",
    about: "2N hogs. A frame thread wakes 144 times a second (6.94 ms) and uses 2 ms of CPU, a \
            little less than its fair third of a CPU. Done and missed as in frames60.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: |session| {
        let frame = Probe {
            name: "frame",
            period_ns: NSEC_PER_SEC / 144,
            work_ns: 2 * NSEC_PER_MSEC,
        };
        run_deadlines(session, frame, None, "p99")
    },
};

/// Audio periods beside 2N hogs and a storm.
pub const AUDIO: Scenario = Scenario {
    id: "audio",
    about: "2N hogs and a fork storm (as in storm). An audio thread wakes every 5.33 ms and uses \
            0.7 ms of CPU. Missed: periods done later than 5.33 ms after their start, of 563 in \
            3 s.",
    seconds: 3.0,
    warmup_ns: WARMUP_NS,
    saturates: true,
    run: |session| {
        let storm = Storm::start(session, session.t0_ns, session.load_to_ns)?;
        // 256 frames at 48 kHz.
        let audio = Probe {
            name: "audio",
            period_ns: NSEC_PER_SEC * 256 / 48_000,
            work_ns: 700 * NSEC_PER_USEC,
        };
        run_deadlines(session, audio, Some(storm), "p99")
    },
};

/// A thread that would always be late must leave frames out, or it measures
/// how long its queue has become.
fn run_frames<const WORK_MS: u64>(session: &Session) -> Result<Findings> {
    let frame = Game {
        main_ns: WORK_MS * NSEC_PER_MSEC,
        ..game::ONE_THREAD
    }
    .spawn(session)?;
    let hogs = Hogs::spawn(session, session.nr_load(2 * session.cpus), 0)?;
    let mut findings = measure(session)?;
    thread::join(frame)??.add_to(session, &mut findings);
    add_hogs(session, &mut findings, &hogs.join()?);
    Ok(findings)
}

/// `done` is the percentile of the completion time that is a headline.
fn run_deadlines(
    session: &Session,
    task: Probe,
    storm: Option<Storm>,
    done: &str,
) -> Result<Findings> {
    let task_handle = task.spawn(session)?;
    let hogs = Hogs::spawn(session, session.nr_load(2 * session.cpus), 0)?;
    let mut findings = measure(session)?;
    let seen = thread::join(task_handle)?;
    findings.latency("done", &seen.done, &[done]);
    findings.latency("wake", &seen.wake, &[]);
    findings.headline("missed", seen.missed as f64, "", Better::Lower);
    findings.detail("events", seen.done.count() as f64, "", Better::Neither);
    findings.group(task.name, seen.usage);
    add_hogs(session, &mut findings, &hogs.join()?);
    if let Some(storm) = storm {
        findings.latency("burst", &storm.join(session)?.time, &[]);
    }
    Ok(findings)
}
