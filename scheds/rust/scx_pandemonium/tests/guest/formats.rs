// SPDX-License-Identifier: GPL-2.0
//! The telemetry as programs read it: JSON lines, and OpenMetrics expositions.

use anyhow::{Context, Result};
use prometheus_parse::{Scrape, Value as Metric};
use serde_json::Value;

use crate::ours::OURS;
use crate::support::told::Told;

/// How often the known task sleeps while the formats are read.
const NR_SLEEPS: u64 = 2000;

/// The metric that shows it, by its name in both formats.
const WAKEUPS: &str = "nr_enq_wakeup";
const WAKEUPS_TOTAL: &str = "scx_pandemonium_nr_placed_total";

/// The monitors ask at different times: what else runs is counted by one of them
/// only.
const DIFFERENCE_MAX_PCT: u64 = 5;

/// However long its interval is.
const MONITOR_STOP_MAX_MS: u64 = 500;

/// A monitor that no scheduler answers. Three monitors of one, which look at it at
/// different times; then readers that leave after one line.
const SCRIPT: &str = "\
\"$SCHEDULER\" --monitor 1 2>/tmp/waits &
monitor=$!
usleep 1500000
kill -INT $monitor
wait $monitor
fact waits $? $(grep -c 'server not available' /tmp/waits)
mkdir /tmp/collector
begin
\"$SCHEDULER\" --monitor 3600 >/dev/null 2>&1 &
monitor=$!
usleep 300000
now
stopped_at=$now_ms
kill -TERM $monitor
wait $monitor
code=$?
now
fact monitor_stop $code $((now_ms - stopped_at))
monitor() {
	format=$1
	shift
	\"$SCHEDULER\" --monitor 0.2 --monitor-format $format \"$@\" 2>>$LOG &
}
monitor json >/tmp/json
json=$!
monitor openmetrics >/tmp/stream
stream=$!
monitor openmetrics --monitor-output /tmp/collector/scx.prom
file=$!
usleep 500000
agent stats-of-sleeper $NR_SLEEPS >/dev/null || give_up 'the sleeper failed'
usleep 500000
nr_torn=0
nr_reads=0
while [ $nr_reads -lt 40 ]; do
	[ \"$(tail -n 1 /tmp/collector/scx.prom)\" = '# EOF' ] || nr_torn=$((nr_torn + 1))
	nr_reads=$((nr_reads + 1))
	usleep 20000
done
fact torn $nr_torn
for monitor in $json $stream $file; do
	kill -INT $monitor
	wait $monitor
	fact code $?
done
fact left $(ls -A /tmp/collector)
fact ends $(grep -c '^# EOF$' /tmp/stream)
fact last_line \"$(tail -n 1 /tmp/stream)\"
grep '^scx_pandemonium_nr_placed_total ' /tmp/stream | while read -r line; do
	fact total $line
done
while IFS= read -r line; do
	fact file \"$line\"
done </tmp/collector/scx.prom
while IFS= read -r line; do
	fact json \"$line\"
done </tmp/json
quiet() {
	{ \"$SCHEDULER\" \"$@\" 2>/tmp/closed_err; echo $? >/tmp/closed; } | head -n 1 >/dev/null
	fact quiet $(cat /tmp/closed) $(wc -c </tmp/closed_err) \"$*\"
}
# For what prints once: the reader has gone before.
gone() {
	{ usleep 200000; \"$SCHEDULER\" \"$@\" 2>/tmp/closed_err; echo $? >/tmp/closed; } | :
	fact quiet $(cat /tmp/closed) $(wc -c </tmp/closed_err) \"$*\"
}
for format in line json openmetrics; do
	quiet --monitor 0.1 --monitor-format $format
done
quiet tasks --watch 0.1
gone tasks
gone tasks --json
gone profile
gone --help-stats
gone --help-knobs
gone check
gone report
stop INT
{ \"$SCHEDULER\" --stats 0.1 2>>$LOG; echo $? >/tmp/closed; } | head -n 1 >/tmp/first
fact scheduled $(cat /tmp/closed) $(cat $STATE) $(cut -c 1-13 /tmp/first)
";

/// The number of a metric without labels.
fn number(metric: &Metric) -> Option<f64> {
    match metric {
        Metric::Counter(number) | Metric::Gauge(number) | Metric::Untyped(number) => Some(*number),
        _ => None,
    }
}

/// What of the lines of a list of facts is one of `scrape`.
fn parse(told: &Told, lines: &[String]) -> Result<Scrape> {
    told.check(lines.last().is_some_and(|line| line == "# EOF"), || {
        format!("{} lines without an end", lines.len())
    })?;
    Ok(Scrape::parse(lines.iter().cloned().map(Ok))?)
}

/// The file holds one exposition, of all fields that the JSON has.
fn check_file(told: &Told, fields: &Value) -> Result<()> {
    let lines: Vec<String> = told.all("file")?;
    println!("{}", lines.join("\n"));
    let scrape = parse(told, &lines)?;
    let fields = fields.as_object().context("no object")?;
    told.check_eq("metrics", scrape.samples.len(), fields.len())?;
    for sample in &scrape.samples {
        let name = sample.metric.trim_start_matches("scx_pandemonium_");
        let name = name.trim_end_matches("_total");
        told.check(fields.contains_key(name), || {
            format!("{} is no field of the telemetry", sample.metric)
        })?;
        let value = number(&sample.value).context("no number")?;
        match name {
            "nr_cpus" => told.check_eq("CPUs", value, 2.0)?,
            "profile" => {
                told.check_eq("profile", sample.labels.get(name), Some("auto"))?;
            }
            _ => {}
        }
    }
    told.check_eq(
        "what is left beside it",
        told.one("left")?,
        "scx.prom".to_owned(),
    )
}

/// Counters only grow, by what the JSON says that happened.
fn check_totals(told: &Told, intervals: &[Value]) -> Result<()> {
    let totals: Vec<String> = told.all("total")?;
    let totals: Result<Vec<u64>> = totals
        .iter()
        .map(|line| {
            let (name, total) = line.split_once(' ').context("no sample")?;
            told.check_eq("name", name, WAKEUPS_TOTAL)?;
            Ok(total.parse()?)
        })
        .collect();
    let totals = totals?;
    println!("placed since the start: {totals:?}");
    told.check(totals.is_sorted(), || format!("a counter fell: {totals:?}"))?;
    told.check_eq("ends of an exposition", told.one("ends")?, totals.len())?;
    told.check_eq("last line", told.one("last_line")?, "# EOF".to_owned())?;

    let sum = |name: &str| -> u64 { intervals.iter().filter_map(|one| one[name].as_u64()).sum() };
    told.check(sum(WAKEUPS) > 0, || "no wakeups in any interval".to_owned())?;
    let (first, last) = (totals.first(), totals.last());
    let grew = last.context("no total")? - first.context("no total")?;
    let happened = sum("nr_placed");
    println!("grew by {grew}, {happened} in the intervals");
    told.check(
        grew >= NR_SLEEPS && grew.abs_diff(happened) * 100 <= happened * DIFFERENCE_MAX_PCT,
        || format!("a counter grew by {grew}, {happened} happened in the intervals"),
    )
}

/// A command ends well when the reader of its output has closed it.
fn check_quiet(told: &Told) -> Result<()> {
    let ends: Vec<String> = told.all("quiet")?;
    told.check_eq("closed pipes", ends.len(), 11)?;
    for end in ends {
        told.check(end.starts_with("0 0 "), || {
            format!("exit code and bytes of errors once the reader has gone: {end}")
        })?;
    }
    Ok(())
}

invariant!(monitors_of_each_format_agree, |kernel| {
    let script = format!("NR_SLEEPS={NR_SLEEPS}\n{SCRIPT}");
    let told = OURS.flat(kernel, 2)?.run(&script)?;
    let waits: String = told.one("waits")?;
    told.check_eq("exit code and lines of the wait", waits.as_str(), "0 1")?;
    let stop: String = told.one("monitor_stop")?;
    let stop_ms: u64 = stop.strip_prefix("0 ").context("not 0")?.parse()?;
    println!("a monitor of an hour stops within {stop_ms} ms");
    told.check(stop_ms <= MONITOR_STOP_MAX_MS, || {
        format!("a stop took {stop_ms} ms")
    })?;
    let codes: Vec<u32> = told.all("code")?;
    told.check_eq("exit codes", codes, vec![0; 3])?;
    told.check_eq("reads of half a file", told.one("torn")?, 0)?;
    let intervals: Vec<Value> = told.all("json")?;
    told.check(intervals.len() >= 3, || {
        format!("{} intervals", intervals.len())
    })?;
    check_file(&told, &intervals[0])?;
    check_totals(&told, &intervals)?;
    check_quiet(&told)?;
    let scheduled: String = told.one("scheduled")?;
    told.check_eq(
        "exit code of a scheduler whose reader has gone, state of the kernel, first line",
        scheduled.as_str(),
        "0 disabled [pandemonium]",
    )?;
    told.check_stops()
});
