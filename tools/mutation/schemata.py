# SPDX-License-Identifier: GPL-2.0-only
"""One kernel that contains all mutants: a number that is written to a parameter selects the one that is active."""

from collections.abc import Iterator, Mapping, Sequence

from tools.mutation.places import Mutant

PARAMETER = "/sys/module/blklab_mutants/parameters/number"
REACHED = "blklab_mutants: reached "
"""Begins the lines of the kernel's log that tell, a bit for each mutant, which places were executed."""
NONE = 1
"""The number that selects no mutant: 0 ends the observation, the others are those of mutants."""
FIRST = 2
WIDTH = 5
_HEADER, _CODE, MAKEFILE = "include/linux/blklab_mutants.h", "block/blklab_mutants.c", "block/Makefile"
_INCLUDE = "#include <linux/blklab_mutants.h>\n"
_HEADER_TEXT = """\
/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_BLKLAB_MUTANTS_H
#define _LINUX_BLKLAB_MUTANTS_H
#include <linux/compiler.h>
#include <linux/types.h>
extern int blklab_mutant;
extern u8 blklab_reached[];
/* 1 if mutant n is selected, else 0: opaque, so that gcc makes no path of its own for either. */
#define blklab_is(n) ({ \\
	int __is = blklab_mutant == (n); \\
	blklab_reached[n] = 1; \\
	OPTIMIZER_HIDE_VAR(__is); \\
	__is; })
/* The condition, inverted if mutant n is selected. Dead code of a constant one may call what is not linked. */
#define blklab_not(n, condition) ({ \
	int __cond = !!(condition); \
	__builtin_constant_p(__cond) ? __cond : __cond ^ blklab_is(n); })
#endif
"""
_CODE_TEXT = """\
// SPDX-License-Identifier: GPL-2.0-only
#include <linux/blklab_mutants.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/string.h>

#define ROW 32

int blklab_mutant;
EXPORT_SYMBOL_GPL(blklab_mutant);
u8 blklab_reached[COUNT];
EXPORT_SYMBOL_GPL(blklab_reached);

static int blklab_select(const char *text, const struct kernel_param *kp)
{
	int number, at, ret = kstrtoint(text, 10, &number);
	u8 row[ROW];

	if (ret)
		return ret;
	if (number < 0 || number >= COUNT)
		return -EINVAL;
	WRITE_ONCE(blklab_mutant, number);
	if (number) {
		memset(blklab_reached, 0, COUNT);
		return 0;
	}
	for (at = 0; at < COUNT; at++) {
		if (at % (8 * ROW) == 0)
			memset(row, 0, ROW);
		row[at / 8 % ROW] |= blklab_reached[at] << at % 8;
		if (at % (8 * ROW) == 8 * ROW - 1)
			printk(KERN_DEBUG "REACHED%*phN\\n", ROW, row);
	}
	return 0;
}

static const struct kernel_param_ops blklab_ops = { .set = blklab_select };
module_param_cb(number, &blklab_ops, NULL, 0200);
"""
_ROW = 256


def number_mutants(mutants: Sequence[Mutant]) -> Mapping[int, Mutant]:
    return dict(enumerate(mutants, start=FIRST))


def schema(source: bytes, mutants: Mapping[int, Mutant]) -> bytes:
    """``source``, a C file, with all of its mutants by their numbers. Lines keep their order, one comes before them."""
    ordered = sorted(mutants.items(), key=lambda pair: (pair[1].start, -pair[1].end, pair[0]))
    return (_INCLUDE + "".join(_render(source, 0, len(source), ordered))).encode()


def _render(source: bytes, start: int, end: int, inside: Sequence[tuple[int, Mutant]]) -> Iterator[str]:
    at = start
    while inside:
        (number, outer), *rest = inside
        nested = [pair for pair in rest if pair[1].end <= outer.end]
        yield source[at : outer.start].decode()
        text = "".join(_render(source, outer.start, outer.end, nested))
        yield outer.schema.format(text=text, number=number, **{"is": f"blklab_is({number})"})
        at, inside = outer.end, rest[len(nested) :]
    yield source[at:end].decode()


def further_files(makefile: str, count: int) -> Mapping[str, str]:
    """The files that select among ``count`` numbers; ``makefile`` is that of block/."""
    code = _CODE_TEXT.replace("COUNT", str(-(-count // _ROW) * _ROW)).replace("REACHED", REACHED)
    return {_HEADER: _HEADER_TEXT, _CODE: code, MAKEFILE: f"{makefile}\nobj-y += blklab_mutants.o\n"}


def reached_numbers(kernel_log: str) -> frozenset[int]:
    """The numbers of the mutants whose places were executed while a number was selected."""
    rows = [line.partition(REACHED)[2].strip() for line in kernel_log.splitlines() if REACHED in line]
    data = bytes.fromhex("".join(rows))
    return frozenset(8 * at + bit for at, byte in enumerate(data) for bit in range(8) if byte >> bit & 1)
