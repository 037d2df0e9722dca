# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Counters of queues that are zero when nothing is in flight, and tasks of one CPU that change queues. They
# come with the jobs that need them.

# FILE CPU: path/meanwhile on one CPU
queue_meanwhile() {
	call_verb path/meanwhile "$1"
	busybox taskset -pc "$2" "$!" >/out/.error 2>&1 || failed "taskset $2"
}

# NAME COUNT...
add_counts() {
	name=$1
	shift
	for count; do
		counts="$counts$name=$count "
		[ "$count" = 0 ] || idle=
	done
}

# KEY FOLDER of a block device: counters that are zero when it is idle. Waits up to a second for writes that fio leaves.
queue_counters() {
	mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
	block=$(readlink -f "$2")
	debug=/sys/kernel/debug/block/${block##*/}
	tries=0 idle=
	while [ -z "$idle" ] && [ "$tries" -lt 100 ]; do
		[ "$tries" = 0 ] || sleep 0.01
		tries=$((tries + 1)) idle=yes counts=
		# shellcheck disable=SC2046 # numbers
		add_counts inflight $(cat "$2/inflight")
		# shellcheck disable=SC2046
		[ ! -e "$2/device/device_busy" ] || add_counts device_busy $(cat "$2/device/device_busy")
		for file in "$debug/rqos/wbt/inflight" "$debug"/hctx*/tags "$debug"/hctx*/sched_tags; do
			[ -e "$file" ] || continue
			# "0: inflight 0", and "busy=0" once for each kind of tags
			while IFS=' =' read -r word state count; do
				case $word in
				[0-9]:) add_counts "wbt.$state" "$count" ;;
				busy) add_counts "${file##*/}.busy" "$state" ;;
				esac
			done <"$file"
		done
	done
	printf '%s\t%s\n' "$1" "${counts% }" >>/out/inventory
}
