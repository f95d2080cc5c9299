# loader: what a user does with scx_loader, and what becomes of it
#
# The scheduler schedules only for moments, and none of them is measured, so the
# timer that keeps turns short stays slow: a start costs half of the host's time.
[ "$PIT_DIVISOR" = 0 ] || guest-clock 65535 0

OPS=/sys/kernel/sched_ext/root/ops
# How long anything may take, in ms of the guest's clock. A start takes 4 s.
PATIENCE_MS=20000

# until_ COMMAND: repeat it until it succeeds.
until_() {
	now
	waits_till=$((now_ms + PATIENCE_MS))
	until "$@"; do
		is_running $loader || give_up "the loader is gone, not: $*"
		now
		[ $now_ms -lt $waits_till ] || give_up "in vain: $*"
		usleep 10000
	done
}

# is_scheduling NAME: a scheduler of that name was enabled since $seq.
is_scheduling() {
	read -r state <$STATE && [ "$state" = enabled ] || return 1
	read -r now_seq </sys/kernel/sched_ext/enable_seq
	[ "$now_seq" -gt "$seq" ] && read -r ops 2>/dev/null <$OPS || return 1
	case $ops in "$1"*) seq=$now_seq ;; *) return 1 ;; esac
}

# is_over: no scheduler is there, nor a process of one.
is_over() {
	read -r state <$STATE && [ "$state" = disabled ] && ! pidof $SCHEDULER scx_bpfland >/dev/null
}

# is_new: the loader has started another process since $pid.
is_new() {
	for new in $(pidof $SCHEDULER); do
		[ $new = $pid ] || {
			pid=$new
			return
		}
	done
	return 1
}

# scheduling KEY: when ours is, tell its profile, and its arguments.
scheduling() {
	until_ is_scheduling pandemonium
	pid=$(pidof $SCHEDULER)
	fact $1_telemetry "$(agent stats)"
	fact $1_args $(tr '\0' ' ' </proc/$pid/cmdline)
}

# over KEY: nothing schedules soon.
over() {
	until_ is_over
	fact $1 over
}

# says KEY COMMAND: its exit code and what it says.
says() {
	key=$1
	shift
	"$@" >/tmp/said 2>&1
	fact $key $? $(cat /tmp/said)
}

# call KEY METHOD ARGS: as a GUI does.
call() {
	key=$1 method=$2
	shift 2
	says $key dbus-send --system --print-reply=literal --dest=org.scx.Loader \
		/org/scx/Loader $method "$@"
}

# property KEY NAME
property() {
	call $1 org.freedesktop.DBus.Properties.Get string:org.scx.Loader string:$2
}

# logged KEY: tell what the loader said since it was told last.
nr_told=0
logged() {
	tail -n +$((nr_told + 1)) $LOG | grep 'status: \|attempt ' >/tmp/logged
	nr_told=$(wc -l <$LOG)
	tell $1 /tmp/logged
}

# has_given_up: the loader has tried to start a scheduler for the last time.
has_given_up() {
	tail -n +$((nr_told + 1)) $LOG | grep -q 'attempt 5/5'
}

# held KEY: what the loader and the kernel hold.
held() {
	usleep 500000
	fact $1_descriptors $(ls /proc/$loader/fd | wc -l)
	fact $1_rss_kib $(awk '/^VmRSS/ { print $2 }' /proc/$loader/status)
	fact $1_bpf $(agent bpf-objects)
	fact $1_pinned $(ls /sys/fs/bpf | wc -l)
}

# A system with a bus, and users for its programs. The packages of scx_loader on the
# registry are without the files that allow it to be on the bus and others to use it.
chmod 755 /
ln -s /run /var/run
mkdir -p /run/dbus /etc/polkit-1/rules.d /usr/share/polkit-1/rules.d /etc/scx_loader
echo 'messagebus:x:100:100::/:/bin/false
polkitd:x:101:101::/:/bin/false' >>/etc/passwd
echo 'messagebus:x:100:
polkitd:x:101:' >>/etc/group
echo '<busconfig>
	<policy user="root"><allow own="org.scx.Loader"/></policy>
	<policy context="default"><allow send_destination="org.scx.Loader"/></policy>
</busconfig>' >/usr/share/dbus-1/system.d/org.scx.Loader.conf
echo '<policyconfig>
	<action id="org.scx.loader.manage-schedulers">
		<description>Manage schedulers</description>
		<message>Managing schedulers needs authentication</message>
		<defaults>
			<allow_any>no</allow_any>
			<allow_inactive>no</allow_inactive>
			<allow_active>auth_admin_keep</allow_active>
		</defaults>
	</action>
</policyconfig>' >/usr/share/polkit-1/actions/org.scx.Loader.policy
dbus-daemon --system || give_up 'no system bus'
polkitd --no-debug >/tmp/polkitd 2>&1 &
# A loader that cannot ask for permission ends, and nothing starts polkit for it here.
has_polkit() {
	dbus-send --system --print-reply=literal --dest=org.freedesktop.DBus / \
		org.freedesktop.DBus.NameHasOwner string:org.freedesktop.PolicyKit1 |
		grep -q 'boolean true'
}
for i in $(seq 300); do
	has_polkit && break
	usleep 10000
done
has_polkit || give_up 'no polkit'

# The machine boots, with ours as the default, and our section appended as it says.
echo 'default_sched = "scx_pandemonium"
default_mode = "Server"' >/etc/scx_loader/config.toml
cat /etc/scx_loader.toml.ours >>/etc/scx_loader/config.toml
fact before_bpf $(agent bpf-objects)
read -r seq </sys/kernel/sched_ext/enable_seq
export RUST_LOG=debug
agent sandboxed scx_loader >$LOG 2>&1 &
for i in $(seq 300); do
	loader=$(pidof scx_loader) && break
	usleep 10000
done
is_running "$loader" || give_up 'the loader did not start'
scheduling boot
grep -E '^(CapBnd|Seccomp):' /proc/$pid/status >/tmp/status
tell sandbox /tmp/status
[ $(readlink /proc/$pid/ns/mnt) = $(readlink /proc/$$/ns/mnt) ] || fact sandbox other mounts
fact sandbox $(awk '$5 == "/usr" && $6 ~ /^ro/ { print "read-only", $5 }' /proc/$pid/mountinfo)
property current CurrentScheduler
property mode SchedulerMode
property supported SupportedSchedulers
call stop_called org.scx.Loader.StopScheduler
over stop_by_call
property current CurrentScheduler
logged boot_log
held first

# A GUI, and scxctl.
says list scxctl list
says modes scxctl modes -s pandemonium --show-args
says nobody su -s /bin/sh nobody -c 'scxctl start -s pandemonium'
call start_called org.scx.Loader.StartScheduler string:scx_pandemonium uint32:2
scheduling powersave
property mode SchedulerMode
says to_other scxctl switch -s bpfland -m gaming
until_ is_scheduling bpfland
says get_other scxctl get
says from_other scxctl switch -s pandemonium -m lowlatency
scheduling lowlatency
says get scxctl get
call switch_called org.scx.Loader.SwitchScheduler string:scx_pandemonium uint32:1
scheduling gaming
property mode SchedulerMode
logged switch_log

# It is killed, thrown out by a key of the console, and killed again and again.
kill -KILL $pid
scheduling killed
echo S >/proc/sysrq-trigger
scheduling thrown_out
for i in 3 4 5; do
	kill -KILL $pid
	[ $i = 5 ] || until_ is_new
done
until_ has_given_up
over given_up
logged failure_log
says auto_said scxctl switch -m auto
scheduling auto

# A task of it cannot run: the kernel throws it out, and the loader starts it anew.
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
chrt -f 50 taskset 2 guest-hog &
hog=$!
usleep 100000
taskset 2 guest-hog &
victim=$!
has_stalled() {
	grep -q 'runnable task stall' $LOG
}
until_ has_stalled
kill -KILL $hog $victim
scheduling stalled
says stalled_why grep 'EXIT: ' $LOG
says stop_said scxctl stop
over stop_by_scxctl
says get_none scxctl get

# With arguments, wrong ones first.
logged auto_log
says wrong scxctl start -s pandemonium --args=--no-such-option
until_ has_given_up
over wrong_over
says wrong_stop scxctl stop
logged wrong_log

# Another scheduler, which is not the loader's, holds sched_ext.
scx_bpfland >/dev/null 2>&1 &
other=$!
until_ is_scheduling bpfland
says refused scxctl start -s pandemonium
until_ has_given_up
says refused_stop scxctl stop
kill -INT $other
over refused_over
says refused_why grep 'another sched_ext scheduler' $LOG
logged refused_log

says args scxctl start -s pandemonium '--args=--profile gaming,--no-adaptive'
scheduling args
says get_args scxctl get
before=$pid
says restart scxctl restart
scheduling restart
[ $pid != $before ] || give_up 'restarted without another process'
says restore scxctl restore
scheduling restore
logged args_log

# A user who cannot decide: the first of 99 switches is taken back while it loads,
# and the others come while the one before has hardly begun.
nr_stops=$(grep -c 'Scheduler was stopped' $LOG)
# switch MODE
switch() {
	scxctl switch -s pandemonium -m $1 >/dev/null || give_up "no switch to $1"
	nr_stops=$((nr_stops + 1))
	fact switch $1
}
is_worked_off() {
	[ $(grep -c 'Scheduler was stopped' $LOG) = $nr_stops ]
}
for delay_us in 300000 1200000; do
	switch lowlatency
	usleep $delay_us
	for i in $(seq 14); do
		for mode in auto powersave gaming lowlatency server auto gaming; do
			switch $mode
		done
	done
	until_ is_worked_off
done
scheduling decided
scxctl stop >/dev/null
over decided_over
logged decided_log
held last

# The service ends as systemd ends it: all its processes get the signal.
scxctl start -s pandemonium >/dev/null
until_ is_scheduling pandemonium
kill -INT $loader $(pidof $SCHEDULER)
wait_until_over() {
	for i in $(seq 200); do
		is_over && ! is_running $loader && return
		usleep 10000
	done
	return 1
}
wait_until_over || give_up 'the service did not end'
usleep 500000
fact after_bpf $(agent bpf-objects)
