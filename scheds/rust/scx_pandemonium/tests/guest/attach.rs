// SPDX-License-Identifier: GPL-2.0
//! The scheduler attaches to machines of every size, from any directory, says what
//! it is, runs each task of a mixed load and goes.
//!
//! - `verified-insns`: how many instructions the verifier walked in all programs that
//!   are loaded.

use anyhow::Result;
use libbpf_rs::query::ProgInfoIter;
use scx_guest::Kernel;

use crate::constants;
use crate::idle::FAKE;
use crate::ours::OURS;

const SCRIPT: &str = "\
cd /root
begin
fact name $(cat /sys/kernel/sched_ext/root/ops)
fact constants $(agent rodata)
fact verified $(agent verified-insns)
load 1
fact masks $(grep -c 'interrupts set 0x' $LOG)
stop INT
";

/// What the name begins with; the build's target follows.
const NAME: &str = "pandemonium_6.0.0";

/// The longest that a worker may wait in a load of about six tasks for each
/// CPU: many rounds of the queue, far below a stall.
const GAP_MAX_MS: u64 = 250;

/// Instructions that the verifier may walk, which is most of what a start takes. They are
/// 78,000 to 81,000 on one domain and 97,000 to 108,000 on two; and 174,000 to 195,000
/// there if it walks the look at other domains anew for each state that comes to it.
const VERIFIED_MAX: u64 = 130_000;

/// The request of that name.
pub fn verified_insns() -> Result<String> {
    let walked = ProgInfoIter::default().map(|program| u64::from(program.verified_insns));
    Ok(walked.sum::<u64>().to_string())
}

fn attaches(kernel: &Kernel, topology: &str) -> Result<()> {
    let told = OURS.world(kernel, topology)?.run(SCRIPT)?;
    let name: String = told.one("name")?;
    told.always(name.starts_with(NAME), || {
        format!("the scheduler calls itself {name}")
    })?;
    constants::check_all_set(&told)?;
    told.check_eq("masks of interrupts found", told.one("masks")?, 1)?;
    let verified: u64 = told.one("verified")?;
    println!("the verifier walked {verified} instructions");
    told.always(verified <= VERIFIED_MAX, || {
        format!("the verifier walked {verified} instructions, more than {VERIFIED_MAX}")
    })?;
    told.check_load(GAP_MAX_MS)?;
    told.check_stops()
}

/// The kernel knows neither packages nor cores, as on boards whose firmware names none;
/// then it knows the cores of some CPUs.
const UNKNOWN_SCRIPT: &str = "\
mount --bind /tmp/cpus $CPUS
for cpu in 0 1 2 3; do
	fake cpu$cpu/topology/physical_package_id -1
	fake cpu$cpu/topology/core_id -1
done
begin
load 1
for cpu in 2 3; do
	fake cpu$cpu/topology/core_id 7
done
again
stop INT
grep ' CPUs, ' $LOG >/tmp/said
tell said /tmp/said
fact warned $(grep -c 'does not know all' $LOG)
";

figure!(
    schedules_where_the_kernel_knows_no_packages_or_cores,
    |kernel| {
        let world = OURS.world(kernel, "1x1x2x2")?;
        let told = world.run(&format!("{FAKE}{UNKNOWN_SCRIPT}"))?;
        let said: Vec<String> = told.all("said")?;
        println!("{said:?}");
        let smt: Vec<bool> = said.iter().map(|line| line.ends_with("SMT on")).collect();
        told.check_eq("SMT", smt, vec![false, true])?;
        told.check_eq("warnings", told.one("warned")?, 2)?;
        told.check_load(GAP_MAX_MS)
    }
);

// Machines of 2 and of 4 CPUs are those of most other tests.

figure!(schedules_on_1_cpu, [lts, oldest], |kernel| attaches(
    kernel, "1x1x1x1"
));

figure!(schedules_on_8_cpus, |kernel| attaches(kernel, "1x1x8x1"));

figure!(
    schedules_on_2_nodes_with_smt,
    [lts, oldest, newest],
    |kernel| attaches(kernel, "2x1x2x2")
);
