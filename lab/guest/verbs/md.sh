# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# md arrays; the mdadm of Debian 13 (4.4) cannot make a lockless bitmap.

# NAME NUMBER "MDADM-WORD..."
md_array() {
	# Arguments and devices are separated by blanks.
	# shellcheck disable=SC2086
	mdadm --create "/dev/md$2" --run --metadata=1.2 $3 3>&- >/out/.error 2>&1 || failed "mdadm --create $1"
	name_block "$1" "/sys/block/md$2"
}

# FILE WORD BYTES: replace a word of four bytes.
put_word() {
	printf '%b' "$3" | dd of="$1" bs=4 seek="$2" conv=notrunc,fsync 3>&- 2>/out/.error || failed "write $1"
}

# With an internal bitmap, which becomes a lockless one while the array is stopped.
md_lockless() {
	name=$1 number=$2 md=/sys/block/md$2/md
	md_array "$1" "$2" "$3"
	read -r location <"$md/bitmap/location"
	mdadm --stop "/dev/md$number" 3>&- >/out/.error 2>&1 || failed "mdadm --stop $name"
	write_knob "array $name" /sys/module/md_mod/parameters/new_array "md$number"
	write_knob "array $name" "$md/metadata_version" 1.2
	# The bitmap's state: first use, and clean.
	state='\0010\0000\0000\0000'
	case " $3 " in *' --assume-clean '*) state='\0030\0000\0000\0000' ;; esac
	for word in $3; do
		case $word in
		/lab/*)
			# The superblock of the array is at sector 8, that of its bitmap location sectors behind.
			first=$(((8 + ${location#+}) * 128))
			# BITMAP_MAJOR_LOCKLESS
			put_word "$word" $((first + 1)) '\0006\0000\0000\0000'
			put_word "$word" $((first + 12)) "$state"
			read -r device <"$word.sys/dev"
			write_knob "array $name" "$md/new_dev" "$device"
			;;
		esac
	done
	write_knob "array $name" "$md/bitmap_type" llbitmap
	write_knob "array $name" "$md/array_state" active
	# Only a bitmap that is in use has the folder.
	demand "array $name" "$md/llbitmap/bits"
}
