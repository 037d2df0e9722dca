# SPDX-License-Identifier: GPL-2.0-only
"""Functions whose machine code differs between two builds of one configuration in the same folder.

Compared are instructions with the names of what they refer to, so that a function that only moved is the same. That
finds what a changed struct, macro or inline function changes wherever it is compiled in.
"""

import re
import shutil
from collections.abc import Iterator, Mapping
from filecmp import cmp
from pathlib import Path

from lab.base.errors import CannotJudge
from lab.base.process import run

_HEAD = re.compile(r"^<(?:__pfx_)?(?P<name>[\w.]+)>:$")
_PADDING = re.compile(r"\b(?:nop\w?|int3|xchg\s+%ax,%ax|data16|cs nop\w)\b")
# A local symbol is referred to by its place in its section, which moves.
_PLACE = re.compile(r"(\s\.(?:L|[a-km-z_][\w.]*))(?:C?[0-9]+)?(?:[+-]0x[0-9a-f]+)?$")
_TOOLS = ("scripts", "tools")


def keep_objects(objects: Path, into: Path) -> None:
    """Copy the objects of a build, which the next build in that folder replaces."""
    for path in _objects(objects):
        target = into / path.relative_to(objects)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def changed_functions(before: Path, after: Path) -> Mapping[str, str]:
    """The functions that differ or are in one of the builds only, by name, with the object that has them.

    Names are those of the source, without what gcc appends to a copy. Raises CannotJudge for binutils without
    --no-addresses.
    """
    found: dict[str, str] = {}
    olds, news = ({path.relative_to(folder) for path in _objects(folder)} for folder in (before, after))
    for name in sorted(olds | news):
        old, new = (folder / name if name in there else None for folder, there in ((before, olds), (after, news)))
        if old and new and cmp(old, new, shallow=False):
            continue
        was, now = (_functions(path) if path else {} for path in (old, new))
        differing = (function for function in was.keys() | now.keys() if was.get(function) != now.get(function))
        found |= dict.fromkeys((function.partition(".")[0] for function in differing), str(name))
    return found


def _objects(folder: Path) -> Iterator[Path]:
    """Those of one source file each, or several; vmlinux.o repeats them all."""
    for path in folder.rglob("*.o"):
        inside = path.relative_to(folder)
        if inside.parts[0] not in (*_TOOLS, "vmlinux.o") and not path.name.endswith(".mod.o"):
            yield path


def _functions(path: Path) -> Mapping[str, str]:
    """The instructions of each function, as text."""
    argv = ["objdump", "-dr", "--no-addresses", "--no-show-raw-insn", str(path)]
    done = run(argv, accept=(0, 1), hint="apt-get install binutils")
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise CannotJudge(f"{path.name} cannot be disassembled: {said}", remedy="binutils 2.36 or later is needed")
    code: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in done.stdout.decode(errors="replace").splitlines():
        if match := _HEAD.match(line):
            lines = code.setdefault(match["name"], [])
        elif line.startswith("\t"):
            lines.append(_PLACE.sub(r"\1", line))
    for own in code.values():
        while own and _PADDING.search(own[-1]):
            own.pop()
    return {name: "\n".join(own) for name, own in code.items()}
