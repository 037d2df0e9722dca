#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Executes /job/script, one step per line with tab-separated fields, then sends /out.
# The steps are data: no field is ever evaluated. lab/guest/steps writes them and documents each verb.

TAB='	'
step=0
fault=
handler=
mapped=

uptime_now() { read -r now _ </proc/uptime; }

phase() {
	uptime_now
	printf 'PHASE %s %s\n' "$now" "$1" >&3
}

unfit() {
	# Splitting into words and joining again makes the message one line.
	set -f
	# shellcheck disable=SC2086
	set -- $1
	printf 'UNFIT %s %s\n' "$step" "$*" >&3
	set +f
	dmesg >/out/kmsg
	send
	reboot -f
}

# First existing path that matches a pattern; waits for devices that appear asynchronously.
awaited() {
	tries=0
	while [ "$tries" -lt 500 ]; do
		# The pattern must expand; it expands to sysfs names only.
		# shellcheck disable=SC2086
		set -- $1
		if [ -e "$1" ]; then
			found=$1
			return 0
		fi
		sleep 0.01
		tries=$((tries + 1))
	done
	return 1
}

# sysfs shows a choice as "none [mq-deadline] kyber", the effective one in brackets. md appends the origin of
# a speed: "1000 (local)".
effective() {
	value=
	case $1 in
	# The shell reads one byte at a time, but a number in /proc/sys must be read in one call.
	/proc/sys/*) value=$(cat "$1") ;;
	*) read -r value <"$1" || [ -n "$value" ] ;;
	esac
	case $value in
	*\[*\]*)
		value=${value#*\[}
		value=${value%%\]*}
		;;
	*' ('*')') value=${value%% (*} ;;
	esac
}

write_value() { printf '%s' "$2" 2>/out/.error >"$1"; }

confirm() {
	awaited "$2" || unfit "$1: nothing matches $2"
	effective "$found"
	printf '%s\t%s\t%s\n' "$1" "$found" "$value" >>/out/readback
	[ "$value" = "$3" ] || unfit "$1: asked for $3, $found reads $value"
}

# A setting that the kernel may refuse or change: both are results.
try_value() {
	awaited "$2" || unfit "$1: nothing matches $2"
	accepted=0
	write_value "$found" "$3" && accepted=1
	effective "$found"
	printf '%s\t%s\t%s\t%s\n' "$1" "$found" "$accepted" "$value" >>/out/tried
}

name_block() {
	awaited "$2" || unfit "device $1: nothing matches $2"
	ln -s "$found" "/lab/$1.sys"
	ln -s "/dev/${found##*/}" "/lab/$1"
	printf '%s\t%s\t%s\n' "device" "/lab/$1" "${found##*/}" >>/out/readback
}

# Without udev a mapped device has only its kernel name.
make_mapped() {
	dmsetup create "$1" --noudevrules --noudevsync 3>&- <"/job/$2" >/out/.error 2>&1 ||
		unfit "dmsetup create $1: $(cat /out/.error)"
	mapped=yes
	for named in /sys/block/dm-*/dm/name; do
		read -r name <"$named"
		[ "$name" = "$1" ] || continue
		name_block "$1" "${named%/dm/name}"
		return
	done
	unfit "dmsetup create $1: no device has that name"
}

# Reads back what the kernel accepted. Starting a program per device would take longer than creating the devices.
keep_tables() {
	[ -n "$mapped" ] || return 0
	dmsetup table 3>&- | while IFS=: read -r name table; do
		printf '%s\n' "${table# }" >>"/out/$name.table"
	done
}

make_array() {
	# Arguments and devices are separated by blanks.
	# shellcheck disable=SC2086
	mdadm --create "/dev/md$2" --run --metadata=1.2 $3 3>&- >/out/.error 2>&1 ||
		unfit "mdadm --create $1: $(tail -n 3 /out/.error)"
	name_block "$1" "/sys/block/md$2"
}

counters() {
	for source in /proc/stat /proc/diskstats /proc/interrupts; do
		printf '== %s\n' "$source"
		cat "$source"
	done >"/out/$1"
	[ -e /proc/mdstat ] || return 0
	for source in /proc/uptime /proc/mdstat; do
		printf '== %s\n' "$source"
		cat "$source"
	done >>"/out/$1"
}

# Samples queues inside the load's window and makes the disk handler report its counters.
start_sampler() {
	sampler=
	[ -e "/job/$1.watch" ] || return 0
	rm -f /tmp/diskd.json.*
	# Without a handler there is no fourth word.
	# shellcheck disable=SC2086
	/bin/sampler "/job/$1.watch" "/out/$1.samples.json" "$load" $handler 2>/tmp/sampler.error 3>&- 0</dev/null &
	sampler=$!
}

stop_sampler() {
	[ -n "$sampler" ] || return 0
	kill -TERM "$sampler" 2>/dev/null
	wait "$sampler" || unfit "the sampler ended with $?: $(tail -n 1 /tmp/sampler.error)"
	[ -n "$handler" ] || return 0
	awaited /tmp/diskd.json.1 || unfit "the disk handler did not write its counters"
	cp /tmp/diskd.json.0 "/out/$1.before.disks.json"
	cp /tmp/diskd.json.1 "/out/$1.after.disks.json"
}

# A bare tc would be busybox's applet, which has no batch mode.
start_network() {
	ifconfig lo up 2>/out/.error || unfit "ifconfig lo up: $(cat /out/.error)"
	/bin/tc -batch "/job/$1" >/out/.error 2>&1 3>&- || unfit "tc: $(cat /out/.error)"
}

# The disk handler is part of the lab: when it ends, the disks are gone and the boot is invalid.
start_handler() {
	(
		exec 0</dev/null
		/bin/diskd "/job/$1" /tmp/diskd.ready /tmp/diskd.json 2>/tmp/diskd.error 3>&-
		ended="the disk handler ended with $?: $(tail -n 1 /tmp/diskd.error)"
		[ -e /tmp/measured ] && exit
		printf 'BROKEN %s\n' "$ended" >&3
		reboot -f
	) &
	awaited /tmp/diskd.ready || unfit "the disk handler is not ready"
	read -r handler </tmp/diskd.ready
}

run_load() {
	phase "load $1"
	counters "$1.before"
	fio --output-format=json --output="/out/$1.json" "/job/$1.fio" >/out/.error 2>&1 3>&- &
	load=$!
	start_sampler "$1"
	wait "$load" || unfit "fio ended with $? in load $1: $(tail -n 3 /out/.error)"
	counters "$1.after"
	stop_sampler "$1"
}

tracing=/sys/kernel/tracing/instances/blklab

trace_on() {
	set -f
	for event in $1; do
		printf '%s\n' "$event" 2>/out/.error >>"$tracing/set_event" || {
			cat "$tracing/../../available_events" >/out/available_events
			unfit "no trace event $event"
		}
	done
	set +f
}

trace_off() {
	: >"$tracing/set_event"
	gzip -c <"$tracing/trace" >"/out/$1"
	: >"$tracing/trace"
}

# Creates a device-mapper device that fails or holds all I/O; prints its node.
broken_device() {
	echo '0 2048 error' | dmsetup create "$1" --noudevrules --noudevsync 3>&- || unfit "dmsetup create $1"
	echo "/dev/dm-$(dmsetup info --columns --noheadings --options minor "$1" | tr -d ' ')"
}

# Selftests break the guest here; the lab must notice.
inject() {
	case $1 in
	oops) (sleep "$2" && echo c >/proc/sysrq-trigger) 3>&- & ;;
	hang) sleep 1000000 ;;
	hung-task)
		node=$(broken_device stuck)
		dmsetup suspend stuck
		# Writeback to a suspended device waits uninterruptibly, which is what the hung-task detector reports.
		head -c 4096 /dev/zero >"$node" 3>&- &
		sleep 1000
		;;
	oom) tail /dev/zero 3>&- ;;
	io-error)
		node=$(broken_device broken)
		(sleep "$2" && cat "$node" >/dev/null) 3>&- &
		;;
	flood) yes 'a console that never stops' >/dev/ttyS0 3>&- ;;
	lose-runner) (sleep "$2" && kill -9 $$) 3>&- & ;;
	lose-handler) (sleep "$2" && kill -9 "$handler") 3>&- & ;;
	host-noise) tail -c 16 /tmp/job.cpio >/out/noise ;;
	*-result) fault=$1 ;;
	*) unfit "unknown fault $1" ;;
	esac
}

carry_out() {
	case $1 in
	phase) phase "$2" ;;
	module) module "$2" "$3" ;;
	mount) mount -t "$2" "$2" "$3" 2>/out/.error || unfit "mount $2: $(cat /out/.error)" ;;
	mkdir) mkdir -- "$2" 2>/out/.error || unfit "mkdir $2: $(cat /out/.error)" ;;
	write)
		awaited "$2" || unfit "write: nothing matches $2"
		write_value "$found" "$3" || unfit "write $3 to $found: refused"
		;;
	link) ln -s -- "$2" "$3" 2>/out/.error || unfit "ln -s $2 $3: $(cat /out/.error)" ;;
	tune)
		awaited "$3" || unfit "$2: nothing matches $3"
		write_value "$found" "$4" || unfit "$2: the kernel refused $4 in $found"
		confirm "$2" "$3" "$4"
		;;
	try) try_value "$2" "$3" "$4" ;;
	confirm) confirm "$2" "$3" "$4" ;;
	block) name_block "$2" "$3" ;;
	table) make_mapped "$2" "$3" ;;
	array) make_array "$2" "$3" "$4" ;;
	network) start_network "$2" ;;
	daemon) start_handler "$2" ;;
	pause) sleep "$2" ;;
	inject) inject "$2" "$3" ;;
	load) run_load "$2" ;;
	trace-on) trace_on "$2" ;;
	trace-off) trace_off "$2" ;;
	*) unfit "unknown step $1" ;;
	esac
}

module() {
	parameters=$2
	# Parameters are separated by blanks, as on modprobe's command line.
	# shellcheck disable=SC2086
	insmod "/modules/$1.ko" $parameters 2>/out/.error || unfit "insmod $1 $2: $(cat /out/.error)"
}

send() {
	: >/tmp/measured
	keep_tables
	phase send
	rm -f /out/.error
	set --
	for file in /out/*; do
		[ ! -f "$file" ] || set -- "$@" "$file"
	done
	# Starting a program costs more than reading a file.
	sha256sum "$@" >/tmp/sums
	wc -c "$@" >/tmp/sizes
	count=0
	while read -r sum file && read -r size _ <&4; do
		printf 'FILE %s %s %s\n' "${file##*/}" "$size" "$sum" >&3
		case $fault in
		corrupt-result) tr 'A' 'B' <"$file" | base64 >&3 ;;
		truncate-result) head -c 100 "$file" | base64 >&3 && reboot -f ;;
		omit-result) ;;
		*) base64 <"$file" >&3 ;;
		esac
		count=$((count + 1))
	done </tmp/sums 4</tmp/sizes
	uptime_now
	printf 'END %s %s\n' "$count" "$now" >&3
}

set -f
while IFS=$TAB read -r verb one two three; do
	set +f
	step=$((step + 1))
	carry_out "$verb" "$one" "$two" "$three"
	set -f
done </job/script
set +f

dmesg >/out/kmsg
send
printf 'BYE\n' >&3
