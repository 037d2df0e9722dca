#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# qemu-reproduce.sh QEMU SOURCE: show the defects that the patches of this folder mend. QEMU is a qemu-system-x86_64
# (with words, if it needs any: "./qemu-system-x86_64 -L pc-bios"), SOURCE the folder of its source.
# Needs gcc that makes 32-bit code, and glib's headers. Exits with 0 if neither defect shows, else with 1.
set -eu
qemu=$1
source=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
status=0

for guest in qemu-icount-warp qemu-vcpu-index; do
    gcc -m32 -nostdlib -static -Wl,-Ttext=0x100000,--build-id=none,-z,noexecstack \
        -o "$work/$guest" "$here/$guest.S"
done
headers=$(dirname "$(find "$source/include" -name qemu-plugin.h)")
gcc -shared -fPIC -O2 -Wall -Wextra -o "$work/delay.so" "$here/qemu-delay.c"
# shellcheck disable=SC2046
gcc -shared -fPIC -O2 -Wall -Wextra -I"$headers" $(pkg-config --cflags glib-2.0) \
    -o "$work/plugin.so" "$here/qemu-vcpu-index.c"

boot() {
    # The guest ends QEMU by a write to a port, which makes the exit status 1 or greater.
    $qemu -M pc -m 64M -nodefaults -display none -device isa-debug-exit,iobase=0x501,iosize=1 "$@" || true
}

echo "clock: late wake-ups of 1,000, and the longest delay in ns (both in hex; must be 0), in three runs"
for run in 1 2 3; do
    # Empty commands for the monitor keep the main loop awake. They do nothing in the guest.
    yes '' | LD_PRELOAD=$work/delay.so boot -accel tcg -icount shift=0,sleep=off -monitor stdio \
        -debugcon "file:$work/late" -kernel "$work/qemu-icount-warp" >"$work/monitor"
    echo "  run $run: $(cat "$work/late")"
    [ "$(cat "$work/late")" = "00000000 00000000" ] || status=1
done

for words in "-accel tcg,thread=single" "-accel tcg -icount shift=0,sleep=off" "-accel tcg,thread=multi"; do
    echo "plugin with $words: vcpu_index, callbacks, inline operations (equal for 1, 2 and 3)"
    # shellcheck disable=SC2086
    boot $words -smp 4 -plugin "$work/plugin.so" -d plugin -D "$work/log" -kernel "$work/qemu-vcpu-index"
    sed 's/^/  /' "$work/log"
    awk '$1 > 0 && ($2 < 1000 || $2 != $3) { wrong = 1 } END { exit wrong || NR != 4 }' "$work/log" || status=1
done
exit $status
