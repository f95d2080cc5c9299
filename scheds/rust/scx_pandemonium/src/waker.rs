//! Which bits of the kernel's `preempt_count` an interrupt sets, from samples.
//!
//! The BPF half samples the count in a task, in hardirqs and in softirqs
//! (`src/bpf/place.bpf.c`); what follows from the samples is pure.
//!
//! Not here: how the samples are taken (scheduler).

/// What is lost where the bits cannot be found.
pub const UNKNOWN: &str = "this kernel does not show whether a task or an interrupt wakes a \
     task: every wakeup counts as that of an interrupt, and tasks that wake each other, as through \
     a pipe, do not hand their CPU over";

/// The bits that were set in samples of `preempt_count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Samples {
    /// In any sample of a task.
    pub task: u32,
    /// In all samples of hardirqs; all bits before the first.
    pub hardirq: u32,
    /// In all samples of softirqs; all bits before the first.
    pub softirq: u32,
}

impl Samples {
    /// The bit of hardirqs and the bit of softirqs, in one mask. `None` as long as the
    /// samples leave a doubt: a kind of interrupt has no bit of its own, or several.
    pub fn irq_mask(self) -> Option<u32> {
        let hardirq = self.hardirq & !self.softirq & !self.task;
        let softirq = self.softirq & !self.hardirq & !self.task;
        let is_found = hardirq.is_power_of_two() && softirq.is_power_of_two();
        is_found.then_some(hardirq | softirq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// x86 sets it while no task is to be preempted.
    const NO_RESCHED: u32 = 1 << 31;
    const PREEMPT: u32 = 1;
    const SOFTIRQ: u32 = 1 << 8;

    fn samples(task: u32, hardirq: u32, softirq: u32) -> Samples {
        Samples {
            task,
            hardirq,
            softirq,
        }
    }

    #[test]
    fn the_bit_of_each_interrupt_is_found_wherever_it_is() {
        for hardirq in [1 << 16, 1 << 24, 1 << 20] {
            let found = samples(
                NO_RESCHED,
                NO_RESCHED | hardirq | PREEMPT,
                NO_RESCHED | SOFTIRQ | PREEMPT,
            );
            assert_eq!(found.irq_mask(), Some(hardirq | SOFTIRQ));
        }
    }

    #[test]
    fn nothing_is_guessed_without_a_sample_of_each() {
        let (none, hardirq) = (u32::MAX, 1 << 16);
        for doubtful in [
            samples(0, none, none),
            samples(0, none, SOFTIRQ),
            samples(0, hardirq, none),
            // The count was not found in this kernel.
            samples(0, 0, 0),
        ] {
            assert_eq!(doubtful.irq_mask(), None, "{doubtful:?}");
        }
    }

    /// How often preemption was disabled is part of the count, and differs.
    #[test]
    fn a_level_of_one_kind_alone_is_a_doubt_until_it_has_varied() {
        assert_eq!(samples(0, 1 << 16, SOFTIRQ | PREEMPT).irq_mask(), None);
        assert_eq!(samples(0, 1 << 16 | 2, SOFTIRQ | PREEMPT).irq_mask(), None);
        let both = samples(0, 1 << 16 | PREEMPT, SOFTIRQ | PREEMPT);
        assert_eq!(both.irq_mask(), Some(1 << 16 | SOFTIRQ));
        assert_eq!(samples(0, 1 << 16, SOFTIRQ).irq_mask(), both.irq_mask());
    }

    #[test]
    fn two_bits_of_one_interrupt_are_a_doubt() {
        let hardirq = 1 << 16 | 1 << 24;
        assert_eq!(samples(0, hardirq, SOFTIRQ).irq_mask(), None);
        // A hardirq within a softirq, only once.
        assert_eq!(samples(0, 1 << 16 | SOFTIRQ, SOFTIRQ).irq_mask(), None);
    }
}
