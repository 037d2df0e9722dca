# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Further verbs of the runner, for guests whose disks are QEMU devices: disks are found by their identity in sysfs,
# and their sysfs attributes are kept in /out/inventory.

# The block device whose attribute has a value; waits for disks that are still being probed.
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

# The MSI interrupts of a PCI device, or its pin interrupt.
interrupts_of() {
	found=$(cd "$1/msi_irqs" 2>/dev/null && echo *)
	[ -n "$found" ] || read -r found <"$1/irq"
}

route() {
	# shellcheck disable=SC2086
	set -- "$1" $2 "$3"
	interrupts_of "$2"
	for irq in $found; do
		printf '%s' "$3" 2>/out/.error >"/proc/irq/$irq/smp_affinity_list" ||
			unfit "$1: the kernel routes interrupt $irq itself"
		confirm "$1" "/proc/irq/$irq/smp_affinity_list" "$3"
	done
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
		keep "$1" "$([ -d "$2" ] && cd "$(readlink -f "$2")" && echo *)"
		;;
	interrupts)
		# shellcheck disable=SC2086
		set -- "$2" $3
		interrupts_of "$2"
		keep "$1" "$found"
		;;
	route) route "$2" "$3" "$4" ;;
	lose) (sleep "$3" && echo 1 >"/lab/$2.sys/device/delete") 3>&- & ;;
	*) unfit "unknown step $1" ;;
	esac
}
