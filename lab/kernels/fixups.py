# SPDX-License-Identifier: GPL-2.0-only
"""Make variables and options that old trees need with current compilers: a table with ranges of kernels and reasons."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lab.kernels.release import Release, parse_range


@dataclass(frozen=True)
class Fixup:
    """Applies to kernels in the range ``kernels`` (empty: all) built by a compiler from ``compiler`` on (0: any).

    ``variables`` are added to make's, ``options`` are lines of a configuration fragment.
    """

    because: str
    kernels: str = ""
    compiler: int = 0
    variables: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()


FIXUPS = (
    Fixup(
        "CONFIG_WERROR came with 5.15 (3fe617ccafd6); older trees name -Werror in single Makefiles",
        kernels="< 5.15",
        variables=(("KCFLAGS", "-Wno-error"),),
    ),
    Fixup(
        "gcc 12 finds a use after free in tools/lib/subcmd, which is built with -Werror (52a9dab6d892, 5.17; "
        "5.10.262 has it and builds without this row too)",
        kernels="< 5.17",
        compiler=12,
        variables=(("WERROR", "0"),),
    ),
    Fixup(
        "objtool up to 5.10 refuses objects without a symbol table, as binutils 2.36 and later write them "
        "(1d489151e9f9, 5.11; 5.10.262 has it, and gets the same unwinder as all of 5.10); nothing that the lab "
        "needs is lost by it",
        kernels="< 5.11",
        options=("CONFIG_UNWINDER_FRAME_POINTER=y", "# CONFIG_UNWINDER_ORC is not set"),
    ),
    Fixup(
        "CONFIG_RETPOLINE selects CONFIG_STACK_VALIDATION, whose objtool stops at arch/x86/entry/thunk_64.o of 4.19.78 "
        '("missing symbol table", binutils 2.40); indirect calls cost less without retpolines, so cpu.per_io is '
        "not compared with that of later kernels",
        kernels="< 5.10",
        options=("# CONFIG_RETPOLINE is not set", "# CONFIG_STACK_VALIDATION is not set"),
    ),
    Fixup(
        "gcc 15 takes C23 for its default dialect, in which bool and false are key words; the boot code and "
        "the EFI stub name no dialect before 6.14 (b3bee1e7c3f2, ee2ab467bddf)",
        kernels="< 6.14",
        compiler=15,
        variables=(("CC_DIALECT", "-std=gnu11"),),
    ),
)


def fixups_for(release: Release, compiler: int, table: Iterable[Fixup] = FIXUPS) -> tuple[Fixup, ...]:
    """The rows that a kernel of that release needs under a compiler of that major version."""
    return tuple(
        row for row in table if (not row.kernels or parse_range(row.kernels).has(release)) and compiler >= row.compiler
    )


def major_version(compiler: str) -> int:
    """The major version in what ``gcc --version`` says first, 0 where there is none to be seen."""
    match = re.search(r"\s([0-9]+)\.[0-9]+", compiler.partition("\n")[0])
    return int(match[1]) if match else 0
