#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# init: the guest's first process
#
# Makes an ordinary small system out of the root image, starts the clock, runs
# /script once and tells the host how it ended. Every word to the host begins
# with the mark, which only this run knows. Settings come from /etc/scx_guest.
# A mount that this kernel does not have is left out: the program that needs it
# says so better than we could.

export PATH=/bin
mount -t devtmpfs dev /dev
exec </dev/null >/dev/console 2>&1
. /etc/scx_guest

mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
{
	mount -t devpts devpts /dev/pts
	mount -t tmpfs tmpfs /dev/shm
	# What the root image holds there must not be hidden.
	[ -z "$(ls -A /tmp)" ] && mount -t tmpfs tmpfs /tmp
	[ -z "$(ls -A /run)" ] && mount -t tmpfs tmpfs /run
	chmod 1777 /tmp
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
	mount -t bpf bpf /sys/fs/bpf
	mount -t debugfs debugfs /sys/kernel/debug
	mount -t tracefs tracefs /sys/kernel/tracing
	ip link set lo up || ifconfig lo up
} 2>/dev/null
ln -s /proc/self/fd /dev/fd

# The second serial port carries the report, byte for byte.
ln -s ttyS1 /dev/report
stty -F /dev/ttyS1 raw -echo

if [ ! -d /sys/kernel/sched_ext ]; then
	echo "$MARK no-sched-ext"
	poweroff -f
fi

ulimit -l unlimited
ulimit -n 65536
export HOME=/root USER=root TERM=dumb LANG=C.UTF-8 SEED
[ -n "$LIBRARY_PATH" ] && export LD_LIBRARY_PATH="$LIBRARY_PATH"

cd /
guest-clock "$PIT_DIVISOR" "$DELAY_US"
clock_status=$?
echo "$MARK begin"
# Still repeatable, but latencies are not to be trusted, so it belongs into the
# output of the run.
[ $clock_status = 0 ] ||
	echo "scx_guest: warning: the legacy timer is out of reach; quanta are long"
sh /script
status=$?

# A program may have lowered the console's level, so what the kernel had to say
# about failures is repeated from its own buffer.
dmesg | grep -E 'sched_ext: .* disabled \(|Out of memory: Killed|BUG: |Oops|WARNING: |INFO: (rcu|task)|rcu: INFO' |
	sed "s/^/$MARK dmesg /"
# Opening and closing the port waits until all of the report is out.
: >/dev/report
echo "$MARK exit $status"
poweroff -f
