//! Shared memory in which the stores of a CPU become visible late.

use std::mem::discriminant;

/// What the other CPUs may see late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ordering {
    /// Nothing: each store is visible at once.
    SequentiallyConsistent,
    /// x86: plain stores, in their order. Each atomic operation is a full barrier.
    Tso,
    /// arm64: stores in any order, and atomic operations without a result (`STADD`, `STSET`) too.
    /// Only the release of a lock waits for what was stored before.
    Weak,
}

/// A store, or an atomic operation whose result nobody uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// Add to the count of queued tasks.
    Count(i8),
    /// Set or clear the bit of a CPU in the kernel's idle mask.
    Idle(u8, bool),
    /// The same in the scheduler's own mask.
    Own(u8, bool),
    /// Note that the timer is not armed.
    Disarm,
    /// Link a task into the queue.
    Insert(u8),
    /// Release the runqueue lock of a CPU.
    Unlock(u8),
}

/// What all CPUs share. Masks have a bit for each CPU or task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shared {
    /// Tasks that are queued or about to be, and not running yet.
    pub count: u8,
    /// The kernel's mask of idle CPUs.
    pub idle: u8,
    /// The scheduler's: from `ops.update_idle(cpu, true)` to `ops.update_idle(cpu, false)`.
    pub own: u8,
    /// Whether the timer is armed, as far as the scheduler knows.
    pub is_armed: bool,
    /// Tasks in the queue, a user DSQ.
    pub queued: u8,
    /// CPUs whose runqueue lock is held.
    pub locked: u8,
}

impl Shared {
    fn apply(&mut self, store: Store) {
        match store {
            Store::Count(n) => self.count = self.count.wrapping_add_signed(n),
            Store::Idle(cpu, is_set) => set_bit(&mut self.idle, cpu, is_set),
            Store::Own(cpu, is_set) => set_bit(&mut self.own, cpu, is_set),
            Store::Disarm => self.is_armed = false,
            Store::Insert(task) => set_bit(&mut self.queued, task, true),
            Store::Unlock(cpu) => set_bit(&mut self.locked, cpu, false),
        }
    }
}

/// The stores of one CPU that the others do not see yet, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoreBuffer(Vec<Store>);

impl StoreBuffer {
    /// Whether all that this CPU stored is visible.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Shared memory as this CPU sees it: with its own stores.
    pub fn view(&self, shared: &Shared) -> Shared {
        let mut view = *shared;
        self.0.iter().for_each(|&store| view.apply(store));
        view
    }

    /// Do an atomic operation without a result.
    pub fn atomic(&mut self, ordering: Ordering, shared: &mut Shared, store: Store) {
        self.0.push(store);
        if ordering != Ordering::Weak {
            self.barrier(shared);
        }
    }

    /// Do a plain store, or the release of a lock.
    pub fn plain(&mut self, ordering: Ordering, shared: &mut Shared, store: Store) {
        // An unlock that waits for nothing is done at once: later would only hold the lock longer.
        let is_ready = self.is_empty() && matches!(store, Store::Unlock(_));
        self.0.push(store);
        if is_ready || ordering == Ordering::SequentiallyConsistent {
            self.barrier(shared);
        }
    }

    /// A full barrier, or an atomic operation with a result: all that was stored is visible.
    pub fn barrier(&mut self, shared: &mut Shared) {
        self.0.drain(..).for_each(|store| shared.apply(store));
    }

    /// The stores that may become visible next, by index.
    pub fn drainable(&self, ordering: Ordering) -> impl Iterator<Item = usize> + '_ {
        (0..self.0.len()).filter(move |&i| {
            let (store, mut older) = (self.0[i], self.0[..i].iter());
            if ordering == Ordering::Weak && !matches!(store, Store::Unlock(_)) {
                // Stores to one location stay in order.
                older.all(|o| discriminant(o) != discriminant(&store))
            } else {
                i == 0
            }
        })
    }

    /// Let store `index` become visible.
    pub fn drain(&mut self, shared: &mut Shared, index: usize) {
        shared.apply(self.0.remove(index));
    }
}

/// Whether `bit` of `mask` is set.
pub fn has_bit(mask: u8, bit: u8) -> bool {
    mask >> bit & 1 == 1
}

/// Set or clear `bit` of `mask`.
pub fn set_bit(mask: &mut u8, bit: u8, is_set: bool) {
    *mask = *mask & !(1 << bit) | u8::from(is_set) << bit;
}

/// The bits of `mask`, lowest first.
pub fn bits(mask: u8) -> impl Iterator<Item = u8> {
    (0..8).filter(move |&bit| has_bit(mask, bit))
}
