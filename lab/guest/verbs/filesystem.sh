# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Filesystems on block devices, and the files of loads.

# NAME MEMBER "TYPE MOUNT-OPTIONS MKFS-WORD..."
filesystem_make() {
	name=$1 member=$2
	# The words are separated by blanks and contain none.
	# shellcheck disable=SC2086
	set -- $3
	type=$1 options=$2
	shift 2
	"/bin/mkfs.$type" "$@" "/lab/$member" 3>&- >/out/.error 2>&1 || failed "mkfs.$type $name"
	mkdir "/lab/$name"
	mount -t "$type" -o "$options" "/lab/$member" "/lab/$name" 2>/out/.error || failed "mount $name"
	ln -s "/lab/$member.sys" "/lab/$name.sys"
	block=$(readlink -f "/lab/$member")
	printf 'device\t/lab/%s\t%s\n' "$name" "${block##*/}" >>/out/readback
	while read -r _ folder mounted shown _; do
		[ "$folder" != "/lab/$name" ] ||
			printf 'mount[%s]\t/proc/mounts\t%s %s\n' "$name" "$mounted" "$shown" >>/out/readback
	done </proc/mounts
}

# LOAD: what it reads must be there before its window, and must come from the disks.
filesystem_layout() {
	fio --create_only=1 --output=/out/.error "/job/$1.fio" >/out/.error 2>&1 3>&- ||
		unfit ended fio "$1" $? "$(tail -n 3 /out/.error)"
	sync
	echo 3 >/proc/sys/vm/drop_caches
}
