# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# What is done to devices while a load runs. These verbs come with the jobs that need them.

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
