#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Collect what "blklab capture --from" reads, into blklab-capture.tar or, with --folder DIR, into DIR.
#
#   sh collect.sh                    dm tables are readable by root only; everything else is not
#   ROOT=DIR sh collect.sh           DIR/sys and DIR/proc instead of /sys and /proc
#
# It reads files of sysfs and procfs and runs lsblk and "dmsetup table"; it writes nothing else. An identifier of
# a disk becomes a number, the same for all paths to that disk.
LC_ALL=C
export LC_ALL
umask 077
unset CDPATH
TAB=$(printf '\t')
BREAK='
'
UNKNOWN='its name has other characters than the names of Linux'
MOST=1024

fail() {
	echo "collect.sh: $1" >&2
	exit 1
}

ROOT=${ROOT%/}
[ -z "$ROOT" ] || ROOT=$(cd "$ROOT" && pwd) || fail "ROOT is no folder"
SYS=$ROOT/sys

# row PATH TEXT: a line of the file PATH of the capture. This, "first" and "place" start no process: a machine with 96
# disks has 3000 attributes. A name with a line break would begin a row of its own.
row() {
	case $1$2 in
	*"$BREAK"*) set -- skipped "a device$TAB$UNKNOWN" ;;
	esac
	case $1 in
	*[!A-Za-z0-9._:/!-]*) set -- skipped "a device$TAB$UNKNOWN" ;;
	esac
	printf '%s\t%s\n' "$1" "$2"
}

# first FILE: its first line, in $line. Attributes of sysfs are regular files of a page at most, never symlinks.
first() {
	line=
	[ -f "$1" ] && [ ! -h "$1" ] && [ -r "$1" ] && IFS= read -r line 2>/dev/null <"$1"
	[ -n "$line" ] && [ ${#line} -lt 4096 ]
}

# attributes PATH SOURCE NAME...
attributes() {
	into=$1
	from=$2
	shift 2
	for name do
		! first "$from/$name" || row "$into/$name" "$line"
	done
}

# place LINK: what a link of sysfs leads to, in $there, as the path below sysfs; false for one that leads elsewhere.
place() {
	cd -P "$1" 2>/dev/null || return 1
	there=${PWD#"$REAL"/}
	[ "$there" != "$PWD" ]
}

# identity PATH FILE...: the first identifier.
identity() {
	to=$1
	shift
	for file do
		! first "$file" || {
			row "$to/identity" "$line"
			return
		}
	done
}

# children PATH FOLDER: the names in a folder.
children() {
	listed=
	for child in "$2"/*; do
		if [ -e "$child" ] || [ -h "$child" ]; then
			listed="$listed ${child##*/}"
		fi
	done
	row "$1" "${listed# }"
}

dm_table() {
	first "$SYS/block/$1/dev" || return 0
	if [ -z "$ROOT" ]; then
		dmsetup table -j "${line%:*}" -m "${line#*:}" 2>/dev/null | dm_targets "$1"
	elif [ -f "$ROOT/dm/$1/table" ]; then
		dm_targets "$1" <"$ROOT/dm/$1/table"
	fi
}

# Keys of dm-crypt are in tables too: only targets whose fields are known are copied.
dm_targets() {
	while read -r start length target rest; do
		case $target in
		linear | striped | multipath) row "block/$1/table" "$start $length $target $rest" ;;
		*) row "block/$1/table" "$start $length $target" ;;
		esac
	done
}

queues() {
	for queue in "$SYS/block/$1/mq"/*; do
		[ -d "$queue" ] || continue
		tags=0
		first "$queue/nr_tags" && tags=$line
		first "$queue/cpu_list"
		row "block/$1/mq" "${queue##*/}$TAB$tags$TAB$line"
	done
}

partitions() {
	for part in "$SYS/block/$1"/*/partition; do
		[ -f "$part" ] || continue
		part=${part%/partition}
		attributes "block/$1/part/${part##*/}" "$part" dev start size
	done
}

md_members() {
	for member in "$SYS/block/$1/md"/dev-*; do
		[ -d "$member" ] || continue
		first "$member/slot" || line=none
		row "block/$1/members" "$line$TAB${member##*/dev-}"
	done
}

block_device() {
	device=$SYS/block/$1
	own=block/$1
	place "$device" || {
		row skipped "$1${TAB}its link leads nowhere, or out of sysfs"
		return
	}
	row "$own/place" "$there"
	attributes "$own" "$device" dev size ro removable hidden nsid ana_state
	attributes "$own/queue" "$device/queue" scheduler nr_requests read_ahead_kb max_sectors_kb max_hw_sectors_kb \
		max_segments rotational nomerges rq_affinity io_timeout wbt_lat_usec logical_block_size
	attributes "$own/device" "$device/device" queue_depth type model vendor
	children "$own/slaves" "$device/slaves"
	queues "$1"
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
		md_members "$1"
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
		*[!A-Za-z0-9._:!-]* | .*) row skipped "a block device$TAB$UNKNOWN" ;;
		*)
			[ -z "$DISKS" ] || case " $DISKS " in *" $name "*) ;; *) continue ;; esac
			set -- "$@" "$name"
			;;
		esac
	done
	[ -z "$virtual" ] || row skipped "${virtual#, }${TAB}over files, memory or the network"
	[ $# -le $MOST ] || fail "$# block devices in $SYS/block, at most $MOST are collected: name them in DISKS=\"sda sdb ...\""
	for name do
		block_device "$name"
	done
}

controllers() {
	for host in "$SYS"/class/scsi_host/host*; do
		place "$host" || continue
		row "host/${host##*/}/place" "$there"
		attributes "host/${host##*/}" "$host" can_queue cmd_per_lun sg_tablesize proc_name nr_hw_queues
	done
	for port in "$SYS"/class/sas_port/port-*; do
		first "$port/num_phys" || continue
		phys=$line
		for phy in "$port"/device/phy-*; do
			first "$SYS/class/sas_phy/${phy##*/}/negotiated_linkrate" && break
		done
		row sas "${port##*/}$TAB$phys$TAB$line"
	done
	for controller in "$SYS"/class/nvme/nvme*; do
		place "$controller" || continue
		own=nvme/${controller##*/}
		row "$own/place" "$there"
		attributes "$own" "$controller" transport numa_node queue_count sqsize state model
	done
	for subsystem in "$SYS"/class/nvme-subsystem/nvme-subsys*; do
		place "$subsystem" || continue
		own=nvme-subsystem/${subsystem##*/}
		children "$own/members" "$subsystem"
		attributes "$own" "$subsystem" iopolicy
	done
	for function in "$SYS"/bus/pci/devices/*; do
		first "$function/class" || continue
		case $line in
		0x01*)
			attributes "pci/${function##*/}" "$function" class vendor device numa_node \
				current_link_speed current_link_width max_link_speed max_link_width
			;;
		esac
	done
}

collect() {
	row about "format 1"
	! first "$ROOT/proc/sys/kernel/osrelease" || row about "kernel $line"
	block_devices
	controllers
}

# Write the files of $ROWS; identifiers become numbers, the same for all paths to a disk.
write_files() {
	cd "$OUT" || fail "cannot enter $OUT"
	{
		echo .
		awk -F '\t' 'sub("/[^/]*$", "", $1) && !made[$1]++ { print $1 }' "$ROWS"
	} | xargs mkdir -p || fail "cannot make folders in $OUT"
	awk -F '\t' '
		function put(path, text) {
			if (path != last)
				close(last)
			last = path
			if (written[path]++)
				print text >>path
			else
				print text >path
		}
		{ text = substr($0, length($1) + 2) }
		$1 !~ "/identity$" { put($1, text); next }
		{
			if (!(text in number))
				number[text] = ++count
			put($1, number[text])
		}
	' "$ROWS" || fail "cannot write in $OUT"
	if [ -z "$ROOT" ]; then
		lsblk -r -n -o KNAME,TYPE >./lsblk 2>/dev/null
	elif [ -f "$ROOT/lsblk" ]; then
		cp "$ROOT/lsblk" lsblk
	fi
}

[ -d "$SYS/block" ] || fail "no folder $SYS/block: is sysfs mounted?"
REAL=$(cd -P "$SYS" && pwd -P) || fail "cannot enter $SYS"
HERE=$PWD
FOLDER=$(mktemp -d) || fail "cannot make a temporary folder"
trap 'exit 130' HUP INT TERM
trap 'rm -rf "$FOLDER"' EXIT
ROWS=$FOLDER/rows
OUT=$FOLDER/blklab-capture
if [ "$1" = --folder ] && [ -n "$2" ]; then
	OUT=$(cd "$2" && pwd) || fail "no folder $2"
else
	mkdir "$OUT"
fi
(collect) >"$ROWS" && (write_files) || exit 1
[ "$OUT" != "$FOLDER/blklab-capture" ] || {
	tar -C "$FOLDER" -cf "$HERE/blklab-capture.tar" blklab-capture || fail "cannot write blklab-capture.tar"
	echo "blklab-capture.tar"
}
