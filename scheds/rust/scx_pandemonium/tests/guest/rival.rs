// SPDX-License-Identifier: GPL-2.0
//! Only one scheduler can run: a second one waits briefly, then says who is there.

use crate::ours::OURS;

/// The first one goes 0.5 s after the second one of the last part came, well
/// within its patience.
const SCRIPT: &str = "\
begin
fact enabled $(cat /sys/kernel/sched_ext/enable_seq)
now
came_at=$now_ms
\"$SCHEDULER\" 2>/tmp/refusal
fact refused_code $?
now
fact refused_ms $((now_ms - came_at))
fact refusal_lines $(grep -c 'scx_pandemonium:' /tmp/refusal)
fact refusal $(tail -n 1 /tmp/refusal)
fact enabled $(cat /sys/kernel/sched_ext/enable_seq)
is_running $pid || give_up 'the first one is gone'
fact stats $(agent stats)

first=$pid
\"$SCHEDULER\" 2>>$LOG &
pid=$!
sleep 0.5
kill -INT $first
wait $first
fact first_code $?
wait_state enabled $pid || give_up 'the second one did not wait for the first one'
fact enabled_at_last $(cat /sys/kernel/sched_ext/enable_seq)
fact second_stats $(agent stats)
stop INT

# Two at once: one schedules, and only one.
for nr in 1 2; do
	\"$SCHEDULER\" 2>/tmp/twin$nr &
	twins=\"$twins $!\"
done
set -- $twins
while is_running $1 && is_running $2; do
	usleep 50000
done
read -r state <$STATE
fact twin_state $state
nr=1
for twin in $twins; do
	if is_running $twin; then
		pid=$twin
		fact winner_stats $(agent stats)
	else
		wait $twin
		fact loser_code $?
		fact loser $(tail -n 1 /tmp/twin$nr)
	fi
	nr=$((nr + 1))
done
fact enabled_by_twins $(cat /sys/kernel/sched_ext/enable_seq)
stop INT
";

/// The patience of the second one and the time to start and to end.
const REFUSED_MAX_MS: u64 = 3500;

invariant!(
    a_second_one_is_refused_and_one_that_leaves_is_waited_for,
    |kernel| {
        let told = OURS.flat(kernel, 2)?.run(SCRIPT)?;
        told.check_eq("exit code of the second one", told.one("refused_code")?, 1)?;
        let refused_ms: u64 = told.one("refused_ms")?;
        println!("refused after {refused_ms} ms");
        told.check(refused_ms <= REFUSED_MAX_MS, || {
            format!("the second one needed {refused_ms} ms to give up")
        })?;
        let refusal: String = told.one("refusal")?;
        println!("{refusal}");
        told.check_eq("lines of refusal", told.one("refusal_lines")?, 1)?;
        told.always(refusal.contains("pandemonium_6.0.0"), || {
            format!("the refusal does not name who is there: {refusal}")
        })?;
        told.check_eq(
            "schedulers enabled before and after the refusal",
            told.all::<u64>("enabled")?,
            vec![1, 1],
        )?;
        for key in ["stats", "second_stats", "winner_stats"] {
            let stats: serde_json::Value = told.one(key)?;
            let nr_placed = stats["nr_placed"].as_u64().unwrap_or(0);
            told.check(nr_placed > 0, || format!("nothing was placed: {stats}"))?;
        }
        told.check_eq("exit code of the first one", told.one("first_code")?, 0)?;
        told.check_eq("schedulers enabled", told.one("enabled_at_last")?, 2)?;
        let state: String = told.one("twin_state")?;
        told.check_eq("state of two at once", state.as_str(), "enabled")?;
        told.check_eq("exit code of the loser", told.one("loser_code")?, 1)?;
        let loser: String = told.one("loser")?;
        println!("{loser}");
        told.always(loser.contains("is running (pandemonium_6.0.0"), || {
            format!("the loser does not name the winner: {loser}")
        })?;
        told.check_eq("enabled by two", told.one("enabled_by_twins")?, 3)?;
        told.check_stops()
    }
);
