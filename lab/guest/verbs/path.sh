# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Paths that are lost and come back while a load runs.

# FILE: steps in the background, each behind the seconds since the one before.
path_meanwhile() {
	while IFS=$TAB read -r seconds verb one two three; do
		sleep "$seconds"
		carry_out "$verb" "$one" "$two" "$three"
	done <"/job/$1" &
}

# LUN STATE: errors of a path are expected from here on, or no more.
path_mark() {
	block=$(readlink -f "/lab/$1.sys")
	printf 'blklab: path %s is %s\n' "${block##*/}" "$2" >/dev/kmsg
}

# KNOB PATTERN STATE: SCSI takes a state with its newline only.
path_state() {
	demand "$1" "$2"
	# shellcheck disable=SC2154 # demand assigns it
	echo "$3" 2>/out/.error >"$found" || unfit refused "$1" "$3" "$found"
	confirm "$1" "$2" "$3"
}
