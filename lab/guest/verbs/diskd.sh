# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# The handler of modelled disks.

# CONFIG: the disk handler is part of the lab: when it ends, the disks are gone and the boot is invalid.
diskd_start() {
	(
		exec 0</dev/null
		/bin/diskd "/job/$1" /tmp/diskd.ready /tmp/diskd.json 2>/tmp/diskd.error 3>&-
		ended="$?$TAB$(tail -n 1 /tmp/diskd.error)"
		[ -e /tmp/measured ] && exit
		printf 'BROKEN diskd\t%s\n' "$ended" >&3
		reboot -f
	) &
	demand diskd /tmp/diskd.ready
	# shellcheck disable=SC2034 # for the runner
	read -r handler </tmp/diskd.ready
}
