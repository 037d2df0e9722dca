# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Disks found by their identity in sysfs, the interrupts of their controllers, queues of the lab's own disks, and
# attributes kept in /out/inventory.

# LUN ATTRIBUTE-PATTERN "VALUE<tab>BLOCK-PATTERN": the block device whose attribute has a value; waits for disks that
# are still being probed.
sysfs_find() {
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
	unfit unread "device $1" "$2" "$wanted"
}

# The MSI interrupts of a PCI device, or its pin interrupt.
interrupts_of() {
	found=$(cd "$1/msi_irqs" 2>/dev/null && echo *)
	[ -n "$found" ] || read -r found <"$1/irq"
}

# KNOB FOLDER-PATTERN PROCESSOR
sysfs_route() {
	# shellcheck disable=SC2086
	set -- "$1" $2 "$3"
	interrupts_of "$2"
	for irq in $found; do
		printf '%s' "$3" 2>/out/.error >"/proc/irq/$irq/smp_affinity_list" || unfit routed "$1" "$irq"
		confirm "$1" "/proc/irq/$irq/smp_affinity_list" "$3"
	done
}

# KNOB QUEUE-FOLDER: requests pass the queue one by one and at once. The scheduler comes first: it may switch
# throttling on.
sysfs_bare() {
	for setting in scheduler=none nomerges=2 iostats=0; do
		write_knob "$1.${setting%=*}" "$2/${setting%=*}" "${setting#*=}"
	done
	# A kernel built without writeback throttling has no such file, or none that can be read.
	{ read -r value <"$2/wbt_lat_usec"; } 2>/dev/null || return 0
	write_knob "$1.wbt_lat_usec" "$2/wbt_lat_usec" 0
	confirm "$1.wbt_lat_usec" "$2/wbt_lat_usec" 0
}

keep() { printf '%s\t%s\n' "$1" "$2" >>/out/inventory; }

# KEY PATTERN, as for the verbs below
sysfs_read() {
	value=
	# shellcheck disable=SC2086
	set -- "$1" $2
	[ -r "$2" ] && value=$(cat "$2")
	keep "$1" "$value"
}

sysfs_place() {
	# shellcheck disable=SC2086
	set -- "$1" $2
	keep "$1" "$(readlink -f "$2")"
}

sysfs_members() {
	# shellcheck disable=SC2086
	set -- "$1" $2
	keep "$1" "$([ -d "$2" ] && cd "$(readlink -f "$2")" && echo *)"
}

sysfs_interrupts() {
	# shellcheck disable=SC2086
	set -- "$1" $2
	interrupts_of "$2"
	keep "$1" "$found"
}
