# SPDX-License-Identifier: GPL-2.0-only
"""Configurations: the fragments of kconfigs/, what of them survived, and how two kernels' differ.

A fragment holds lines of a .config, and comments. Two kinds of comment are for the reader of this
module (kconfigs/README.md has them too):

``#: CONFIG_X >= 5.0``       the option exists in these kernels only
``#: CONFIG_X or CONFIG_Y``  one option under its names of different times: one of them must survive
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base.errors import CannotJudge, Misuse
from lab.kernels.model import EVERY_KERNEL, Kernel, KernelRange, RangeError, Release, parse_range
from lab.yaml.strict import Mark, Problems, shown_path

FRAGMENTS = Path(__file__).resolve().parents[2] / "kconfigs"
UNSET = "n"
_SET = re.compile(r"(CONFIG_[A-Za-z0-9_]+)=(\S.*)")
_NOT_SET = re.compile(r"# (CONFIG_[A-Za-z0-9_]+) is not set")
_NAMES = re.compile(r"#: (CONFIG_\w+(?: or CONFIG_\w+)+)")
_KERNELS = re.compile(r"#: (CONFIG_\w+) ((?:>=|<|[0-9]).*)")
_FIGURES = "figures."
_VARIABLE = "BLKLAB_CONFIG"
# A distribution's keys are no part of the source.
_KEYS = ('CONFIG_SYSTEM_TRUSTED_KEYS=""', 'CONFIG_SYSTEM_REVOCATION_KEYS=""')
# Abilities of compiler and architecture are not choices of a configuration.
_GIVEN = re.compile(r"CONFIG_(CC|GCC|CLANG|AS|LD|LLD|RUSTC?|PAHOLE|TOOLS|HAVE|ARCH|GENERIC)_")


@dataclass(frozen=True)
class WantedOption:
    """One option of a fragment. ``value`` is ``y``, ``m``, ``n`` or as a .config has it, without quotes.

    ``names`` are all names that the option has had, its own among them; ``kernels`` are those that have the option.
    """

    option: str
    value: str
    place: str
    names: tuple[str, ...]
    kernels: KernelRange = EVERY_KERNEL

    @property
    def line(self) -> str:
        """The line of a .config that asks for it."""
        if self.value == UNSET:
            return f"# {self.option} is not set"
        plain = re.fullmatch(r"[ym]|-?[0-9]+|0x[0-9a-fA-F]+", self.value)
        return f"{self.option}={self.value}" if plain else f'{self.option}="{self.value}"'


@dataclass(frozen=True)
class Drift:
    """Options that differ between two configurations: name to (first, second), ``n`` where it is not set.

    ``given`` counts differences that no configuration chooses: abilities of compiler and architecture.
    """

    options: Mapping[str, tuple[str, str]]
    given: int


def fragments(*, debug: bool = False) -> tuple[Path, ...]:
    """The fragments that every lab kernel is made of, in the order in which they are merged; last that of ``debug``."""
    return (*sorted(FRAGMENTS.glob("*.config")), *[FRAGMENTS / "debug/debug.config"][: int(debug)])


def read_fragments(paths: Iterable[Path]) -> tuple[WantedOption, ...]:
    """What the fragments ask for; of an option that is named twice the last. Raises InputErrors."""
    wanted, problems = dict[str, WantedOption](), Problems()
    for path in paths:
        for option in _FragmentReader(path, problems).read():
            wanted[option.option] = option
    problems.raise_if_any()
    return tuple(wanted.values())


class _FragmentReader:
    def __init__(self, path: Path, problems: Problems) -> None:
        self._path, self._problems = path, problems
        self._names: dict[str, tuple[str, ...]] = {}
        self._kernels: dict[str, KernelRange] = {}

    def read(self) -> Iterator[WantedOption]:
        for number, line in enumerate(self._path.read_text().splitlines(), start=1):
            if line.startswith("#:"):
                self._note(number, line)
            elif (match := _SET.fullmatch(line)) or (match := _NOT_SET.fullmatch(line)):
                option = match[1]
                value = match[2].strip('"') if match.re is _SET else UNSET
                names, kernels = self._names.get(option, (option,)), self._kernels.get(option, EVERY_KERNEL)
                yield WantedOption(option, value, f"{self._path.name}:{number}", names, kernels)
            elif line.strip() and not line.startswith("#"):
                self._problem(number, 1, "neither an option nor a comment", "write CONFIG_X=y")

    def _note(self, number: int, line: str) -> None:
        if match := _NAMES.fullmatch(line):
            names = tuple(match[1].split(" or "))
            self._names.update(dict.fromkeys(names, names))
        elif match := _KERNELS.fullmatch(line):
            try:
                self._kernels[match[1]] = parse_range(match[2])
            except RangeError as error:
                self._problem(number, match.start(2) + 1 + error.offset, error.message, error.remedy)
        else:
            self._problem(
                number, 1, f'"{line[:60]}" is no note', "write #: CONFIG_X >= 5.0, or #: CONFIG_X or CONFIG_Y"
            )

    def _problem(self, line: int, column: int, message: str, remedy: str) -> None:
        self._problems.add(Mark(shown_path(self._path), line, column), message, remedy)


def lost(wanted: Iterable[WantedOption], config: Mapping[str, str], release: Release) -> Mapping[str, WantedOption]:
    """The options that ``config`` should have on a kernel of that release, and has not, by what it has instead."""
    absent: dict[tuple[str, ...], WantedOption] = {}
    for option in wanted:
        unset = all(config.get(name, UNSET) != option.value for name in option.names)
        if unset and option.kernels.has(release):
            absent[option.names] = option
    return {
        f"{' or '.join(own.names)}={own.value} ({own.place}) is {config.get(own.option, UNSET)}": own
        for own in absent.values()
    }


def needs(wanted: Iterable[WantedOption], config: Mapping[str, str]) -> tuple[WantedOption, ...]:
    """Those of ``wanted`` that a configuration of the user's own must get, to boot here and to run scenarios.

    A driver may be a module, unless the guest boots by it (base.config). What only decides figures stays.
    """
    return tuple(option for option in wanted if not option.place.startswith(_FIGURES) and _lacks(option, config))


def _lacks(option: WantedOption, config: Mapping[str, str]) -> bool:
    values = {config.get(name, UNSET) for name in option.names}
    if option.value == UNSET:
        return False
    if option.value == "y":
        return not values & ({"y"} if option.place.startswith("base.") else {"y", "m"})
    return (
        not any(value.isdecimal() and int(value) >= int(option.value) for value in values)
        if option.value.isdecimal()
        else option.value not in values
    )


def lacking(kernel: Kernel) -> str:
    """A fragment with what a kernel that its user built lacks of ``kconfigs``; empty for other kernels."""
    if not kernel.spec.startswith("path:"):
        return ""
    wanted = (option for option in read_fragments(fragments()) if option.kernels.has(kernel.version))
    return "".join(f"{option.line}\n" for option in needs(wanted, kernel.config))


def own_fragment(wanted: Iterable[WantedOption], config: Mapping[str, str]) -> list[str]:
    """What is merged into a configuration of the user's own: what it needs, and no modules that no scenario loads."""
    wanted = tuple(wanted)
    known = {name for option in wanted for name in option.names}
    unused = [name for name, value in config.items() if value == "m" and name not in known]
    return [*(option.line for option in needs(wanted, config)), *(f"# {name} is not set" for name in unused), *_KEYS]


def describe_own(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """What was added to and changed in a configuration of the user's own, on one line."""
    options = drift(before, after).options
    added = [f"{name.removeprefix('CONFIG_')}={new}" for name, (old, new) in options.items() if old == UNSET]
    changed = [
        f"{name.removeprefix('CONFIG_')}={new}, was {old}"
        for name, (old, new) in options.items()
        if UNSET not in (old, new)
    ]
    less = sum(pair == ("m", UNSET) for pair in options.values())
    rows = (
        ("added", added),
        ("changed", changed),
        ("left out", [f"{less} {'module' if less == 1 else 'modules'} that no scenario loads"] if less else []),
    )
    return "; ".join(f"{what}: {' '.join(names)}" for what, names in rows if names) or "as it is"


def own_configuration() -> str:
    """The text of the user's .config that kernels are built with; empty for the lab's. Raises Misuse."""
    return read_own(Path(path)) if (path := os.environ.get(_VARIABLE)) else ""


def read_own(path: Path) -> str:
    """The text of a .config that gcc can build for x86-64. Raises Misuse."""
    if not path.is_file():
        raise Misuse(f"there is no configuration {path}", remedy="make defconfig, or name another file")
    text = path.read_text()
    if "CONFIG_X86_64=y\n" not in text:
        raise Misuse(f"{path} is not for x86-64: CONFIG_X86_64 is not set", remedy="make ARCH=x86_64 menuconfig")
    if "CONFIG_CC_IS_CLANG=y\n" in text:
        raise Misuse(f"{path} is for clang, and kernels are built with gcc here", remedy="make CC=gcc olddefconfig")
    return text


def demand_survivors(wanted: Sequence[WantedOption], config: Mapping[str, str], release: Release, tree: Path) -> None:
    """Raises CannotJudge that lists every option of ``wanted`` that the kernel in ``tree`` did not take over."""
    missing = lost(wanted, config, release)
    if not missing:
        return
    known = _known_options(tree)
    lines = [
        f"    {what}" + ("" if known.intersection(option.names) else ": this tree has no option of that name")
        for what, option in missing.items()
    ]
    raise CannotJudge(
        f"{len(missing)} options of the lab's configuration are not in that of {release}:\n" + "\n".join(lines),
        remedy="an option that is known lacks a dependency, one that is not was renamed or is of other kernels: "
        "see kconfigs/README.md",
    )


def drift(first: Mapping[str, str], second: Mapping[str, str]) -> Drift:
    """How two configurations differ, options without a value counting as ``n``."""
    names = sorted(first.keys() | second.keys())
    pairs = {name: (first.get(name, UNSET), second.get(name, UNSET)) for name in names}
    differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    options = {name: pair for name, pair in differing.items() if _GIVEN.match(name) is None}
    return Drift(options, len(differing) - len(options))


def describe_drift(drifted: Drift, first: str, second: str) -> str:
    """The differences as text, a line for each option; ``first`` and ``second`` name the two kernels."""
    if not drifted.options:
        return f"the configurations of {first} and {second} agree\n"
    width = max(map(len, drifted.options))
    lines = [f"{name:<{width}}  {former} -> {latter}" for name, (former, latter) in drifted.options.items()]
    given = f", {drifted.given} more that compiler and architecture decide" if drifted.given else ""
    return "\n".join([f"{len(lines)} options differ from {first} to {second}{given}:", *lines]) + "\n"


def _known_options(tree: Path) -> frozenset[str]:
    names = set[str]()
    for path in tree.rglob("Kconfig*"):
        if path.is_file():
            names.update(re.findall(r"^\s*(?:menu)?config\s+(\w+)", path.read_text(errors="replace"), re.MULTILINE))
    return frozenset(f"CONFIG_{name}" for name in names)
