// SPDX-License-Identifier: GPL-2.0
//! `scx_pandemonium check` finds nothing on a machine that schedules, and each cause
//! for which one does not.

use crate::ours::OURS;

/// A look as root, one beside the scheduler, one as another user.
const SCRIPT: &str = "\
check() {
	\"$@\" >/tmp/out 2>/tmp/err
	fact code $?
	fact problems $(grep -c ^problem /tmp/out)
	fact scheduler $(grep scheduler /tmp/out)
}
check \"$SCHEDULER\" check
begin
check \"$SCHEDULER\" check
stop INT
check su -s /bin/sh nobody -c \"$SCHEDULER check\"
fact permission $(grep permission /tmp/out)
";

invariant!(
    a_machine_that_schedules_has_no_problem_and_a_user_has_one,
    |kernel| {
        let told = OURS.flat(kernel, 2)?.run(SCRIPT)?;
        told.check_eq("exit codes", told.all::<i32>("code")?, vec![0, 0, 1])?;
        told.check_eq("problems", told.all::<u32>("problems")?, vec![0, 0, 1])?;
        let schedulers: Vec<String> = told.all("scheduler")?;
        println!("{schedulers:?}");
        told.check(schedulers[0].contains("none"), || schedulers[0].clone())?;
        told.check(schedulers[1].contains("pandemonium_6"), || {
            schedulers[1].clone()
        })?;
        let permission: String = told.one("permission")?;
        told.check(permission.contains("sudo"), || permission.clone())?;
        told.check_stops()
    }
);

/// A kernel that refuses.
const REFUSED_SCRIPT: &str = "\
\"$SCHEDULER\" check >/tmp/out 2>/tmp/err
fact code $?
fact problem $(grep ^problem /tmp/out)
fact error $(cat /tmp/err)
";

invariant!(
    isolated_cpus_are_found_before_the_kernel_refuses,
    |kernel| {
        let world = OURS.flat(kernel, 2)?;
        let told = world.with_kernel_word("isolcpus=1").run(REFUSED_SCRIPT)?;
        told.check_eq("exit code", told.one("code")?, 1)?;
        let problem: String = told.one("problem")?;
        let error: String = told.one("error")?;
        println!("{problem}\n{error}");
        told.check(problem.contains("CPUs 1 are isolated"), || problem.clone())?;
        told.check(error.contains("a problem"), || error.clone())
    }
);
