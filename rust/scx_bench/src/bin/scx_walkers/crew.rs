// SPDX-License-Identifier: GPL-2.0
//! The processes of a scenario, and what they count.
//!
//! Each is a fork of the program, in a role, and does units of work until it is killed.
//! It counts those that end while the span is open, and of these the ones that ended on
//! another CPU than the one before: a move. The counts are in memory that all share,
//! lines of its own for each process, so that counting meets no line of another CPU.
//!
//! Not here: what the work is (`loads`).

use std::arch::asm;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use scx_scenarios::clock::{self, NSEC_PER_MSEC, NSEC_PER_SEC, now_ns};
use scx_scenarios::session::{Draws, Session};
use scx_scenarios::shared::die_with_parent;
use scx_scenarios::system;
use serde::Serialize;

/// As many processes as a scenario may have; pages of slots are touched as they are used.
const NR_SLOTS_MAX: usize = 4096;

/// How long processes may take to touch their memory, in nanoseconds of a guest that is
/// slow at nothing but faults.
const READY_LIMIT_NS: u64 = 10 * NSEC_PER_SEC;

/// What RAX holds at the begin and at the end of a span; also in the plugin of
/// `scx_guest`.
const MARK_BEGIN: u64 = 0x6265_6701;
const MARK_END: u64 = 0x6265_6702;

/// A word in lines of its own: two, since some machines fetch pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Alone<T>(T);

/// What a process counted.
#[derive(Debug)]
#[repr(align(128))]
struct Slot {
    units: AtomicU64,
    moves: AtomicU64,
}

/// The memory that all processes share; zeroed at first.
#[derive(Debug)]
#[repr(C)]
struct Board {
    is_counting: Alone<AtomicU32>,
    nr_ready: Alone<AtomicU32>,
    slots: [Slot; NR_SLOTS_MAX],
}

impl Board {
    /// A new one, which stays as long as the process.
    fn map() -> Result<&'static Self> {
        // SAFETY: a new anonymous mapping, placed by the kernel.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Self>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()).context("mapping shared memory");
        }
        let board = NonNull::new(address.cast()).context("mapping shared memory at null")?;
        // SAFETY: pages are aligned for it, all zeroes are a valid value, it is never
        // unmapped, and all its fields are atomics.
        Ok(unsafe { board.as_ref() })
    }
}

/// What a process counts its units by.
#[derive(Debug)]
pub struct Counter {
    board: &'static Board,
    slot: &'static Slot,
    cpu: i32,
}

impl Counter {
    /// The caller has all that it needs, and is about to begin.
    pub fn ready(&mut self) {
        self.here();
        self.board.nr_ready.0.fetch_add(1, Ordering::AcqRel);
    }

    /// A unit that ends on another CPU than this one is a move.
    pub fn here(&mut self) {
        self.cpu = system::current_cpu();
    }

    /// A unit of work has ended.
    #[inline]
    pub fn unit(&mut self) {
        let cpu = system::current_cpu();
        if self.board.is_counting.0.load(Ordering::Relaxed) != 0 {
            add(&self.slot.units, 1);
            if cpu != self.cpu {
                add(&self.slot.moves, 1);
            }
        }
        self.cpu = cpu;
    }

    /// Count `nr` units that were due and left out.
    pub fn units_left_out(&mut self, nr: u64) {
        if self.board.is_counting.0.load(Ordering::Relaxed) != 0 {
            add(&self.slot.units, nr);
        }
    }
}

/// One process writes a slot, so nothing is locked.
fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// What the processes of one role did together.
#[derive(Debug, Serialize)]
pub struct Role {
    /// What such a process is called.
    name: &'static str,
    /// What its unit of work is called.
    unit: &'static str,
    /// How many processes.
    nr_processes: usize,
    /// Units that ended in the span.
    units: u64,
    /// Of these, how many ended on another CPU than the one before.
    moves: u64,
}

/// What was found in a scenario.
#[derive(Debug, Serialize)]
pub struct Found {
    /// Which one.
    scenario: &'static str,
    /// CPUs that its loads are sized for.
    cpus: usize,
    /// Its roles; costs are for each unit of the first one.
    roles: Vec<Role>,
}

/// The processes of a scenario. They end with it.
#[derive(Debug)]
pub struct Crew {
    /// The timetable.
    pub session: Session,
    board: &'static Board,
    draws: Draws,
    /// Of each slot that is taken, its role.
    roles: Vec<(&'static str, &'static str)>,
    pids: Vec<Pid>,
}

impl Crew {
    /// None yet.
    pub fn new(session: &Session) -> Result<Self> {
        Ok(Self {
            session: session.clone(),
            board: Board::map()?,
            draws: session.draws(),
            roles: Vec::new(),
            pids: Vec::new(),
        })
    }

    /// CPUs that the loads are sized for.
    pub fn cpus(&self) -> usize {
        self.session.cpus
    }

    /// The start of a task that does something each `period_ns`: anywhere in the first
    /// one.
    pub fn start_ns(&mut self, period_ns: u64) -> u64 {
        self.session.t0_ns + self.draws.between(0, period_ns)
    }

    /// A counter for units called `unit` of a process called `name`.
    pub fn counter(&mut self, name: &'static str, unit: &'static str) -> Result<Counter> {
        let Some(slot) = self.board.slots.get(self.roles.len()) else {
            bail!("more than {NR_SLOTS_MAX} processes");
        };
        self.roles.push((name, unit));
        Ok(Counter {
            board: self.board,
            slot,
            cpu: -1,
        })
    }

    /// Run `body` in a new process until it is killed. It is to call
    /// [`Counter::ready`] once, and never to return.
    pub fn spawn(&mut self, name: &str, body: impl FnOnce() -> Result<()>) -> Result<()> {
        let parent = Pid::this();
        // SAFETY: this process has one thread; the child runs `body` and leaves by _exit.
        match unsafe { fork() }.context("forking")? {
            ForkResult::Parent { child } => self.pids.push(child),
            ForkResult::Child => {
                die_with_parent(parent);
                let _ = clock::set_timer_slack_1ns();
                set_name(name);
                system::lock_memory();
                if let Err(error) = body() {
                    eprintln!("scx_walkers: {name}: {error:#}");
                }
                // SAFETY: ends the child at once; nothing of it is needed.
                unsafe { libc::_exit(1) }
            }
        }
        Ok(())
    }

    /// A process of one role that does the same unit again and again.
    pub fn spawn_one(
        &mut self,
        name: &'static str,
        unit: &'static str,
        body: impl FnOnce(&mut Counter) -> Result<()>,
    ) -> Result<()> {
        let mut counter = self.counter(name, unit)?;
        self.spawn(name, || body(&mut counter))
    }

    /// Wait until all have what they need; an error if that takes longer than the
    /// timetable has.
    pub fn wait_until_ready(&self) -> Result<()> {
        let until_ns = now_ns() + READY_LIMIT_NS;
        let is_ready = || self.board.nr_ready.0.load(Ordering::Acquire) >= self.pids.len() as u32;
        while !is_ready() && now_ns() < until_ns {
            clock::sleep_ns(NSEC_PER_MSEC);
            self.check()?;
        }
        ensure!(is_ready(), "not all processes began");
        self.session.ensure_set_up()
    }

    /// Let the units that end count, or no longer.
    pub fn count(&self, is_counting: bool) {
        let word = u32::from(is_counting);
        self.board.is_counting.0.store(word, Ordering::Release);
    }

    /// What was counted; an error if a process has ended.
    pub fn found(&self, scenario: &'static str) -> Result<Found> {
        self.check()?;
        let mut roles: Vec<Role> = Vec::new();
        for (slot, &(name, unit)) in self.board.slots.iter().zip(&self.roles) {
            let units = slot.units.load(Ordering::Relaxed);
            let moves = slot.moves.load(Ordering::Relaxed);
            match roles.iter_mut().find(|role| role.name == name) {
                Some(role) => {
                    role.nr_processes += 1;
                    role.units += units;
                    role.moves += moves;
                }
                None => roles.push(Role {
                    name,
                    unit,
                    nr_processes: 1,
                    units,
                    moves,
                }),
            }
        }
        Ok(Found {
            scenario,
            cpus: self.cpus(),
            roles,
        })
    }

    fn check(&self) -> Result<()> {
        for &pid in &self.pids {
            let status = waitpid(pid, Some(WaitPidFlag::WNOHANG)).context("looking at children")?;
            ensure!(
                status == WaitStatus::StillAlive,
                "a process ended: {status:?}"
            );
        }
        Ok(())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for &pid in &self.pids {
            let _ = kill(pid, Signal::SIGKILL);
        }
        for &pid in &self.pids {
            let _ = waitpid(pid, None);
        }
    }
}

/// What schedulers see of the calling thread.
fn set_name(name: &str) {
    let Ok(name) = std::ffi::CString::new(name) else {
        return;
    };
    // SAFETY: the name is a C string, of which the kernel takes 15 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Begin a span of counting, which ends the one before.
pub fn begin_span(name: &'static str) {
    mark(MARK_BEGIN, name);
}

/// End it.
pub fn end_span() {
    mark(MARK_END, "");
}

/// The instruction at which the model begins or ends to count; to a processor it does
/// nothing.
fn mark(what: u64, name: &'static str) {
    let now_ns = now_ns();
    // SAFETY: it exchanges a register with itself.
    unsafe {
        asm!(
            "xchg bx, bx",
            in("rax") what,
            in("rdi") name.as_ptr(),
            in("rsi") name.len(),
            in("rdx") now_ns,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use scx_scenarios::session::Params;

    use super::*;

    fn crew() -> Crew {
        let params = Params {
            cpus: 2,
            seconds: None,
            seed: 1,
            inject_ns: 0,
            no_load: false,
            with_cost: false,
            fifo: false,
        };
        Crew::new(&Session::new(&params, Arc::default(), 0, 1.0)).unwrap()
    }

    #[test]
    fn what_ends_while_nothing_counts_is_not_counted() {
        let mut crew = crew();
        let mut walker = crew.counter("walker", "pass").unwrap();
        let mut other = crew.counter("walker", "pass").unwrap();
        let mut timer = crew.counter("timer", "run").unwrap();
        walker.unit();
        crew.count(true);
        (0..3).for_each(|_| walker.unit());
        other.unit();
        timer.units_left_out(7);
        crew.count(false);
        timer.unit();
        let found = crew.found("some").unwrap();
        let counted: Vec<_> = found
            .roles
            .iter()
            .map(|role| (role.name, role.nr_processes, role.units))
            .collect();
        assert_eq!(counted, [("walker", 2, 4), ("timer", 1, 7)]);
    }

    #[test]
    fn a_unit_that_ends_on_another_cpu_is_a_move() {
        let mut crew = crew();
        let mut walker = crew.counter("walker", "pass").unwrap();
        crew.count(true);
        walker.unit();
        walker.cpu = -1;
        walker.unit();
        let found = crew.found("some").unwrap();
        // The first one has no CPU before it: a move, unless it is made ready.
        assert!(found.roles[0].moves >= 2, "{found:?}");
        assert_eq!(found.roles[0].units, 2);
    }

    #[test]
    fn slots_share_no_line() {
        assert_eq!(size_of::<Slot>(), 128);
        assert_eq!(align_of::<Board>(), 128);
    }
}
