# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Further verbs of the runner, for guests whose disks are devices of QEMU: they are found by who they say they are,
# and what sysfs shows of them is kept in /out/inventory.

# The block device beside an attribute that has a value, waiting for disks that are still being probed.
# LUN ATTRIBUTE-PATTERN "VALUE<tab>BLOCK-PATTERN"
find_block() {
	wanted=${3%%"$TAB"*}
	below=${3#*"$TAB"}
	tries=0
	while [ "$tries" -lt 600 ]; do
		# shellcheck disable=SC2086
		for attribute in $2; do
			[ -r "$attribute" ] || continue
			has=
			read -r has <"$attribute"
			[ "$has" = "$wanted" ] || continue
			folder=${attribute%/*}
			# shellcheck disable=SC2086
			set -- "$1" "$2" "$3" $folder/$below
			if [ -e "$4/size" ]; then
				name_block "$1" "$(readlink -f "$4")"
				return
			fi
			break
		done
		sleep 0.1
		tries=$((tries + 1))
	done
	unfit "device $1: nothing that matches $2 reads $wanted"
}

keep() { printf '%s\t%s\n' "$1" "$2" >>/out/inventory; }

further() {
	case $1 in
	find) find_block "$2" "$3" "$4" ;;
	read)
		value=
		# shellcheck disable=SC2086
		set -- "$2" $3
		[ -r "$2" ] && value=$(cat "$2")
		keep "$1" "$value"
		;;
	place)
		# shellcheck disable=SC2086
		set -- "$2" $3
		keep "$1" "$(readlink -f "$2")"
		;;
	members)
		# shellcheck disable=SC2086
		set -- "$2" $3
		keep "$1" "$(cd "$(readlink -f "$2")" 2>/dev/null && echo *)"
		;;
	lose) (sleep "$3" && echo 1 >"/lab/$2.sys/device/delete") 3>&- & ;;
	*) unfit "unknown step $1" ;;
	esac
}
