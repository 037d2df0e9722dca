# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Loop devices.

# NAME NUMBER "FILE BYTES LOSETUP-WORD"
loop_attach() {
	name=$1 node=loop$2
	# The words are separated by blanks and contain none.
	# shellcheck disable=SC2086
	set -- $3
	# Blocks that were only reserved would be read without the disk.
	[ "$2" = 0 ] || head -c "$2" /dev/zero 3>&- 2>/out/.error >"$1" || failed "write $1"
	sync
	# A bare losetup would be the applet of busybox.
	/bin/losetup "$3" "/dev/$node" "$1" 3>&- 2>/out/.error || failed "losetup $name"
	name_block "$name" "/sys/block/$node"
}
