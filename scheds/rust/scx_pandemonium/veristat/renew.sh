#!/usr/bin/env bash
# Take the constants of the loaded scheduler anew, one file for each shape of
# machine, as README.md here says. Needs bpftool, and scx_guest and
# scx_pandemonium in target/release or the directory that is given.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
programs=${1:-$here/../../../../target/release}

# take NAME TOPOLOGY [SCRIPT]: boot that machine, change it by SCRIPT, dump.
take() {
	"$programs/scx_guest" --topology "$2" --program "$programs/scx_pandemonium" \
		--program bpftool --report "$here/$1.json" -- "${3:-}
			scx_pandemonium & pid=\$!
			until [ \"\$(cat /sys/kernel/sched_ext/state)\" = enabled ]; do sleep 0.1; done
			bpftool map dump name bpf_bpf.rodata >/dev/report || exit
			kill -INT \$pid
			wait \$pid"
}

take 4_cpus 1x1x4x1
take 2_llcs_smt 2x1x2x2
# A guest has neither small cores nor an L2 cache of two cores nor a governor, but
# its files may say so.
take small_cores 1x1x4x1 '
	cpus=/sys/devices/system/cpu
	mkdir /tmp/cpus
	cp -r $cpus/. /tmp/cpus 2>/dev/null
	mkdir -p /tmp/cpus/cpufreq/policy0
	echo schedutil >/tmp/cpus/cpufreq/policy0/scaling_governor
	set_file() { rm -f /tmp/cpus/$1 && echo $2 >/tmp/cpus/$1; }
	for cpu in 0 1 2 3; do
		set_file cpu$cpu/cpu_capacity $((1024 >> cpu / 2))
		set_file cpu$cpu/cache/index2/id $((cpu / 2))
		set_file cpu$cpu/cache/index2/shared_cpu_list $((cpu / 2 * 2))-$((cpu / 2 * 2 + 1))
	done
	mount --bind /tmp/cpus $cpus'
