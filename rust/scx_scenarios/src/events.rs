// SPDX-License-Identifier: GPL-2.0
//! What the kernel counts about a sched_ext scheduler's unusual moments.
//!
//! Since Linux 6.15 `events` below the scheduler's directory in sysfs counts
//! them: tasks that went to a CPU which cannot run them, slices that ran out
//! with nobody else to run, tasks that never saw the scheduler. Where there is
//! no such file, or no scheduler, there are no events.

use std::collections::BTreeMap;
use std::fs;

const EVENTS: &str = "/sys/kernel/sched_ext/root/events";
/// What every name begins with.
const PREFIX: &str = "SCX_EV_";

/// Events since the scheduler was enabled, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Events {
    by_name: BTreeMap<String, u64>,
}

impl Events {
    /// Read them now.
    pub fn read() -> Self {
        Self::parse(&fs::read_to_string(EVENTS).unwrap_or_default())
    }

    /// The events between `earlier` and `self` that happened at all, by name.
    pub fn since(&self, earlier: &Self) -> Vec<(String, u64)> {
        let increase = |(name, &count): (&String, &u64)| {
            let before = earlier.by_name.get(name).copied().unwrap_or(0);
            (name.clone(), count.saturating_sub(before))
        };
        self.by_name
            .iter()
            .map(increase)
            .filter(|&(_, count)| count > 0)
            .collect()
    }

    fn parse(text: &str) -> Self {
        let parse_line = |line: &str| {
            let (name, count) = line.split_once(' ')?;
            let name = name.strip_prefix(PREFIX)?.to_ascii_lowercase();
            Some((name, count.trim().parse().ok()?))
        };
        Self {
            by_name: text.lines().filter_map(parse_line).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_increase_of_each_event_is_told_by_its_short_name() {
        let before = Events::parse("SCX_EV_SELECT_CPU_FALLBACK 3\nSCX_EV_DISPATCH_KEEP_LAST 7\n");
        let after = Events::parse(
            "SCX_EV_SELECT_CPU_FALLBACK 3\nSCX_EV_DISPATCH_KEEP_LAST 9\nSCX_EV_BYPASS_ACTIVATE 1\n",
        );
        let expected = [
            ("bypass_activate".to_string(), 1),
            ("dispatch_keep_last".to_string(), 2),
        ];
        assert_eq!(after.since(&before), expected);
    }

    #[test]
    fn a_kernel_without_events_has_none() {
        assert_eq!(Events::parse(""), Events::default());
        assert_eq!(Events::parse("garbage\n"), Events::default());
    }
}
