# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Verbs of the runner for guests with filesystems or cgroups.

# NAME MEMBER "TYPE MOUNT-OPTIONS MKFS-WORD..."
make_filesystem() {
	name=$1 member=$2
	# The words are separated by blanks and contain none.
	# shellcheck disable=SC2086
	set -- $3
	type=$1 options=$2
	shift 2
	"/bin/mkfs.$type" "$@" "/lab/$member" 3>&- >/out/.error 2>&1 ||
		unfit "mkfs.$type $name: $(tail -n 3 /out/.error)"
	mkdir "/lab/$name"
	mount -t "$type" -o "$options" "/lab/$member" "/lab/$name" 2>/out/.error ||
		unfit "mount $name: $(cat /out/.error)"
	ln -s "/lab/$member.sys" "/lab/$name.sys"
	block=$(readlink -f "/lab/$member")
	printf 'device\t/lab/%s\t%s\n' "$name" "${block##*/}" >>/out/readback
	while read -r _ folder mounted shown _; do
		[ "$folder" != "/lab/$name" ] ||
			printf 'mount[%s]\t/proc/mounts\t%s %s\n' "$name" "$mounted" "$shown" >>/out/readback
	done </proc/mounts
}

# What a load reads must be there before its window, and must come from the disks.
lay_out() {
	fio --create_only=1 --output=/out/.error "/job/$1.fio" >/out/.error 2>&1 3>&- ||
		unfit "fio ended with $? when it laid out the files of load $1: $(tail -n 3 /out/.error)"
	sync
	echo 3 >/proc/sys/vm/drop_caches
}

groups=/sys/fs/cgroup

# NAME DEVICE "FILE WORD...": a line of a cgroup's file is a device number and its words.
limit() {
	if [ ! -e "$groups/cgroup.procs" ]; then
		mount -t cgroup2 cgroup2 "$groups" 2>/out/.error || unfit "mount cgroup2: $(cat /out/.error)"
		write_value "$groups/cgroup.subtree_control" +io || unfit "cgroup2 has no io controller"
	fi
	[ -d "$groups/$1" ] || mkdir "$groups/$1"
	file=$groups/$1/${3%% *} words=${3#* }
	[ -e "$file" ] || unfit "cgroup $1: there is no $file"
	read -r number <"/lab/$2.sys/dev"
	write_value "$file" "$number $words" || unfit "cgroup $1: the kernel refused $number $words in $file"
	value=
	while read -r shown all; do
		[ "$shown" != "$number" ] || value=$all
	done <"$file"
	printf '%s[%s]\t%s\t%s\n' "${3%% *}" "$1" "$file" "$value" >>/out/readback
	for word in $words; do
		case " $value " in
		*" $word "*) ;;
		*) unfit "cgroup $1: asked for $words, $file reads $value" ;;
		esac
	done
}

further() {
	case $1 in
	cgroup) limit "$2" "$3" "$4" ;;
	filesystem) make_filesystem "$2" "$3" "$4" ;;
	layout) lay_out "$2" ;;
	*) unfit "unknown step $1" ;;
	esac
}
