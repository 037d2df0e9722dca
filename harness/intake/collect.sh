#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Collect what "blklab capture --from" reads, into blklab-capture.tar or, with --folder DIR, into DIR.
#
#   sh collect.sh                    dm tables are readable by root only; everything else is not
#   IDENTITIES=1 sh collect.sh       with the host name and the identifiers of disks
#   ROOT=DIR sh collect.sh           DIR/sys and DIR/proc instead of /sys and /proc
#
# It reads files of sysfs and procfs and runs lsblk and "dmsetup table"; it writes nothing else. Without IDENTITIES=1
# an identifier of a disk becomes a number, the same for all paths to that disk.
LC_ALL=C
export LC_ALL
umask 077
ROOT=${ROOT%/}
SYS=$ROOT/sys
MOST=1024

fail() {
	echo "collect.sh: $1" >&2
	exit 1
}

# copy FOLDER FILE...: regular files that can be read; attributes of sysfs are never symlinks.
copy() {
	to=$1
	shift
	for file do
		shift
		if [ -f "$file" ] && [ ! -h "$file" ] && [ -r "$file" ]; then
			set -- "$@" "$file"
		fi
	done
	[ $# -gt 0 ] || return 0
	mkdir -p "$to" || fail "cannot make $to"
	cp "$@" "$to/" 2>/dev/null
}

# attributes FOLDER SOURCE NAME...
attributes() {
	into=$1
	from=$2
	shift 2
	for name do
		shift
		set -- "$@" "$from/$name"
	done
	copy "$into" "$@"
}

# note FILE TEXT
note() {
	mkdir -p "${1%/*}" || fail "cannot make ${1%/*}"
	printf '%s\n' "$2" >"$1"
}

# A link of sysfs as the path below it of what it leads to; nothing for one that leads nowhere or elsewhere.
place() {
	there=$(cd -P "$1" 2>/dev/null && pwd -P) || return 1
	case $there in
	"$REAL"/*) printf '%s\n' "${there#"$REAL"/}" ;;
	*) return 1 ;;
	esac
}

# first FILE: its first line, in $line.
first() {
	line=
	[ -f "$1" ] && [ ! -h "$1" ] && [ -r "$1" ] && IFS= read -r line 2>/dev/null <"$1"
	[ -n "$line" ]
}

# identity FOLDER FILE...: the first identifier, as a number that its paths have in common.
identity() {
	to=$1
	shift
	for file do
		first "$file" || continue
		number=$(grep -nxF -e "$line" "$KNOWN") || {
			printf '%s\n' "$line" >>"$KNOWN"
			number=$(grep -nxF -e "$line" "$KNOWN")
		}
		note "$to/identity" "${number%%:*}"
		[ "$IDENTITIES" != 1 ] || note "$to/wwid" "$line"
		return
	done
}

children() {
	listed=
	for child in "$1"/*; do
		if [ -e "$child" ] || [ -h "$child" ]; then
			listed="$listed ${child##*/}"
		fi
	done
	printf '%s\n' "${listed# }"
}

# Keys of dm-crypt are in tables too: only targets whose fields are known are copied.
dm_table() {
	first "$SYS/block/$1/dev" || return 0
	[ -z "$ROOT" ] || {
		copy "$OUT/block/$1" "$ROOT/dm/$1/table"
		return 0
	}
	dmsetup table -j "${line%:*}" -m "${line#*:}" 2>/dev/null | while read -r start length target rest; do
		case $target in
		linear | striped | multipath) echo "$start $length $target $rest" ;;
		*) echo "$start $length $target" ;;
		esac
	done >"$OUT/block/$1/table"
}

queues() {
	for queue in "$SYS/block/$1/mq"/*; do
		[ -d "$queue" ] || continue
		tags=0
		first "$queue/nr_tags" && tags=$line
		first "$queue/cpu_list"
		printf '%s\t%s\t%s\n' "${queue##*/}" "$tags" "$line"
	done
}

partitions() {
	for part in "$SYS/block/$1"/*/partition; do
		[ -f "$part" ] || continue
		part=${part%/partition}
		attributes "$OUT/block/$1/part/${part##*/}" "$part" dev start size
	done
}

md_members() {
	for member in "$SYS/block/$1/md"/dev-*; do
		[ -d "$member" ] || continue
		first "$member/slot" || line=none
		printf '%s\t%s\n' "$line" "${member##*/dev-}"
	done
}

block_device() {
	device=$SYS/block/$1
	own=$OUT/block/$1
	where=$(place "$device") || {
		printf '%s\tits link leads nowhere, or out of sysfs\n' "$1" >>"$OUT/skipped"
		return
	}
	note "$own/place" "$where"
	attributes "$own" "$device" dev size ro removable hidden nsid ana_state
	attributes "$own/queue" "$device/queue" scheduler nr_requests read_ahead_kb max_sectors_kb max_hw_sectors_kb \
		max_segments rotational nomerges rq_affinity io_timeout wbt_lat_usec logical_block_size
	attributes "$own/device" "$device/device" queue_depth type model vendor
	note "$own/slaves" "$(children "$device/slaves")"
	queues "$1" >"$own/mq"
	partitions "$1"
	case $1 in
	dm-*)
		attributes "$own/dm" "$device/dm" suspended
		dm_table "$1"
		;;
	md*)
		attributes "$own/md" "$device/md" level raid_disks chunk_size layout array_state degraded sync_action component_size \
			stripe_cache_size preread_bypass_threshold group_thread_cnt sync_speed_min sync_speed_max sync_io_depth
		attributes "$own/bitmap" "$device/md/bitmap" location
		md_members "$1" >"$own/members"
		;;
	*) identity "$own" "$device/wwid" "$device/device/wwid" ;;
	esac
}

block_devices() {
	set --
	virtual=
	for device in "$SYS"/block/*; do
		name=${device##*/}
		case $name in
		\*) ;;
		loop* | ram* | zram* | fd[0-9]* | nbd*) virtual="$virtual, $name" ;;
		*[!A-Za-z0-9._:!-]* | .*) printf 'a block device\tits name has other characters than the names of Linux\n' >>"$OUT/skipped" ;;
		*)
			[ -z "$DISKS" ] || case " $DISKS " in *" $name "*) ;; *) continue ;; esac
			set -- "$@" "$name"
			;;
		esac
	done
	[ -z "$virtual" ] || printf '%s\tover files, memory or the network\n' "${virtual#, }" >>"$OUT/skipped"
	[ $# -le $MOST ] || fail "$# block devices in $SYS/block, at most $MOST are collected: name them in DISKS=\"sda sdb ...\""
	for name do
		block_device "$name"
	done
}

controllers() {
	for host in "$SYS"/class/scsi_host/host*; do
		where=$(place "$host") || continue
		note "$OUT/host/${host##*/}/place" "$where"
		attributes "$OUT/host/${host##*/}" "$host" can_queue cmd_per_lun sg_tablesize proc_name nr_hw_queues
	done
	for port in "$SYS"/class/sas_port/port-*; do
		first "$port/num_phys" || continue
		phys=$line
		for phy in "$port"/device/phy-*; do
			first "$SYS/class/sas_phy/${phy##*/}/negotiated_linkrate" && break
		done
		printf '%s\t%s\t%s\n' "${port##*/}" "$phys" "$line" >>"$OUT/sas"
	done
	for controller in "$SYS"/class/nvme/nvme*; do
		where=$(place "$controller") || continue
		own=$OUT/nvme/${controller##*/}
		note "$own/place" "$where"
		attributes "$own" "$controller" transport numa_node queue_count sqsize state model
		[ "$IDENTITIES" != 1 ] || attributes "$own" "$controller" serial subsysnqn address
	done
	for subsystem in "$SYS"/class/nvme-subsystem/nvme-subsys*; do
		place "$subsystem" >/dev/null || continue
		own=$OUT/nvme-subsystem/${subsystem##*/}
		note "$own/members" "$(children "$subsystem")"
		attributes "$own" "$subsystem" iopolicy
	done
	for function in "$SYS"/bus/pci/devices/*; do
		first "$function/class" || continue
		case $line in
		0x01*)
			attributes "$OUT/pci/${function##*/}" "$function" class vendor device numa_node \
				current_link_speed current_link_width max_link_speed max_link_width
			note "$OUT/pci/${function##*/}/interrupts" "$(children "$function/msi_irqs")"
			;;
		esac
	done
}

collect() {
	: >"$OUT/skipped"
	{
		echo "format 1"
		! first "$ROOT/proc/sys/kernel/osrelease" || echo "kernel $line"
		! { [ "$IDENTITIES" = 1 ] && first "$ROOT/proc/sys/kernel/hostname"; } || echo "host $line"
	} >"$OUT/about"
	block_devices
	controllers
	copy "$OUT/proc" "$ROOT/proc/interrupts" "$ROOT/proc/mdstat"
	copy "$OUT/cpu" "$SYS/devices/system/cpu/online"
	for node in "$SYS"/devices/system/node/node*; do
		attributes "$OUT/node/${node##*/}" "$node" cpulist
	done
	if [ -z "$ROOT" ]; then
		lsblk -r -n -o KNAME,TYPE >"$OUT/lsblk" 2>/dev/null
	else
		copy "$OUT" "$ROOT/lsblk"
	fi
}

[ -d "$SYS/block" ] || fail "no folder $SYS/block: is sysfs mounted?"
REAL=$(cd -P "$SYS" && pwd -P) || fail "cannot enter $SYS"
KNOWN=$(mktemp) || fail "cannot make a temporary file"
FOLDER=
trap 'exit 130' HUP INT TERM
trap 'rm -f "$KNOWN"; [ -z "$FOLDER" ] || rm -rf "$FOLDER"' EXIT
if [ "$1" = --folder ] && [ -n "$2" ]; then
	OUT=$2
else
	FOLDER=$(mktemp -d) || fail "cannot make a temporary folder"
	OUT=$FOLDER/blklab-capture
	mkdir "$OUT"
fi
# No file of sysfs is as large as 1 MiB.
(ulimit -f 2048 && collect) || exit 1
[ -z "$FOLDER" ] || {
	tar -C "$FOLDER" -cf blklab-capture.tar blklab-capture || fail "cannot write blklab-capture.tar"
	echo "blklab-capture.tar"
}
