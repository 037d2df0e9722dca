# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# The verb of the runner for guests with a lockless bitmap, which the mdadm of Debian 13 (4.4) cannot make.

# FILE WORD BYTES: replace a word of four bytes.
put_word() {
	printf '%b' "$3" | dd of="$1" bs=4 seek="$2" conv=notrunc,fsync 3>&- 2>/out/.error ||
		unfit "write a superblock to $1: $(cat /out/.error)"
}

# FILE VALUE
put_value() { write_value "$1" "$2" || unfit "write $2 to $1: $(cat /out/.error)"; }

# NAME NUMBER "MDADM-WORD...", with an internal bitmap, which becomes a lockless one while the array is stopped.
make_lockless() {
	name=$1 number=$2 md=/sys/block/md$2/md
	make_array "$1" "$2" "$3"
	read -r location <"$md/bitmap/location"
	mdadm --stop "/dev/md$number" 3>&- >/out/.error 2>&1 || unfit "mdadm --stop $name: $(tail -n 3 /out/.error)"
	put_value /sys/module/md_mod/parameters/new_array "md$number"
	put_value "$md/metadata_version" 1.2
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
			put_value "$md/new_dev" "$device"
			;;
		esac
	done
	put_value "$md/bitmap_type" llbitmap
	put_value "$md/array_state" active
	# Only a bitmap that is in use has the folder.
	[ -e "$md/llbitmap/bits" ] || unfit "array $name: it has no lockless bitmap"
}

lockless() {
	case $1 in
	lockless) make_lockless "$2" "$3" "$4" ;;
	*) unfit "unknown step $1" ;;
	esac
}
