# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Device-mapper devices.

# NAME FILE: without udev a mapped device has only its kernel name.
dm_table() {
	dmsetup create "$1" --noudevrules --noudevsync 3>&- <"/job/$2" >/out/.error 2>&1 || failed "dmsetup create $1"
	# shellcheck disable=SC2034 # for the runner
	mapped=yes
	for named in /sys/block/dm-*/dm/name; do
		read -r name <"$named"
		[ "$name" = "$1" ] || continue
		name_block "$1" "${named%/dm/name}"
		return
	done
	unfit unread "dmsetup create $1" '/sys/block/dm-*/dm/name' "$1"
}

# Reads back what the kernel accepted. Starting a program per device would take longer than creating the devices.
keep_tables() {
	dmsetup table 3>&- | while IFS=: read -r name table; do
		printf '%s\n' "${table# }" >>"/out/$name.table"
	done
}

# NAME TEXT
dm_message() { dmsetup message "$1" 0 "$2" >/out/.error 2>&1 3>&- || failed "dmsetup message $1"; }
