//! What the scheduler does so that no CPU is idle while a task is queued.

/// How `ops.enqueue()` raises the count of queued tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Publish {
    /// `__sync_fetch_and_add()` with its result used: a full barrier on every machine.
    FetchAdd,
    /// The same with its result ignored: `lock add` on x86, a relaxed `STADD` on arm64.
    Add,
    /// A plain store.
    Store,
}

/// What `ops.update_idle(cpu, true)` looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecondLook {
    /// Nothing.
    Off,
    /// What the queue holds, `scx_bpf_dsq_nr_queued()`.
    Queue,
    /// The count, which is raised before the kernel inserts.
    Count,
}

/// When `ops.enqueue()` arms the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arms {
    /// Never.
    Never,
    /// If it claimed a CPU, whose kick may be dropped.
    IfClaimed,
    /// If a CPU that the task may use is in the scheduler's own mask, claimed or not.
    IfOwn,
    /// Always.
    Always,
}

/// The steps of a protocol. Each may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Protocol {
    /// `ops.enqueue()` counts the task.
    pub publish: Publish,
    /// It does so before it looks for idle CPUs, not after.
    pub counts_first: bool,
    /// Then it claims an idle CPU of the kernel's mask and kicks it.
    pub claims: bool,
    /// If there is none, it kicks all CPUs of its own mask that the task may use.
    pub kicks_own: bool,
    /// It arms the timer.
    pub enqueue_arms: Arms,
    /// `ops.update_idle(cpu, true)` has a full barrier before it looks.
    pub idle_barrier: bool,
    /// If it sees a task there, it kicks its own CPU.
    pub second_look: SecondLook,
    /// It arms the timer if a task is counted.
    pub idle_arms: bool,
    /// The timer has a full barrier between the note that it is not armed and its look.
    pub timer_barrier: bool,
    /// It arms itself again while a task is counted and a CPU idle.
    pub timer_rearms: bool,
    /// `ops.dispatch()` on an idle CPU that finds nothing kicks its own CPU if that was claimed.
    pub claimed_look: bool,
    /// The same if a task is counted and in no queue yet, again and again.
    pub awaited_look: bool,
}

impl Protocol {
    /// What the scheduler does: both sides look once, a timer covers the rest.
    pub const TIMED: Self = Self {
        publish: Publish::FetchAdd,
        counts_first: true,
        claims: true,
        kicks_own: false,
        enqueue_arms: Arms::IfOwn,
        idle_barrier: true,
        second_look: SecondLook::Count,
        idle_arms: true,
        timer_barrier: true,
        timer_rearms: true,
        claimed_look: false,
        awaited_look: false,
    };

    /// No timer: an idle CPU looks until nothing is on its way. As it was before, but for the
    /// timers that limited how often it did so.
    pub const UNTIMED: Self = Self {
        enqueue_arms: Arms::Never,
        idle_arms: false,
        claimed_look: true,
        awaited_look: true,
        ..Self::TIMED
    };

    /// Whether the scheduler keeps its own mask of idle CPUs.
    pub fn has_own_mask(&self) -> bool {
        self.kicks_own || self.enqueue_arms == Arms::IfOwn
    }
}
