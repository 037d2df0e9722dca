# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Limits and weights of cgroups.

groups=/sys/fs/cgroup

# The line of a device number in a file.
line_of_device() {
	value=
	while read -r shown all; do
		[ "$shown" != "$number" ] || value=$all
	done <"$file"
}

# KNOB DEVICE "FILE LIMIT": a limit of the root group, which version 1 has.
cgroup_throttle() {
	[ -e "$groups/${3% *}" ] || mount -t cgroup cgroup "$groups" 2>/out/.error || failed "mount cgroup"
	file=$groups/${3% *} limit=${3#* }
	read -r number <"/lab/$2.sys/dev"
	write_knob "$1" "$file" "$number $limit"
	line_of_device
	printf '%s\t%s\t%s\n' "$1" "$file" "$value" >>/out/readback
	[ "$value" = "$limit" ] || unfit differs "$1" "$limit" "$file" "$value"
}

# NAME DEVICE "FILE WORD...": a line of a cgroup's file is a device number and its words.
cgroup_limit() {
	if [ ! -e "$groups/cgroup.procs" ]; then
		mount -t cgroup2 cgroup2 "$groups" 2>/out/.error || failed "mount cgroup2"
		write_knob cgroup2 "$groups/cgroup.subtree_control" +io
	fi
	[ -d "$groups/$1" ] || mkdir "$groups/$1"
	file=$groups/$1/${3%% *} words=${3#* }
	read -r number <"/lab/$2.sys/dev"
	write_knob "cgroup $1" "$file" "$number $words"
	line_of_device
	printf '%s[%s]\t%s\t%s\n' "${3%% *}" "$1" "$file" "$value" >>/out/readback
	for word in $words; do
		case " $value " in
		*" $word "*) ;;
		*) unfit differs "cgroup $1" "$words" "$file" "$value" ;;
		esac
	done
}
