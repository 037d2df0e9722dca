# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Messages of the set-up scripts, on standard error; standard output is for the caller.

say() {
    printf 'blklab: %s\n' "$1" >&2
}

# die WHAT REMEDY: exit with 128, the lab is broken. A lower status would mean a bad kernel.
die() {
    say "$1"
    printf '  remedy: %s\n' "$2" >&2
    exit 128
}
