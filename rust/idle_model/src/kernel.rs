//! The steps of the kernel: wakeup, kick, schedule.

use crate::machine::{Curr, MAX_ROUNDS, Machine, State, Step, UpdateIdle};
use crate::memory::{Ordering, Shared, Store, bits, has_bit, set_bit};

impl Machine {
    pub(crate) fn atomic(&self, s: &mut State, cpu: u8, store: Store) {
        let buffer = &mut s.cpus[cpu as usize].buffer;
        buffer.atomic(self.ordering, &mut s.shared, store);
    }

    pub(crate) fn plain(&self, s: &mut State, cpu: u8, store: Store) {
        let buffer = &mut s.cpus[cpu as usize].buffer;
        buffer.plain(self.ordering, &mut s.shared, store);
    }

    /// A full barrier on `cpu`.
    pub(crate) fn barrier(&self, s: &mut State, cpu: u8) {
        s.cpus[cpu as usize].buffer.barrier(&mut s.shared);
    }

    pub(crate) fn view(s: &State, cpu: u8) -> Shared {
        s.cpus[cpu as usize].buffer.view(&s.shared)
    }

    /// `raw_spin_rq_lock()` of `rq` by `cpu`: a full barrier on x86 only.
    pub(crate) fn lock(&self, s: &mut State, cpu: u8, rq: u8) {
        debug_assert!(!has_bit(s.shared.locked, rq));
        set_bit(&mut s.shared.locked, rq, true);
        if self.ordering != Ordering::Weak {
            self.barrier(s, cpu);
        }
    }

    pub(crate) fn unlock(&self, s: &mut State, cpu: u8, rq: u8) {
        self.plain(s, cpu, Store::Unlock(rq));
    }

    /// `scx_bpf_test_and_clear_cpu_idle()` by `cpu`, for the first one that it sees idle of those
    /// that `task` may use.
    pub(crate) fn claim(&self, s: &mut State, cpu: u8, task: u8) -> Option<u8> {
        // The bit is read first. Only if that is set an atomic operation follows, a full barrier.
        let among = Self::view(s, cpu).idle & self.allowed[task as usize];
        let target = bits(among).next()?;
        self.barrier(s, cpu);
        let was_set = has_bit(s.shared.idle, target);
        set_bit(&mut s.shared.idle, target, false);
        was_set.then_some(target)
    }

    /// `scx_bpf_kick_cpu(target, SCX_KICK_IDLE)`: dropped at once if the lock says that it may be.
    pub(crate) fn kick(&self, s: &mut State, cpu: u8, target: u8) {
        let is_locked = has_bit(s.shared.locked, target);
        if is_locked || !s.cpus[target as usize].skips_idle_kick() {
            s.cpus[cpu as usize].kicks |= 1 << target;
        }
    }

    /// The interrupt after that, `kick_one_cpu_if_idle()`.
    pub(crate) fn carry_out_kick(&self, s: &mut State, cpu: u8, target: u8) {
        self.lock(s, cpu, target);
        s.cpus[cpu as usize].kicks &= !(1 << target);
        if !s.cpus[target as usize].skips_idle_kick() {
            s.cpus[target as usize].need_resched = true;
        }
        self.unlock(s, cpu, target);
    }

    /// Wake `task` on `cpu`: `ops.select_cpu()`, which is not asked for a pinned task.
    pub(crate) fn wake(&self, s: &mut State, cpu: u8, task: u8) {
        let t = &mut s.tasks[task as usize];
        t.is_asleep = false;
        t.wakeups_left -= 1;
        let is_pinned = self.allowed[task as usize].count_ones() == 1;
        let claimed = if is_pinned {
            None
        } else {
            self.claim(s, cpu, task)
        };
        s.cpus[cpu as usize].step = match claimed {
            Some(target) => Step::InsertLocal(task, target),
            None => Step::Enqueue(task),
        };
    }

    /// `__schedule()` begins on `cpu`. What runs there goes on if it `has_slice`.
    pub(crate) fn schedule(&self, s: &mut State, cpu: u8, keeps_prev: bool, has_slice: bool) {
        self.lock(s, cpu, cpu);
        // smp_mb__after_spinlock()
        self.barrier(s, cpu);
        let c = &mut s.cpus[cpu as usize];
        c.keeps_prev = keeps_prev;
        if !c.has_intruder && keeps_prev && has_slice {
            self.resume(s, cpu);
        } else if c.has_intruder || c.local != 0 {
            self.pick(s, cpu);
        } else {
            c.step = Step::Dispatch;
        }
    }

    /// Leave `__schedule()` to run `curr`. `clear_tsk_need_resched()` forgets what came meanwhile.
    pub(crate) fn resume(&self, s: &mut State, cpu: u8) {
        let c = &mut s.cpus[cpu as usize];
        c.need_resched = c.has_intruder;
        c.keeps_prev = false;
        c.step = Step::Open;
        self.unlock(s, cpu, cpu);
    }

    /// Pick the intruder, or the first task of the local DSQ, and put the previous one.
    pub(crate) fn pick(&self, s: &mut State, cpu: u8) {
        let c = &mut s.cpus[cpu as usize];
        c.next = if c.has_intruder {
            Some(Curr::Intruder)
        } else {
            bits(c.local).next().map(Curr::Task)
        };
        c.step = match c.curr {
            Curr::Idle => Step::LeaveIdle,
            // put_prev_task_scx() calls ops.enqueue(): after ops.dispatch(), with the lock held.
            Curr::Task(prev) if c.keeps_prev => Step::Enqueue(prev),
            _ => Step::SwitchToNext,
        };
    }

    /// Return whether all CPUs but `cpu` rest.
    pub(crate) fn is_alone(s: &State, cpu: u8) -> bool {
        s.cpus.iter().enumerate().all(|(i, c)| {
            i == cpu as usize
                || (c.step == Step::Open && !c.need_resched && c.kicks == 0 && c.buffer.is_empty())
        })
    }

    /// Return whether `cpu` can take its step. It may have to wait for a lock.
    pub(crate) fn can_continue(&self, s: &State, cpu: u8) -> bool {
        let needs = match s.cpus[cpu as usize].step {
            Step::Open => return false,
            Step::InsertLocal(_, target) => target,
            Step::Enqueue(task) if s.cpus[cpu as usize].next.is_none() => {
                s.tasks[task as usize].cpu
            }
            Step::Move(task) => s.tasks[task as usize].cpu,
            Step::Relock(_) => cpu,
            _ => return true,
        };
        !has_bit(s.shared.locked, needs)
    }

    /// `cpu` takes the step that it is at.
    pub(crate) fn take_step(&self, s: &mut State, cpu: u8) {
        let protocol = &self.protocol;
        let i = cpu as usize;
        let step = s.cpus[i].step;
        let was_idle = s.cpus[i].curr == Curr::Idle;
        s.cpus[i].step = match step {
            Step::Open => Step::Open,

            Step::InsertLocal(task, target) => {
                self.lock(s, cpu, target);
                s.tasks[task as usize].cpu = target;
                let t = &mut s.cpus[target as usize];
                t.local |= 1 << task;
                // local_dsq_post_enq(), wakeup_preempt()
                if t.curr == Curr::Idle && !t.in_balance() {
                    t.need_resched = true;
                }
                self.unlock(s, cpu, target);
                Step::Open
            }
            Step::Enqueue(task) => {
                if s.cpus[i].next.is_none() {
                    self.lock(s, cpu, s.tasks[task as usize].cpu);
                }
                if protocol.counts_first {
                    self.count(s, cpu, task);
                }
                Step::LookForIdle(task)
            }
            Step::LookForIdle(task) => {
                self.look_for_idle(s, cpu, task);
                Step::ArmTimer(task)
            }
            Step::ArmTimer(task) => {
                self.arm_for(s, cpu, task);
                Step::Insert(task)
            }
            Step::Insert(task) => {
                if !protocol.counts_first {
                    self.count(s, cpu, task);
                }
                // dispatch_enqueue() takes the lock of the queue, a full barrier on x86.
                if self.ordering != Ordering::Weak {
                    self.barrier(s, cpu);
                }
                self.plain(s, cpu, Store::Insert(task));
                Self::note_progress(s);
                if s.cpus[i].next.is_some() {
                    Step::SwitchToNext
                } else {
                    self.unlock(s, cpu, s.tasks[task as usize].cpu);
                    Step::Open
                }
            }
            Step::TimerLook => {
                self.look_by_timer(s, cpu);
                Step::RearmTimer
            }
            Step::RearmTimer => {
                self.rearm(s, cpu);
                Step::Open
            }

            Step::Dispatch if Self::view(s, cpu).count == 0 => Step::Nothing(false),
            Step::Dispatch => Step::Pull(false),
            Step::Pull(is_second) => {
                let mut queued = bits(Self::view(s, cpu).queued);
                let task = queued.find(|&t| has_bit(self.allowed[t as usize], cpu));
                let Some(task) = task else {
                    s.cpus[i].step = Step::Nothing(is_second);
                    return;
                };
                self.barrier(s, cpu);
                set_bit(&mut s.shared.queued, task, false);
                s.cpus[i].is_awaiting = false;
                Self::note_progress(s);
                if s.tasks[task as usize].cpu == cpu {
                    s.cpus[i].local |= 1 << task;
                    return self.pick(s, cpu);
                }
                s.tasks[task as usize].mover = Some(cpu);
                self.unlock(s, cpu, cpu);
                Step::Move(task)
            }
            Step::Move(task) => {
                // deactivate_task() under the other lock, which is free again at once.
                let t = &mut s.tasks[task as usize];
                let is_mine = t.mover == Some(cpu);
                if is_mine {
                    (t.mover, t.cpu) = (None, cpu);
                }
                Step::Relock(is_mine.then_some(task))
            }
            Step::Relock(None) => {
                self.lock(s, cpu, cpu);
                Step::Pull(false)
            }
            Step::Relock(Some(task)) => {
                self.lock(s, cpu, cpu);
                s.cpus[i].local |= 1 << task;
                return self.pick(s, cpu);
            }
            Step::Nothing(is_second) => {
                if s.cpus[i].keeps_prev {
                    return self.resume(s, cpu);
                }
                let nr_rounds = (s.nr_rounds + 1).min(MAX_ROUNDS);
                s.nr_rounds = if Self::is_alone(s, cpu) { nr_rounds } else { 0 };
                if self.find_nothing(s, cpu, is_second) {
                    Step::Pull(true)
                } else if !was_idle && self.update_idle == UpdateIdle::CallbackFirst {
                    Step::UpdateIdle
                } else {
                    Step::SetIdle
                }
            }
            Step::SetIdle => {
                self.atomic(s, cpu, Store::Idle(cpu, true));
                // From idle to idle ops.update_idle() is not called.
                if was_idle || self.update_idle == UpdateIdle::CallbackFirst {
                    Step::SwitchToIdle
                } else {
                    Step::UpdateIdle
                }
            }
            Step::UpdateIdle => {
                if protocol.has_own_mask() {
                    self.atomic(s, cpu, Store::Own(cpu, true));
                }
                if protocol.idle_barrier {
                    self.barrier(s, cpu);
                }
                Step::SecondLook
            }
            Step::SecondLook => {
                self.look_again(s, cpu);
                match self.update_idle {
                    UpdateIdle::MaskFirst => Step::SwitchToIdle,
                    UpdateIdle::CallbackFirst => Step::SetIdle,
                }
            }
            Step::SwitchToIdle => {
                s.cpus[i].curr = Curr::Idle;
                return self.resume(s, cpu);
            }
            Step::LeaveIdle => {
                self.atomic(s, cpu, Store::Idle(cpu, false));
                if protocol.has_own_mask() {
                    self.atomic(s, cpu, Store::Own(cpu, false));
                }
                Step::SwitchToNext
            }
            Step::SwitchToNext => return self.switch(s, cpu),
        };
    }

    /// `ops.running()` and `context_switch()`
    pub(crate) fn switch(&self, s: &mut State, cpu: u8) {
        let c = &mut s.cpus[cpu as usize];
        let Some(next) = c.next.take() else { return };
        c.curr = next;
        match next {
            Curr::Task(task) => {
                c.local &= !(1 << task);
                self.uncount(s, cpu, task);
            }
            _ => c.has_intruder = false,
        }
        Self::note_progress(s);
        self.resume(s, cpu);
    }
}
