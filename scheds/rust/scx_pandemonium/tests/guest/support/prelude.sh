# prelude: what every script of the guest tests begins with
#
# $SCHEDULER and $AGENT are the names of the two programs. Facts go to the host
# as `key value` lines; they are kept in memory until the end, since writing to
# a port takes time of the guest.

STATE=/sys/kernel/sched_ext/state
FACTS=/tmp/facts
LOG=/tmp/log
# The kernel throws the scheduler out if a task waits for so long; scx_utils sets
# it. A scheduler's own may be longer than most tests.
export SCX_TIMEOUT_MS=2000
: >$FACTS >$LOG
trap 'cat $FACTS >/dev/report; sed "s/^/log: /" $LOG' EXIT

# fact KEY VALUE: tell the host.
fact() {
	key=$1
	shift
	echo "$key $*" >>$FACTS
}

# give_up WHY: end the test as failed.
give_up() {
	fact gave_up "$*"
	exit 1
}

# now: the guest's time in $now_ms, in steps of 10 ms, without a fork.
now() {
	read -r up _ </proc/uptime
	now_ms=$((${up%.*} * 1000 + (1${up#*.} - 100) * 10))
}

# agent WORDS: the test program as a program of the guest; see agent.rs.
agent() {
	GUEST_AGENT="$*" "$AGENT" agent::in_a_guest --exact --nocapture \
		--test-threads=1 3>&1 >/dev/null
}

is_running() {
	[ -e /proc/$1/exe ]
}

# wait_state STATE PID: until the kernel is there, as long as PID runs.
wait_state() {
	until read -r state <$STATE && [ "$state" = "$1" ]; do
		is_running $2 || return 1
		usleep 10000
	done
}

# The timer that keeps the turns of virtual CPUs short, see guest-clock.
. /etc/scx_guest

# begin ARGS: start the scheduler; it schedules when this returns. Its process
# is $pid. Until then turns are long: each end of one costs time of the host, and
# the verifier has no latency to be measured.
begin() {
	[ "$PIT_DIVISOR" = 0 ] || guest-clock 65535 0
	"$SCHEDULER" "$@" 2>>$LOG &
	pid=$!
	wait_state enabled $pid || give_up "the scheduler did not start"
	guest-clock "$PIT_DIVISOR" 0
}

# start_hogs NR: so many hogs; their processes are $hogs.
start_hogs() {
	hogs=
	for _ in $(seq $1); do
		guest-hog &
		hogs="$hogs $!"
	done
}

# start_hog NAME: a hog of that name; its process is $!.
start_hog() {
	cp /bin/guest-hog "/dev/shm/$1"
	"/dev/shm/$1" &
}

# stop SIGNAL: stop the scheduler and tell its exit code, the time in ms and the
# state of the kernel.
stop() {
	now
	stopped_at=$now_ms
	kill -$1 $pid
	wait $pid
	code=$?
	now
	read -r state <$STATE
	fact stop_code $code
	fact stop_ms $((now_ms - stopped_at))
	fact stop_state $state
}

# kill_9: end the scheduler with SIGKILL, and tell its exit code and the time in ms
# until the kernel is on its own.
kill_9() {
	kill -KILL $pid
	now
	killed_at=$now_ms
	wait $pid
	fact kill_code $?
	until read -r state <$STATE && [ $state = disabled ]; do
		now
		[ $((now_ms - killed_at)) -lt 5000 ] || give_up 'still scheduling after kill -9'
		usleep 10000
	done
	now
	fact kill_ms $((now_ms - killed_at))
}

# tell KEY FILE: each line of the file is a fact.
tell() {
	while read -r line; do
		fact $1 $line
	done <$2
}

# load SECONDS [churn]: run the load of load.rs and tell what became of it.
load() {
	agent load $1 $NR_CPUS ${2:-} >/tmp/load || give_up "the load failed"
	tell load /tmp/load
}

# crowd KEY SECONDS GROUPS: run the crowd of crowd.rs and tell what became of it.
crowd() {
	crowd=$1
	shift
	agent crowd "$@" >/tmp/crowd || give_up "the crowd failed"
	tell $crowd /tmp/crowd
}

# bogo_ops STRESSOR: how often it came round, by what stress-ng wrote to
# /tmp/stress.
bogo_ops() {
	awk -v name="$1" '$2 == "metrc:" && $4 == name { print $5 }' /tmp/stress
}

# cycle_cpus: every CPU but the first goes off and comes back, and the
# scheduler stays.
cycle_cpus() {
	for is_online in 0 1; do
		for i in $(seq $((NR_CPUS - 1))); do
			echo $is_online >/sys/devices/system/cpu/cpu$i/online ||
				give_up "CPU $i did not go $is_online"
			is_running $pid ||
				give_up "the scheduler left when CPU $i went $is_online"
		done
		usleep 100000
	done
}
