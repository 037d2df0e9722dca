# SPDX-License-Identifier: GPL-2.0-only
"""What differs between two revisions of C files, and what uses it, by their text."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lab.base.process import run

UNCOMMITTED = "what is not committed"
"""In place of a subject."""
_FILE = re.compile(r"^(?:---|\+\+\+) (?:[ab]/)?(.*)$")
_HUNK = re.compile(r"^@@ -([0-9]+)(?:,([0-9]+))? \+([0-9]+)(?:,([0-9]+))? @@")
_HEAD_ENDS = re.compile(r"(?:[;}]|\*/)\s*$|^\s*$|^#")
_NAME = re.compile(r"(\w+)\s*\(")
_ONE_LINE = re.compile(r"^\w[^;{}=]*?\b(\w+)\([^;{}]*\)\s*\{.*\}\s*$")
_DEFINED = re.compile(r"^#\s*define\s+(\w+)|^[A-Za-z_][\w\s*]*?(\w+)\s*(?:\[[^\]]*\]\s*)*[={;]")
_STRUCT = re.compile(r"^(?:typedef\s+)?(?:struct|union)\s+(\w+)\s*\{|^(?:typedef\s+)?(?:struct|union)\s+(\w+)\s*$")
_MEMBER = re.compile(r"\(\*\s*(\w+)\)\s*\(|(\w+)\s*(?:\[[^\]]*\]\s*)*(?::\s*\w+\s*)?(?:__\w+(?:\([^)]*\))?\s*)*[;,]")
_ATTRIBUTE = re.compile(r"__(?:attribute__|printf|scanf|acquires|releases|must_hold|cond_acquires|aligned|section)")
_DRIVERS = ("drivers/block", "drivers/md", "drivers/nvme", "drivers/scsi", "drivers/target")
_USERS = ("block", "include", *_DRIVERS, "fs", "io_uring", "lib", "mm")
"""Where users of shared headers are looked for: the block layer, its drivers, and what submits I/O to it."""
_DEPTH = 4
_RULE = re.compile(r"^(?P<module>(?!obj-)[\w-]+?)-(?:y|m|objs|\$\(\w+\))\s*[+:]?=(?P<objects>.*)$", re.MULTILINE)
Executed = Callable[[str], Collection[str]]
"""The names of the functions that were seen to be executed, of those in a file."""


Function = tuple[str, str]
"""Name and file: static functions of two files may have one name."""


@dataclass(frozen=True)
class Touched:
    """``functions`` are the changed ones with their files; ``data`` are changed macros, types and variables, and
    members as STRUCT.MEMBER, with their files.

    ``others`` are changed files in which nothing of both is. ``built`` where the functions are those
    that differ between two builds.
    """

    functions: frozenset[Function]
    data: Mapping[str, str]
    others: tuple[str, ...]
    built: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Those of the functions."""
        return frozenset(name for name, _ in self.functions)

    @property
    def certain(self) -> bool:
        """Whether the text of the functions says what code differs: nothing else and no header is touched."""
        return not self.data and not any(file.endswith(".h") for _, file in self.functions)


@dataclass(frozen=True)
class Definition:
    """A function in a C file, ``first`` to ``last`` line, with its storage class."""

    name: str
    first: int
    last: int
    static: bool


def definitions(text: str) -> tuple[Definition, ...]:
    """The functions of a file in the kernel's style, in which a body is between braces in the first column."""
    lines = text.splitlines()
    definitions = []
    number = 0
    while number < len(lines):
        line = lines[number]
        if match := _ONE_LINE.match(line):
            definitions.append(_definition(match[1], number, number, line))
        elif line.startswith("{") and (head := _head(lines, number)) is not None:
            last = next((at for at in range(number, len(lines)) if lines[at].startswith("}")), len(lines) - 1)
            definitions.append(_definition(head[0], head[1], last, " ".join(lines[head[1] : number])))
            number = last
        number += 1
    return tuple(definitions)


def _head(lines: Sequence[str], brace: int) -> tuple[str, int] | None:
    """The name and the first line of the function whose body begins at ``brace``; None for another block."""
    first = brace
    while first > 0 and not _HEAD_ENDS.search(lines[first - 1]):
        first -= 1
    text = " ".join(lines[first:brace])
    names = (match[1] for match in _NAME.finditer(text) if not _ATTRIBUTE.fullmatch(match[1]))
    name = next(names, None)
    return None if name is None or "=" in text.partition("(")[0] else (name, first)


def _definition(name: str, first: int, last: int, head: str) -> Definition:
    return Definition(
        name, first + 1, last + 1, static=re.search(r"\b(?:static|inline|__always_inline)\b", head) is not None
    )


def _touched(changed: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> Touched:
    """Of files, and what is changed in each: its kind, function or data, and its name, empty for a comment."""
    functions, data, files = set[Function](), dict[str, str](), dict[str, bool]()
    for file, rows in changed:
        here = [(kind, name) for kind, name in rows if name] if file.endswith((".c", ".h")) else []
        functions |= {(name, file) for kind, name in here if kind == "function"}
        data |= {name: file for kind, name in here if kind == "data"}
        files[file] = files.get(file, False) or bool(here)
    return Touched(frozenset(functions), data, tuple(file for file, known in files.items() if not known))


class Sources:
    """C files of a git repository at two revisions.

    ``built``: the functions that differ between builds of both, with their objects, where these are known. They take
    the place of those whose text differs.
    """

    def __init__(self, repository: Path, old: str, new: str, *, built: Mapping[str, str] | None = None) -> None:
        self._repository, self._old, self._new, self._built = repository, old, new, built
        self._at = cache(lambda revision, file: definitions(self._text(revision, file)))

    def touched(self) -> Touched:
        names = self._git("diff", "--no-renames", "--name-only", "-z", self._old, self._new).split("\0")
        said = _touched((file, self._changed(file)) for file in filter(None, names))
        if self._built is None:
            return said
        # Variables and tables of C files are no code, so builds do not show them.
        data = {name: file for name, file in said.data.items() if file.endswith(".c") and "." not in name}
        functions = frozenset((name, str(Path(file).with_suffix(".c"))) for name, file in self._built.items())
        return Touched(functions, data, said.others, built=True)

    def series(self) -> str:
        """The series that the source belongs to, such as 6.12."""
        return ".".join(
            re.findall(r"^(?:VERSION|PATCHLEVEL) *= *([0-9]+)", self._text(self._old, "Makefile"), re.MULTILINE)
        )

    def words(self) -> str:
        """The subjects of the commits, and the changed lines below the heads of their hunks."""
        subjects = self._git("log", "--format=Subject: %s", f"{self._old}..{self._new}")
        return f"{subjects}\n{self._git('diff', '--no-ext-diff', '-U0', self._old, self._new)}"

    def module(self, file: str) -> str:
        """The module of a C file by the Makefile of its folder, which may be built in; empty for a header."""
        folder, _, name = file.rpartition("/")
        if not name.endswith(".c"):
            return ""
        stem = name.removesuffix(".c")
        rules = _RULE.finditer(self._text(self._new, f"{folder}/Makefile").replace("\\\n", " "))
        return next((rule["module"] for rule in rules if f"{stem}.o" in rule["objects"].split()), stem)

    def executed_as(self, function: Function, executed: Executed) -> frozenset[Function]:
        """The executed functions that contain ``function``: itself, or the callers into which gcc may inline it.

        Only a static function can be inlined. One that no load was seen to execute is inlined, or not executed at all.
        Between builds those that contain an inlined one differ, too.
        """
        if self._built is not None:
            return _itself(function, executed)
        containing = set[Function]()
        seen = level = {function}
        for _ in range(_DEPTH):
            executed_here = {(name, file) for name, file in level if name in executed(file)}
            containing |= executed_here
            level = {caller for each in level - executed_here for caller in self._containing(*each)} - seen
            seen = seen | level
        return frozenset(containing)

    def _containing(self, name: str, file: str) -> frozenset[tuple[str, str]]:
        own = next((each for each in self._at(self._new, file) if each.name == name), None)
        if own is None or not own.static:
            return frozenset()
        return frozenset(self._with(name, rf"\b{re.escape(name)}\b\s*\(", file))

    def users(self, name: str, file: str) -> Iterator[tuple[str, str]]:
        """Functions, with their files, whose text has the macro, type, variable or member; for a member that is in no
        text, such as a new one, those that have its struct."""
        struct, _, member = name.rpartition(".")
        if not struct:
            return self._with(name, rf"\b{re.escape(name)}\b", file)
        own = list(self._with(member, rf"(?:->|\.)\s*{re.escape(member)}\b", file))
        return iter(own) if own else self._with(struct, rf"\b(?:struct|union)\s+{re.escape(struct)}\b", file)

    def _with(self, name: str, pattern: str, file: str) -> Iterator[tuple[str, str]]:
        word = re.compile(pattern)
        for path in self._files_with(name, file):
            lines = self._text(self._new, path).splitlines()
            for each in self._at(self._new, path):
                if each.name != name and any(word.search(line) for line in lines[each.first - 1 : each.last]):
                    yield each.name, path

    def _files_with(self, name: str, file: str) -> list[str]:
        if file.endswith(".c"):
            return [file]
        folders = _USERS if file.startswith("include/") else (str(Path(file).parent),)
        said = self._git("grep", "-lw", "-F", "-e", name, self._new, "--", *(f"{folder}/" for folder in folders))
        return [line.partition(":")[2] for line in said.splitlines() if line.endswith((".c", ".h"))]

    def _changed(self, file: str) -> Iterator[tuple[str, str]]:
        said = self._git("diff", "--no-renames", "--no-ext-diff", "-U0", self._old, self._new, "--", file)
        for line in said.splitlines():
            match = _HUNK.match(line)
            if match is None:
                continue
            old, old_count, new, new_count = (int(part) if part else 1 for part in match.groups())
            yield from self._of_lines(self._old, file, range(old, old + old_count))
            yield from self._of_lines(self._new, file, range(new, new + new_count))

    def _of_lines(self, revision: str, file: str, lines: range) -> Iterator[tuple[str, str]]:
        text = self._text(revision, file).splitlines()
        for number in lines:
            if not text[number - 1].strip():
                continue
            inside = next((each for each in self._at(revision, file) if each.first <= number <= each.last), None)
            if inside is not None:
                yield "function", inside.name
            elif name := _data_at(text, number):
                yield "data", name

    def _text(self, revision: str, file: str) -> str:
        return self._git("cat-file", "blob", f"{revision}:{file}")

    def _git(self, *words: str) -> str:
        done = run(["git", "-C", str(self._repository), "--no-pager", *words], accept=(0, 1, 128))
        return done.stdout.decode(errors="replace")


@dataclass(frozen=True)
class PatchText:
    """What patches touch by their text alone: git puts the head of the function or struct into the line of a hunk."""

    texts: tuple[str, ...]

    def touched(self) -> Touched:
        hunks = (hunk for text in self.texts for hunk in _hunks(text))
        return _touched((file, (_named_at(lines, number) for number in numbers)) for file, lines, numbers in hunks)

    def words(self) -> str:
        return "\n".join(self.texts)

    def module(self, file: str) -> str:
        """The name of the C file: without the source its Makefile is not known."""
        return Path(file).stem if file.endswith(".c") else ""

    def executed_as(self, function: Function, executed: Executed) -> frozenset[Function]:
        """The function itself: without the source nobody knows what it is inlined into."""
        return _itself(function, executed)

    def users(self, name: str, file: str) -> Iterator[tuple[str, str]]:
        return iter(())


CodeChange = Sources | PatchText


def _itself(function: Function, executed: Executed) -> frozenset[Function]:
    return frozenset({function} if function[0] in executed(function[1]) else ())


def _hunks(text: str) -> Iterator[tuple[str, list[str], list[int]]]:
    """The file, the lines of one side below the head that git names, and the numbers of the changed ones, twice a
    hunk."""
    file = ""
    hunks: list[tuple[str, str, list[str]]] = []
    for line in text.splitlines():
        if (match := _FILE.match(line)) and not (line.startswith("+++") and match[1] == "/dev/null"):
            file = match[1].split("\t")[0]
        elif match := _HUNK.match(line):
            hunks.append((file, line[match.end() :].strip(), []))
        elif hunks and line[:1] in ("+", "-", " ") and line != "-- ":
            hunks[-1][2].append(line)
    for name, head, body in hunks:
        for sign in "+-":
            side = [line for line in body if line[0] in (sign, " ")]
            changed = [number for number, line in enumerate(side, start=2) if line[0] == sign and line[1:].strip()]
            yield name, [head, *(line[1:] for line in side)], changed


def _named_at(lines: Sequence[str], number: int) -> tuple[str, str]:
    """What the line belongs to, as ``Sources`` names it."""
    top = lines[_top(lines, number)]
    name = None if top.startswith("#") or top.endswith(");") or "=" in top else _NAME.search(top)
    return ("function", name[1]) if name and _is_code(lines[number - 1]) else ("data", _data_at(lines, number))


def _is_code(line: str) -> bool:
    return not line.lstrip().startswith(("*", "/*", "//"))


def _top(lines: Sequence[str], number: int) -> int:
    """The place of the first line of what the line belongs to."""
    at = number - 1
    while at > 0 and (lines[at][:1] in (" ", "\t", "}", "{", "") or _within(lines, at)):
        at -= 1
    return at


def _data_at(lines: Sequence[str], number: int) -> str:
    """The macro, type, variable or STRUCT.MEMBER whose definition has this line; empty for a comment and the like."""
    at = _top(lines, number)
    if not _is_code(lines[number - 1]):
        return ""
    if (struct := _STRUCT.match(lines[at])) and at < number - 1:
        member = _MEMBER.search(_code(lines[number - 1]))
        return f"{struct[1] or struct[2]}.{member[1] or member[2]}" if member else struct[1] or struct[2]
    if lines[at].startswith("enum") and at < number - 1:
        constant = re.match(r"\s*(\w+)", lines[number - 1])
        return constant[1] if constant else ""
    match = _DEFINED.match(lines[at])
    return (match[1] or match[2] or "") if match else ""


def _within(lines: Sequence[str], at: int) -> bool:
    """Whether the line continues the declaration above: a macro, or a condition, label or comment between members."""
    return lines[at - 1].endswith("\\") or re.match(r"#\s*(?:if|el|endif)|/\*|\w+:$", lines[at]) is not None


def _code(line: str) -> str:
    return re.sub(r"/\*.*?(?:\*/|$)|//.*", "", line)
