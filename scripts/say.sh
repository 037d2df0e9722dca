# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Messages of the set-up scripts. Standard output is kept for what a caller reads.

say() {
    printf 'blklab: %s\n' "$1" >&2
}

# die WHAT REMEDY: 128 says that the lab is broken, never that a kernel is bad.
die() {
    say "$1"
    printf '  remedy: %s\n' "$2" >&2
    exit 128
}
