# SPDX-License-Identifier: GPL-2.0-only
"""A schedule as a file that people read and that repeats a find: changes at functions and offsets."""

from dataclasses import dataclass
from pathlib import Path

from harness.base.files import write_atomic
from harness.hunt.trial import Ground
from lab.base.errors import CannotJudge, Misuse
from lab.schedule import Change
from lab.yaml import strict
from lab.yaml.fields import Field, Integer, ListOf, Record, Text

_PLACE = r"[A-Za-z_][\w.]*\+0x[0-9a-f]+"
_CHANGE = Record(
    (
        Field("cpu", Integer(0, 7), "the CPU that stops", required=True),
        Field("at", Text("a place such as rq_qos_wait+0x5c", _PLACE), "behind which block", required=True),
        Field("nth", Integer(1, 2**62), "the how manyth time it begins it", required=True),
        Field("length", Integer(1, 2**62), "instructions that each other CPU executes at most", required=True),
        Field("passes", Integer(1, 2**31), "how often", default=1),
    )
)
_FILE = Record(
    (
        Field("scenario", Text(), "a name from blklab list, or a path", required=True),
        Field("arm", Text(), "its arm", required=True),
        Field("kernel", Text(), "where it was found", required=True),
        Field("good", ListOf(Text()), "kernels on which many seeds found nothing", default=()),
        Field("fault", Text(), "what goes wrong", required=True),
        Field("searched", Text(), "the command that found it, and after how many seeds", default=""),
        Field("functions", ListOf(Text(), least=1), "where changes were made", required=True),
        Field("changes", ListOf(_CHANGE), "changes of CPU", default=()),
    )
)


@dataclass(frozen=True)
class KeptSchedule:
    """``changes`` have the places as text: CPU, place, how manyth time, length, passes."""

    scenario: str
    arm: str
    kernel: str
    fault: str
    functions: tuple[str, ...]
    changes: tuple[tuple[int, str, int, int, int], ...]
    searched: str = ""
    good: tuple[str, ...] = ()

    def on(self, ground: Ground) -> tuple[Change, ...]:
        """The changes in this kernel. Raises CannotJudge for a place that it does not have."""
        starts = {symbol.name: symbol.address for symbol in ground.symbols.functions}
        changes = []
        for cpu, place, nth, length, passes in self.changes:
            name, _, offset = place.partition("+")
            if name not in starts:
                raise CannotJudge(f"{ground.job.kernel.release} has no function {name}", remedy=f"use {self.kernel}")
            changes.append(Change(cpu, starts[name] + int(offset, 16), nth, length, passes))
        return tuple(changes)


def write_schedule(path: Path, kept: KeptSchedule) -> None:
    rows = [
        f"  - {{cpu: {cpu}, at: {place}, nth: {nth}, length: {length}, passes: {passes}}}\n"
        for cpu, place, nth, length, passes in kept.changes
    ]
    text = [
        "# SPDX-License-Identifier: GPL-2.0-only\n",
        *(f"{key}: {_quoted(getattr(kept, key))}\n" for key in ("scenario", "arm", "kernel", "fault", "searched")),
        f"functions: [{', '.join(kept.functions)}]\n",
        "changes:\n" if rows else "changes: []\n",
        *rows,
    ]
    write_atomic(path, "".join(text).encode())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def read_schedule(path: Path) -> KeptSchedule:
    """Raises InputErrors with all mistakes of the file, Misuse where there is none."""
    if not path.is_file():
        raise Misuse(f"there is no schedule {path}", remedy="blklab hunt writes one for each find")
    problems = strict.Problems()
    node = strict.parse(strict.read_bytes(path, "schedule"), strict.shown_path(path), problems)
    row = None if isinstance(node, strict.Broken) else _FILE.read(problems, "schedule", node)
    problems.raise_if_any()
    if row is None:
        raise Misuse(f"{path} cannot be read", remedy="report this as a bug of blklab")
    keys = ("cpu", "at", "nth", "length", "passes")
    changes = tuple(tuple(each.get(key) for key in keys) for each in row.get("changes"))
    texts = {key: row.get(key) for key in ("scenario", "arm", "kernel", "fault", "searched")}
    return KeptSchedule(**texts, functions=tuple(row.get("functions")), good=tuple(row.get("good")), changes=changes)
