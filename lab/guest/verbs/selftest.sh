# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Breaks the guest on purpose; the lab must notice.

# Creates a device-mapper device that fails or holds all I/O; prints its node.
broken_device() {
	echo '0 2048 error' | dmsetup create "$1" --noudevrules --noudevsync 3>&- 2>/out/.error || failed "dmsetup create $1"
	echo "/dev/dm-$(dmsetup info --columns --noheadings --options minor "$1" | tr -d ' ')"
}

# FAULT SECONDS
# shellcheck disable=SC2034,SC2154 # fault and handler are the runner's
selftest_inject() {
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
	*) unfit unknown "fault $1" ;;
	esac
}

# LUN SECONDS
selftest_lose() { (sleep "$2" && echo 1 >"/lab/$1.sys/device/delete") 3>&- & }
