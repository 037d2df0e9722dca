# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# What is done to devices while a load runs. These verbs come with the jobs that need them.

# FILE TASKS: steps, each behind the microseconds since fio, which has TASKS then, let its jobs begin.
act_timed() {
	act_begin "$2"
	act_now
	began=$now
	while IFS=$TAB read -r time verb one two three; do
		act_until "$time"
		carry_out "$verb" "$one" "$two" "$three"
	done <"/job/$1"
}

# fio lets its jobs begin 100 ms after the last one is ready (run_threads of fio 3.39's backend.c), 2 to 6 ms after it
# was made.
act_begin() {
	tasks=0
	until [ "$tasks" -ge "$1" ]; do
		sleep 0.001
		tasks=0
		for fio in $(busybox pidof fio); do
			for task in /proc/"$fio"/task/*; do
				[ ! -e "$task" ] || tasks=$((tasks + 1))
			done
		done
	done
	sleep 0.106
}

# In microseconds.
act_now() {
	# shellcheck disable=SC3028 # busybox has it
	now=$EPOCHREALTIME
	now=${now%.*}${now#*.}
}

act_until() {
	act_now
	left=$((began + $1 - now))
	[ "$left" -gt 0 ] || return 0
	part=$((1000000 + left % 1000000))
	sleep "$((left / 1000000)).${part#1}"
}

# KNOB ACTION NAME[/MEMBER]: records the exit status, as the kernel may refuse it.
act_do() {
	name=/lab/${3%%/*} member=$(readlink -f "/lab/${3#*/}") status=0
	case $2 in
	suspend) dmsetup suspend --noudevsync "${3%%/*}" ;;
	resume) dmsetup resume --noudevsync "${3%%/*}" ;;
	freeze) busybox fsfreeze --freeze "$name" ;;
	thaw) busybox fsfreeze --unfreeze "$name" ;;
	delete) act_delete "$name" ;;
	rescan) act_rescan ;;
	*) mdadm "$(readlink -f "$name")" "--$2" "$member" ;;
	esac 3>&- >/out/.error 2>&1 || status=$?
	printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$((status == 0))" "$status" >>/out/tried
}

act_delete() {
	hctl=$(readlink -f "$1.sys/device")
	printf 'blklab: %s is deleted\n' "${hctl##*/}" >/dev/kmsg
	echo 1 >"$1.sys/device/delete"
}

act_rescan() {
	for host in /sys/class/scsi_host/host*/scan; do
		echo '- - -' >"$host" || return
	done
}

# NAME COUNT
act_completions() {
	wanted=
	while read -r reads _ _ _ writes _ <"/lab/$1.sys/stat"; do
		wanted=${wanted:-$((reads + writes + $2))}
		[ "$((reads + writes))" -lt "$wanted" ] || return 0
		sleep 0.001
	done
}
