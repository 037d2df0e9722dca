# SPDX-License-Identifier: GPL-2.0-only
"""The steps of a guest as values; ``runner.sh`` and the files of ``verbs/`` interpret them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

from lab.base.errors import LabBroken


@dataclass(frozen=True)
class Step:
    """One line of tab-separated fields. The runner never evaluates a field.

    ``verb`` is the first field: one of the runner, or FILE/NAME for the function FILE_NAME of verbs/FILE.sh. The others
    are the attributes named in ``sent`` (default: the fields of the class).
    """

    verb: ClassVar[str]
    sent: ClassVar[tuple[str, ...]] = ()

    def fields(self) -> tuple[str, ...]:
        """The verb and its arguments; ``job_files`` refuses tabs, newlines and empty fields."""
        names = self.sent or tuple(field.name for field in fields(self))
        return (self.verb, *(str(getattr(self, name)) for name in names))

    def files(self) -> Mapping[str, str]:
        """The files of the guest's /job folder that the step uses, by name."""
        return sent_verbs(self.verb)


class Delayed(Step):
    """A step that takes a time, ``after``, in nanoseconds of guest time."""

    after: int

    @property
    def seconds(self) -> str:
        return f"{self.after / 1e9:.6f}"


def listed(rows: Iterable[str]) -> str:
    """The text of a file with these lines."""
    return "".join(f"{row}\n" for row in rows)


SENT = frozenset({"act.sh", "queue.sh"})
"""Verbs that come with a job which needs them: in the image they would move the figures of all guests."""


def sent_verbs(verb: str) -> Mapping[str, str]:
    """The file of ``verb`` by its path in the guest, if it is one of these."""
    name = f"{verb.partition('/')[0]}.sh"
    return {f"/verbs/{name}": (Path(__file__).parents[1] / "verbs" / name).read_text()} if name in SENT else {}


def job_files(steps: Iterable[Step], *, deadline: int) -> dict[str, bytes]:
    """Files of the guest's /job, or with their folder: ``script``, ``deadline`` (seconds), and those of the steps."""
    every = tuple(steps)
    files = {"deadline": f"{deadline}\n", "script": listed(line_of(*step.fields()) for step in every)}
    for step in every:
        files |= step.files()
    return {name: text.encode() for name, text in files.items()}


def line_of(*fields: str) -> str:
    """The fields as a line for the runner. Raises LabBroken for one that a line cannot carry."""
    for field in fields:
        if any(not char.isprintable() for char in field):
            raise LabBroken(f"a step of the guest cannot carry {field!r}", remedy="report this scenario as a bug")
    line = "\t".join(fields).rstrip("\t")
    if "\t\t" in line:
        # The guest's shell takes several tabs for one.
        raise LabBroken(f"a step of the guest cannot carry an empty field: {fields!r}", remedy="report this as a bug")
    return line
