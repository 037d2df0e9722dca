# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Verbs of the runner for guests whose loads lose a path.

paths() {
	case $1 in
	meanwhile)
		while IFS=$TAB read -r seconds verb one two three; do
			sleep "$seconds"
			carry_out "$verb" "$one" "$two" "$three"
		done <"/job/$2" &
		;;
	# Errors of a path are expected from here on, or no more.
	path)
		block=$(readlink -f "/lab/$2.sys")
		printf 'blklab: path %s is %s\n' "${block##*/}" "$3" >/dev/kmsg
		;;
	# SCSI takes a state with its newline only.
	state)
		awaited "$3" || unfit "$2: nothing matches $3"
		# shellcheck disable=SC2154 # awaited assigns it
		echo "$4" 2>/out/.error >"$found" || unfit "$2: the kernel refused $4 in $found"
		confirm "$2" "$3" "$4"
		;;
	message)
		dmsetup message "$2" 0 "$3" >/out/.error 2>&1 3>&- || unfit "dmsetup message $2: $(cat /out/.error)"
		;;
	*) unfit "unknown step $1" ;;
	esac
}
