#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Executes /job/script, one step per line with tab-separated fields, then sends /out.
# The steps are data: no field is ever evaluated. lab/guest/steps writes them and documents each verb.
# A verb FILE/NAME is the function FILE_NAME of /verbs/FILE.sh, which is read when a step first needs it.

TAB='	'
step=0
fault=
handler=
mapped=
sourced=' '

uptime_now() { read -r now _ </proc/uptime; }

phase() {
	uptime_now
	printf 'PHASE %s %s\n' "$now" "$1" >&3
}

# CODE FIELD...: ends the boot. lab/guest/protocol.py has the codes and makes a sentence of the fields.
unfit() {
	report="UNFIT $step $1"
	shift
	set -f
	for field; do
		# Splitting into words and joining again makes the field one line without tabs.
		# shellcheck disable=SC2086
		set -- $field
		report="$report$TAB$*"
	done
	set +f
	printf '%s\n' "$report" >&3
	dmesg >/out/kmsg
	send
	reboot -f
}

# WHAT: the program that just failed wrote why to /out/.error.
failed() { unfit failed "$1" "$(tail -n 3 /out/.error)"; }

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

# WHAT PATTERN
demand() { awaited "$2" || unfit absent "$1" "$2"; }

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

# WHAT PATTERN VALUE
write_knob() {
	demand "$1" "$2"
	write_value "$found" "$3" || unfit refused "$1" "$3" "$found"
}

confirm() {
	demand "$1" "$2"
	effective "$found"
	printf '%s\t%s\t%s\n' "$1" "$found" "$value" >>/out/readback
	[ "$value" = "$3" ] || unfit differs "$1" "$3" "$found" "$value"
}

# A setting that the kernel may refuse or change: both are results.
try_value() {
	demand "$1" "$2"
	accepted=0
	write_value "$found" "$3" && accepted=1
	effective "$found"
	printf '%s\t%s\t%s\t%s\n' "$1" "$found" "$accepted" "$value" >>/out/tried
}

name_block() {
	demand "device $1" "$2"
	ln -s "$found" "/lab/$1.sys"
	ln -s "/dev/${found##*/}" "/lab/$1"
	printf '%s\t%s\t%s\n' "device" "/lab/$1" "${found##*/}" >>/out/readback
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
	wait "$sampler" || unfit ended sampler "$1" $? "$(tail -n 1 /tmp/sampler.error)"
	[ -n "$handler" ] || return 0
	demand diskd /tmp/diskd.json.1
	cp /tmp/diskd.json.0 "/out/$1.before.disks.json"
	cp /tmp/diskd.json.1 "/out/$1.after.disks.json"
}

run_load() {
	phase "load $1"
	counters "$1.before"
	fio --output-format=json --output="/out/$1.json" "/job/$1.fio" >/out/.error 2>&1 3>&- &
	load=$!
	start_sampler "$1"
	wait "$load" || unfit ended fio "$1" $? "$(tail -n 3 /out/.error)"
	counters "$1.after"
	stop_sampler "$1"
}

# Calls the function of a verb FILE/NAME with the fields of its step.
call_verb() {
	file=${1%%/*} function=${1%%/*}_${1#*/}
	case $sourced in
	*" $file "*) ;;
	*)
		[ -e "/verbs/$file.sh" ] || unfit unknown "$1"
		# shellcheck disable=SC1090
		. "/verbs/$file.sh"
		sourced="$sourced$file "
		;;
	esac
	command -v "$function" >/dev/null || unfit unknown "$1"
	shift
	"$function" "$@"
}

carry_out() {
	case $1 in
	phase) phase "$2" ;;
	module) module "$2" "$3" ;;
	mount) mount -t "$2" "$2" "$3" 2>/out/.error || failed "mount $2" ;;
	mkdir) mkdir -- "$2" 2>/out/.error || failed "mkdir $2" ;;
	write) write_knob write "$2" "$3" ;;
	link) ln -s -- "$2" "$3" 2>/out/.error || failed "ln -s $2 $3" ;;
	tune)
		write_knob "$2" "$3" "$4"
		confirm "$2" "$3" "$4"
		;;
	try) try_value "$2" "$3" "$4" ;;
	confirm) confirm "$2" "$3" "$4" ;;
	block) name_block "$2" "$3" ;;
	pause) sleep "$2" ;;
	load) run_load "$2" ;;
	*/*) call_verb "$@" ;;
	*) unfit unknown "$1" ;;
	esac
}

module() {
	parameters=$2
	# Parameters are separated by blanks, as on modprobe's command line.
	# shellcheck disable=SC2086
	insmod "/modules/$1.ko" $parameters 2>/out/.error || failed "insmod $1 $2"
}

send() {
	: >/tmp/measured
	[ -z "$mapped" ] || keep_tables
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

while IFS=$TAB read -r verb one two three; do
	step=$((step + 1))
	carry_out "$verb" "$one" "$two" "$three"
done </job/script

dmesg >/out/kmsg
send
printf 'BYE\n' >&3
