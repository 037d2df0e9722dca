# SPDX-License-Identifier: GPL-2.0-only
"""One kernel that contains all mutants: a number that is written to a parameter selects the one that is active."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

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
    header, code = ((Path(__file__).parent / Path(name).name).read_text() for name in (_HEADER, _CODE))
    code = code.replace("COUNT", str(-(-count // _ROW) * _ROW)).replace("REACHED", REACHED)
    return {_HEADER: header, _CODE: code, MAKEFILE: f"{makefile}\nobj-y += blklab_mutants.o\n"}


def reached_numbers(kernel_log: str) -> frozenset[int]:
    """The numbers of the mutants whose places were executed while a number was selected."""
    rows = [line.partition(REACHED)[2].strip() for line in kernel_log.splitlines() if REACHED in line]
    data = bytes.fromhex("".join(rows))
    return frozenset(8 * at + bit for at, byte in enumerate(data) for bit in range(8) if byte >> bit & 1)
