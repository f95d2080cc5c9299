//! The machine: CPUs, tasks, what may happen next, and the properties that hold.

use stateright::{Model, Property};

use crate::memory::{Ordering, Shared, Store, StoreBuffer, bits, has_bit, set_bit};
use crate::protocol::Protocol;

/// In which order `__scx_update_idle()` does its two things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpdateIdle {
    /// Linux 6.16 and later: the mask, then `ops.update_idle()`.
    MaskFirst,
    /// Before: `ops.update_idle()`, then the mask.
    CallbackFirst,
}

/// A machine, what happens on it, and what its scheduler does.
#[derive(Clone, Debug)]
pub struct Machine {
    /// How late stores are seen.
    pub ordering: Ordering,
    /// The kernel's version.
    pub update_idle: UpdateIdle,
    /// What the scheduler does.
    pub protocol: Protocol,
    /// Number of CPUs, at most 8.
    pub nr_cpus: u8,
    /// The CPUs that each task may use, a bit for each; at most 8 tasks.
    pub allowed: Vec<u8>,
    /// How often each task wakes.
    pub nr_wakeups: u8,
    /// What else happens.
    pub budget: Budget,
}

/// How often, in all, something happens that makes the machine busier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// A slice ends.
    pub slice_ends: u8,
    /// A task of a higher class, or a pinned one that goes straight to a local DSQ, gets a CPU
    /// without a claim.
    pub intruders: u8,
    /// A queued task is taken out and queued again, as a change of its nice level does.
    pub requeues: u8,
}

/// What a CPU runs, `rq->curr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Curr {
    /// The idle task.
    #[default]
    Idle,
    /// A task of ours.
    Task(u8),
    /// A task that ours have to wait for, see `Budget::intruders`.
    Intruder,
}

/// The next step of a CPU. All but `Open` run with interrupts off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// It runs `curr` with interrupts on.
    #[default]
    Open,

    // A wakeup, on any CPU. The wakee's runqueue is locked from `Enqueue` to `Insert`.
    /// `ops.select_cpu()` claimed this CPU: lock its runqueue, insert into its local DSQ.
    InsertLocal(u8, u8),
    /// Lock the task's runqueue; `ops.enqueue()` counts the task.
    Enqueue(u8),
    /// `ops.enqueue()` looks at the idle mask.
    LookForIdle(u8),
    /// `ops.enqueue()` looks at the own mask and arms the timer.
    ArmTimer(u8),
    /// `ops.enqueue()` has returned: the kernel inserts and unlocks.
    Insert(u8),
    /// The timer's callback looks at what is queued.
    TimerLook,
    /// It arms the timer again.
    RearmTimer,

    // `__schedule()`, with the CPU's runqueue locked but for `Move` and `Relock`.
    /// `balance_one()` calls `ops.dispatch()`, which reads the count.
    Dispatch,
    /// `scx_bpf_dsq_move_to_local()`; `true` if it is called again, see `awaited_look`.
    Pull(bool),
    /// `consume_remote_task()` has unlocked the own runqueue: take the task off its runqueue.
    Move(u8),
    /// Lock the own runqueue again, with the task unless a dequeue was faster.
    Relock(Option<u8>),
    /// `ops.dispatch()` found nothing; `true` if it looked twice.
    Nothing(bool),
    /// Set the bit in the idle mask.
    SetIdle,
    /// `ops.update_idle(cpu, true)` begins.
    UpdateIdle,
    /// `ops.update_idle(cpu, true)` looks at what is queued.
    SecondLook,
    /// `context_switch()` to the idle task.
    SwitchToIdle,
    /// `put_prev_task_idle()`: clear the bit in the idle mask, `ops.update_idle(cpu, false)`.
    LeaveIdle,
    /// `ops.running()` and `context_switch()`.
    SwitchToNext,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Cpu {
    pub(crate) curr: Curr,
    pub(crate) step: Step,
    /// What it switches to, once that is picked.
    pub(crate) next: Option<Curr>,
    /// `curr` is a task that did not go to sleep.
    pub(crate) keeps_prev: bool,
    /// `TIF_NEED_RESCHED` of `curr`.
    pub(crate) need_resched: bool,
    /// An intruder waits on the runqueue.
    pub(crate) has_intruder: bool,
    /// Tasks in the local DSQ.
    pub(crate) local: u8,
    /// `cpus_to_kick_if_idle`, for the interrupt that carries out the kicks.
    pub(crate) kicks: u8,
    /// `ops.dispatch()` saw a counted task that is in no queue.
    pub(crate) is_awaiting: bool,
    /// Stores that others do not see yet.
    pub(crate) buffer: StoreBuffer,
}

impl Cpu {
    /// `SCX_RQ_IN_BALANCE`
    pub(crate) fn in_balance(&self) -> bool {
        matches!(
            self.step,
            Step::Dispatch | Step::Pull(_) | Step::Move(_) | Step::Relock(_) | Step::Nothing(_)
        )
    }

    /// `can_skip_idle_kick()`
    pub(crate) fn skips_idle_kick(&self) -> bool {
        self.curr != Curr::Idle && !self.in_balance()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Task {
    pub(crate) is_asleep: bool,
    /// `task_cpu()`: whose runqueue it is on.
    pub(crate) cpu: u8,
    pub(crate) wakeups_left: u8,
    /// `holding_cpu`: the CPU that took it out of the queue to move it.
    pub(crate) mover: Option<u8>,
    /// It is in the count.
    pub(crate) is_counted: bool,
}

/// A state of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub(crate) shared: Shared,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Task>,
    /// The CPU that armed the timer.
    pub(crate) timer: Option<u8>,
    /// What may still happen.
    pub(crate) budget: Budget,
    /// How often the timer fired in a quiet state, since the last progress.
    pub(crate) nr_fires: u8,
    /// How often a CPU found nothing while the others rested, since then.
    pub(crate) nr_rounds: u8,
}

/// One step of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// On this CPU something wakes this task.
    Wake(u8, u8),
    /// What runs on this CPU, a task or the intruder, goes to sleep.
    Sleep(u8),
    /// The slice of what runs on this CPU ends.
    SliceEnds(u8),
    /// An intruder wakes on this CPU.
    IntruderWakes(u8),
    /// On this CPU something takes this queued task out and queues it again.
    Requeue(u8, u8),
    /// This CPU sees that it has to schedule.
    Schedule(u8),
    /// This CPU takes the step that it is at.
    Continue(u8),
    /// This CPU carries out its kicks.
    Kick(u8),
    /// A store of this CPU becomes visible.
    Drain(u8, usize),
    /// The timer fires.
    Fire,
}

impl Action {
    /// Return whether a CPU does this by itself. The rest comes from outside or from the timer.
    fn is_internal(self) -> bool {
        matches!(
            self,
            Action::Schedule(_) | Action::Continue(_) | Action::Kick(_) | Action::Drain(..)
        )
    }
}

/// A CPU that finds nothing so often while the others rest does not stop.
pub(crate) const MAX_ROUNDS: u8 = 8;
/// After so many fires of the timer no CPU is idle that a queued task may use.
const MAX_FIRES: u8 = 2;

impl Machine {
    /// A task was inserted, taken or begins to run, or something came from outside.
    pub(crate) fn note_progress(s: &mut State) {
        s.nr_fires = 0;
        s.nr_rounds = 0;
    }

    /// Return `action` with the step that it takes in state `s`.
    pub fn describe(&self, s: &State, action: Action) -> String {
        match action {
            Action::Continue(cpu) => format!("CPU {cpu}: {:?}", s.cpus[cpu as usize].step),
            _ => format!("{action:?}"),
        }
    }

    /// Return whether a CPU is idle while a task is in the queue that it may run.
    fn is_idle_in_vain(&self, s: &State) -> bool {
        let may_take =
            |cpu: u8| bits(s.shared.queued).any(|t| has_bit(self.allowed[t as usize], cpu));
        let mut cpus = s.cpus.iter().zip(0..);
        cpus.any(|(c, cpu)| c.curr == Curr::Idle && may_take(cpu))
    }

    /// Return whether nothing happens until something comes from outside or the timer fires.
    fn is_quiet(&self, s: &State) -> bool {
        let mut actions = Vec::new();
        self.actions(s, &mut actions);
        !actions.iter().any(|action| action.is_internal())
    }
}

impl Model for Machine {
    type State = State;
    type Action = Action;

    /// All CPUs are idle, all tasks sleep.
    fn init_states(&self) -> Vec<State> {
        let all = (1 << self.nr_cpus) - 1;
        let task = |(i, &allowed): (usize, &u8)| {
            // Not all on one CPU, if they may.
            let mut cpus = (i as u8..).map(|cpu| cpu % self.nr_cpus);
            Task {
                is_asleep: true,
                cpu: cpus.find(|&cpu| has_bit(allowed, cpu)).unwrap_or(0),
                wakeups_left: self.nr_wakeups,
                ..Task::default()
            }
        };
        vec![State {
            shared: Shared {
                idle: all,
                own: if self.protocol.has_own_mask() { all } else { 0 },
                ..Shared::default()
            },
            cpus: vec![Cpu::default(); self.nr_cpus as usize],
            tasks: self.allowed.iter().enumerate().map(task).collect(),
            budget: self.budget,
            ..State::default()
        }]
    }

    fn actions(&self, s: &State, actions: &mut Vec<Action>) {
        for (c, cpu) in s.cpus.iter().zip(0..) {
            let drainable = c.buffer.drainable(self.ordering);
            actions.extend(drainable.map(|i| Action::Drain(cpu, i)));
            if self.can_continue(s, cpu) {
                actions.push(Action::Continue(cpu));
            }
            let is_free = |rq| !has_bit(s.shared.locked, rq);
            if s.budget.intruders > 0 && !c.has_intruder && c.curr != Curr::Intruder && is_free(cpu)
            {
                actions.push(Action::IntruderWakes(cpu));
            }
            if c.step != Step::Open {
                continue;
            }
            if bits(c.kicks).next().is_some_and(is_free) {
                actions.push(Action::Kick(cpu));
            }
            for (t, task) in s.tasks.iter().zip(0..) {
                if t.is_asleep && t.wakeups_left > 0 {
                    actions.push(Action::Wake(cpu, task));
                }
                let is_out = has_bit(s.shared.queued, task) || t.mover.is_some();
                if s.budget.requeues > 0 && is_out && is_free(t.cpu) {
                    actions.push(Action::Requeue(cpu, task));
                }
            }
            if s.timer == Some(cpu) {
                actions.push(Action::Fire);
            }
            if !is_free(cpu) {
                continue;
            }
            if c.need_resched {
                actions.push(Action::Schedule(cpu));
            }
            if c.curr != Curr::Idle {
                actions.push(Action::Sleep(cpu));
            }
            if s.budget.slice_ends > 0 && matches!(c.curr, Curr::Task(_)) {
                actions.push(Action::SliceEnds(cpu));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut s = last.clone();
        if !action.is_internal() && action != Action::Fire {
            Self::note_progress(&mut s);
        }
        match action {
            Action::Wake(cpu, task) => self.wake(&mut s, cpu, task),
            Action::Sleep(cpu) => {
                if let Curr::Task(task) = s.cpus[cpu as usize].curr {
                    s.tasks[task as usize].is_asleep = true;
                }
                self.schedule(&mut s, cpu, false, false);
            }
            Action::SliceEnds(cpu) => {
                s.budget.slice_ends -= 1;
                self.schedule(&mut s, cpu, true, false);
            }
            Action::IntruderWakes(cpu) => {
                s.budget.intruders -= 1;
                s.cpus[cpu as usize].has_intruder = true;
                s.cpus[cpu as usize].need_resched = true;
            }
            Action::Requeue(cpu, task) => {
                // dispatch_dequeue(): whoever is moving it loses it.
                s.budget.requeues -= 1;
                set_bit(&mut s.shared.queued, task, false);
                s.tasks[task as usize].mover = None;
                s.cpus[cpu as usize].step = Step::Enqueue(task);
            }
            Action::Schedule(cpu) => {
                let keeps_prev = matches!(s.cpus[cpu as usize].curr, Curr::Task(_));
                self.schedule(&mut s, cpu, keeps_prev, true);
            }
            Action::Continue(cpu) => self.take_step(&mut s, cpu),
            Action::Kick(cpu) => {
                let target = bits(s.cpus[cpu as usize].kicks).next()?;
                self.carry_out_kick(&mut s, cpu, target);
            }
            Action::Drain(cpu, index) => {
                let State { shared, cpus, .. } = &mut s;
                cpus[cpu as usize].buffer.drain(shared, index);
            }
            Action::Fire => {
                let cpu = s.timer.take()?;
                if self.is_quiet(last) {
                    s.nr_fires = (s.nr_fires + 1).min(MAX_FIRES);
                }
                self.plain(&mut s, cpu, Store::Disarm);
                if self.protocol.timer_barrier {
                    self.barrier(&mut s, cpu);
                }
                s.cpus[cpu as usize].step = Step::TimerLook;
            }
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NO_TASK_LOST, |m: &Self, s: &State| {
                let fires = s.timer.is_some() && s.nr_fires < MAX_FIRES;
                fires || !m.is_idle_in_vain(s) || !m.is_quiet(s)
            }),
            Property::always(NO_TASK_LATE, |m: &Self, s: &State| {
                !m.is_idle_in_vain(s) || !m.is_quiet(s)
            }),
            Property::always(NO_SPINNING, |_, s: &State| s.nr_rounds < MAX_ROUNDS),
        ]
    }
}

/// No CPU is idle for good while a task is queued that it may run.
pub const NO_TASK_LOST: &str = "no task is lost";
/// Not even until the timer fires.
pub const NO_TASK_LATE: &str = "no task is late";
/// No CPU goes on to look for tasks in vain.
pub const NO_SPINNING: &str = "no CPU spins";
