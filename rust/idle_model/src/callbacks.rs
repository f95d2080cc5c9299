//! What our callbacks do, as the protocol says.

use crate::machine::{Curr, Machine, State};
use crate::memory::{Store, bits, has_bit};
use crate::protocol::{Arms, Publish, SecondLook};

impl Machine {
    /// `ops.enqueue()` counts `task`.
    pub(crate) fn count(&self, s: &mut State, cpu: u8, task: u8) {
        self.uncount(s, cpu, task);
        s.tasks[task as usize].is_counted = true;
        match self.protocol.publish {
            Publish::FetchAdd => {
                self.barrier(s, cpu);
                s.shared.count += 1;
            }
            Publish::Add => self.atomic(s, cpu, Store::Count(1)),
            Publish::Store => self.plain(s, cpu, Store::Count(1)),
        }
    }

    /// `task` waits in no queue any more.
    pub(crate) fn uncount(&self, s: &mut State, cpu: u8, task: u8) {
        if std::mem::take(&mut s.tasks[task as usize].is_counted) {
            self.atomic(s, cpu, Store::Count(-1));
        }
    }

    /// `ops.enqueue()` looks for an idle CPU for `task`.
    pub(crate) fn look_for_idle(&self, s: &mut State, cpu: u8, task: u8) {
        let claims = self.protocol.claims;
        let claimed = if claims {
            self.claim(s, cpu, task)
        } else {
            None
        };
        let own = Self::view(s, cpu).own & self.allowed[task as usize];
        if let Some(target) = claimed {
            self.kick(s, cpu, target);
        } else if self.protocol.kicks_own {
            for target in bits(own) {
                self.kick(s, cpu, target);
            }
        }
        if claimed.is_some() && self.protocol.enqueue_arms == Arms::IfClaimed {
            self.arm(s, cpu);
        }
    }

    /// `ops.enqueue()` arms the timer for `task`, whatever it claimed.
    pub(crate) fn arm_for(&self, s: &mut State, cpu: u8, task: u8) {
        let own = Self::view(s, cpu).own & self.allowed[task as usize];
        let arms = self.protocol.enqueue_arms;
        if arms == Arms::Always || arms == Arms::IfOwn && own != 0 {
            self.arm(s, cpu);
        }
    }

    /// `ops.dispatch()` found nothing on `cpu`. Return whether it looks once more.
    pub(crate) fn find_nothing(&self, s: &mut State, cpu: u8, is_second: bool) -> bool {
        let view = Self::view(s, cpu);
        let c = &mut s.cpus[cpu as usize];
        let was_idle = c.curr == Curr::Idle;
        if self.protocol.awaited_look && was_idle && !is_second && view.count > 0 {
            c.is_awaiting = view.count > view.queued.count_ones() as u8;
            return true;
        }
        let is_claimed = self.protocol.claimed_look && !has_bit(view.idle, cpu);
        if was_idle && (is_claimed || c.is_awaiting) {
            self.kick(s, cpu, cpu);
        }
        s.cpus[cpu as usize].is_awaiting = false;
        false
    }

    /// `ops.update_idle(cpu, true)` looks at what is queued.
    pub(crate) fn look_again(&self, s: &mut State, cpu: u8) {
        let view = Self::view(s, cpu);
        let sees_task = match self.protocol.second_look {
            SecondLook::Off => false,
            SecondLook::Queue => view.queued != 0,
            SecondLook::Count => view.count > 0,
        };
        if sees_task {
            self.kick(s, cpu, cpu);
        }
        if self.protocol.idle_arms && view.count > 0 {
            self.arm(s, cpu);
        }
    }

    /// The timer wakes an idle CPU for each queued task.
    pub(crate) fn look_by_timer(&self, s: &mut State, cpu: u8) {
        for task in bits(Self::view(s, cpu).queued) {
            if let Some(target) = self.claim(s, cpu, task) {
                self.kick(s, cpu, target);
            }
        }
    }

    /// The timer arms itself again while there is need.
    pub(crate) fn rearm(&self, s: &mut State, cpu: u8) {
        let view = Self::view(s, cpu);
        let has_idle = !self.protocol.has_own_mask() || view.own != 0;
        if self.protocol.timer_rearms && view.count > 0 && has_idle {
            self.arm(s, cpu);
        }
    }

    /// Arm the timer on `cpu`, unless it is. `bpf_timer_start()` is behind a lock of its own.
    pub(crate) fn arm(&self, s: &mut State, cpu: u8) {
        if !Self::view(s, cpu).is_armed {
            s.shared.is_armed = true;
            s.timer = Some(cpu);
        }
    }
}
