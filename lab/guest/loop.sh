# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# The verb of the runner for guests with loop devices.

# NAME NUMBER "FILE BYTES LOSETUP-WORD"
make_loop() {
	name=$1 node=loop$2
	# The words are separated by blanks and contain none.
	# shellcheck disable=SC2086
	set -- $3
	# Blocks that were only reserved would be read without the disk.
	[ "$2" = 0 ] || head -c "$2" /dev/zero 3>&- 2>/out/.error >"$1" || unfit "write $1: $(cat /out/.error)"
	sync
	# A bare losetup would be the applet of busybox.
	/bin/losetup "$3" "/dev/$node" "$1" 3>&- 2>/out/.error || unfit "losetup $name: $(cat /out/.error)"
	name_block "$name" "/sys/block/$node"
}

even_further() {
	case $1 in
	loop) make_loop "$2" "$3" "$4" ;;
	*) unfit "unknown step $1" ;;
	esac
}
