#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Repeats one boot without blklab and compares its results, which must be identical to the byte.
#
#   sh repeat.sh [FOLDER]     FOLDER for console.txt and results.txt (default: a new one below $TMPDIR)
#
# QEMU=PROGRAM names another QEMU. With GDB=PORT the guest waits for gdb before its first instruction.
# Exit status: 0 if the results are identical, 1 if they differ, 128 if the boot cannot be repeated.

set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 128
qemu=${QEMU:-@QEMU@}
# The lab's own QEMU, unless it was removed from the cache.
command -v "$qemu" >/dev/null || qemu=${qemu##*/}
made_with=@QEMU_VERSION@

fail() {
	printf 'repeat.sh: %s\n' "$1" >&2
	[ -z "${2:-}" ] || printf '  remedy: %s\n' "$2" >&2
	exit 128
}

# input NAME WHERE SHA256: set $found to the file in the folder of this script, else to WHERE (in the cache).
input() {
	found=$here/$1
	[ -e "$found" ] || found=$2
	[ -e "$found" ] || fail "$1 is neither in the folder of this script nor at $2" \
		"blklab store kit RUN $(basename "$here") --to DIR collects everything again and rebuilds what the cache has lost"
	printf '%s  %s\n' "$3" "$found" | sha256sum -c --status || fail "$found is not the file of this boot (sha256 $3)" \
		"blklab store kit RUN $(basename "$here") --to DIR"
}

command -v "$qemu" >/dev/null || fail "$qemu is not installed" "install QEMU for x86, or name it: QEMU=PROGRAM sh $0"
input kernel @KERNEL@ @KERNEL_SHA256@
# shellcheck disable=SC2034 # the line that starts QEMU has it
kernel=$found
input base.cpio @BASE@ @BASE_SHA256@
# shellcheck disable=SC2034
base=$found
input job.cpio "$here/job.cpio" @JOB_SHA256@
# shellcheck disable=SC2034
job=$found

if [ $# -gt 0 ]; then
	mkdir -p "$1" || fail "cannot make $1"
	out=$(cd "$1" && pwd) || fail "cannot enter $1"
else
	out=$(mktemp -d "${TMPDIR:-/tmp}/blklab-repeat.XXXXXX") || fail 'cannot make a folder' 'TMPDIR=DIR'
fi
[ ! -e "$out/results.txt" ] || fail "$out holds results already" 'give another folder'
cd "$out" || fail "cannot enter $out"

echo "repeat.sh: booting in $out"
# The library keeps QEMU's main loop off the virtual clock while the CPU executes. The lab's own QEMU takes another
# variable, because its library may be too new for the host's shell.
preload=LD_PRELOAD
! head -c 1000 "$(command -v "$qemu")" | grep -q BLKLAB_PRELOAD || preload=BLKLAB_PRELOAD
set -- timeout @SECONDS@ env "$preload=$here/steady.so" @COMMAND@
if [ -n "${GDB:-}" ]; then
	shift 2
	set -- "$@" -S -gdb "tcp:127.0.0.1:$GDB"
	echo "repeat.sh: waiting for gdb vmlinux -ex 'target remote :$GDB'"
fi
"$@" || fail "QEMU ended with $? in $out"

if [ ! -e "$here/expected.sha256" ]; then
	echo 'repeat.sh: done; the original boot left no results to compare with'
elif sha256sum -c --status "$here/expected.sha256"; then
	echo 'repeat.sh: the results are identical'
else
	echo "repeat.sh: the results are NOT the same: expected sha256 $(cut -d ' ' -f 1 "$here/expected.sha256")," \
		"got $(sha256sum <results.txt | cut -d ' ' -f 1)"
	echo "  it was made with QEMU $made_with; this is $("$qemu" --version | head -n 1)"
	exit 1
fi
