# SPDX-License-Identifier: GPL-2.0-only
"""Mutants: small patches that break a kernel's behaviour on purpose, each for the kernels that it names.

A mutant is scenarios/mutants/NAME.patch (or NAME.SERIES.patch where versions need texts of their own).
Its header, before the first line of the diff, has the lines ``Mutant:`` what it breaks, ``Kernels:``
a range, and may have ``From:`` the published bug that it brings back, ``Options:`` what the kernel is built with
besides kconfigs/, such as DM_SNAPSHOT, and ``Scenarios:`` those of which it makes claims fail.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from lab.base.errors import CannotJudge, Misuse
from lab.kernels.model import RangeError, Release, parse_range
from lab.yaml.strict import Mark, Problems, names, nearest, shown_path

MUTANTS = Path(__file__).resolve().parents[2] / "scenarios/mutants"
NAME_FORM = r"[a-z0-9]+(?:-[a-z0-9]+)*"
_FILE = re.compile(rf"({NAME_FORM})(?:\.[0-9]+\.[0-9]+)?\.patch")
_KEYS = ("Mutant", "Kernels", "Options", "Scenarios")
_HEADER = re.compile(rf"({'|'.join(_KEYS)}): (\S.*)")


@dataclass(frozen=True)
class Mutation:
    """One patch of a mutant. ``kernels`` is a range.

    ``options`` (without CONFIG_) are switched on in addition. ``scenarios`` have claims that fail on it, besides those
    whose controls name the mutant.
    """

    name: str
    kernels: str
    patch: Path
    options: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()


def catalogue(folder: Path = MUTANTS) -> Mapping[str, tuple[Mutation, ...]]:
    """Every mutant by name, with its patches. Raises InputErrors with all mistakes of all headers."""
    problems, known = Problems(), dict[str, tuple[Mutation, ...]]()
    for path in sorted(folder.glob("*.patch")):
        mutation = _read(path, problems)
        if mutation is not None:
            known[mutation.name] = (*known.get(mutation.name, ()), mutation)
    problems.raise_if_any()
    return known


def mutation(name: str, release: Release, known: Mapping[str, tuple[Mutation, ...]]) -> Mutation:
    """The patch of mutant ``name`` for a kernel of that release.

    Raises Misuse for an unknown name, CannotJudge when the mutant is not for this kernel.
    """
    demand_known(name, known)
    for candidate in known[name]:
        if parse_range(candidate.kernels).has(release):
            return candidate
    kernels = "; ".join(candidate.kernels for candidate in known[name])
    raise CannotJudge(f"mutant {name} is for kernels {kernels}, and this is {release}", remedy="take another source")


def known_names(folder: Path = MUTANTS) -> Collection[str]:
    return sorted({match[1] for path in folder.glob("*.patch") if (match := _FILE.fullmatch(path.name))})


def demand_known(name: str, known: Collection[str] | None = None) -> None:
    """Raises Misuse for a name that is no mutant's of this project, or none of those ``known``."""
    known = known_names() if known is None else known
    if name not in known:
        raise Misuse(f"there is no mutant {name}{nearest(name, known)}", remedy=f"the mutants are {names(known)}")


def _read(path: Path, problems: Problems) -> Mutation | None:
    start, match = Mark(shown_path(path), 1, 1), _FILE.fullmatch(path.name)
    if match is None:
        problems.add(start, "not the name of a mutant's file", "NAME.patch, a-z, 0-9, -")
        return None
    header: dict[str, str] = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if line.startswith(("--- ", "diff ")):
            break
        field = _HEADER.fullmatch(line.strip())
        if field is not None:
            header[field[1]] = field[2]
            if field[1] == "Kernels":
                _check_range(field[2], replace(start, line=number), problems)
    for key in ("Mutant", "Kernels"):
        if key not in header:
            problems.add(start, f"the line {key}: is missing before the diff")
            return None
    options, scenarios = (tuple(header.get(key, "").split()) for key in ("Options", "Scenarios"))
    return Mutation(match[1], header["Kernels"], path, options, scenarios)


def _check_range(text: str, mark: Mark, problems: Problems) -> None:
    try:
        parse_range(text)
    except RangeError as error:
        column = len("Kernels: ") + 1 + error.offset
        problems.add(replace(mark, column=column), error.message, error.remedy)
