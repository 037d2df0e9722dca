# SPDX-License-Identifier: GPL-2.0-only
"""The field that an instruction uses, from the debug information of the object that it is in.

The base register of a memory operand points to what DWARF says of the variables in it. The moves before are followed
back too, as perf's data type profiling does (tools/perf/util/annotate-data.c, 6.8).
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from elftools.dwarf.die import DIE
from elftools.dwarf.dwarf_expr import DWARFExprOp, DWARFExprParser
from elftools.dwarf.locationlists import LocationEntry, LocationExpr, LocationParser
from elftools.elf.elffile import ELFFile

from lab.base.process import run

_NUMBERED = ("ax", "dx", "cx", "bx", "si", "di", "bp", "sp", *map(str, range(8, 16)))
"""Registers by their numbers in DWARF (System V ABI for AMD64, figure 3.36)."""
_WIDE = {f"%{name}": f"%r{own}" for own in _NUMBERED for name in (f"r{own}", f"e{own}", f"r{own}d", own)}
_BY_CALL = frozenset(f"%r{name}" for name in ("ax", "dx", "cx", "si", "di", 8, 9, 10, 11))
_LINE = re.compile(r" *(\w+):\t(?:(?:lock|rep\w*|bnd|notrack|[cdefgs]s) )*(\w+) *([^#<]*)(?:# (\w+))?")
_MEMORY = re.compile(r"(?:%[fg]s:)?(-?0x\w+)?(?:\((%\w+)?(?:,(%\w+),(\d))?\))?")
_WRITES_NONE = re.compile(r"cmp|test|push|j|nop|bt[lqw]?$|prefetch")
_IN_REGISTER = re.compile(r"DW_OP_(b?)reg(\d+)")
_STRUCTURES = ("DW_TAG_structure_type", "DW_TAG_union_type")
_SHOWN = 3
"""Members of which nothing says which is meant."""
_OTHER_NAMES = ("DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_typedef")


class _Place(NamedTuple):
    """``offset`` in an object of ``type``; ``name`` is that of its type, or of the variable or member that it is."""

    name: str
    type: DIE
    offset: int


@dataclass(frozen=True)
class _Instruction:
    """``before`` are the addresses of the instructions that may come before it."""

    name: str
    operands: tuple[str, ...]
    before: list[int]

    @cached_property
    def target(self) -> str:
        return "" if _WRITES_NONE.match(self.name) else _where(self.operands[-1:])

    def writes(self, where: str) -> bool:
        return where in _BY_CALL if self.name == "call" else self.target == where

    @cached_property
    def copied(self) -> tuple[str, int]:
        """The register that it copies or adds a number to, and the number. "" for other instructions."""
        source = self.operands[0] if self.operands else ""
        by, base, index = match.groups()[:3] if (match := _MEMORY.fullmatch(source)) else ("", "", "")
        if self.name in ("add", "sub") and source.startswith("$0x"):
            return self.target, int(source[1:], 16) * (1 if self.name == "add" else -1)
        if self.name == "lea" and not index:
            return _where((base or "",)), int(by or "0", 16)
        return (_where((source,)) if self.name == "mov" else ""), 0


def fields(unit: Path, function: str, offsets: Collection[int]) -> Mapping[int, str]:
    """TYPE.FIELD or VARIABLE.FIELD by the instructions' offsets in ``function``, "" where it cannot be told.

    ``unit`` is an object with version 4 of DWARF.
    """
    # Linked, what is in different sections has different addresses.
    linked = unit.with_suffix(".elf")
    options = ("-e", "0", "--unresolved-symbols=ignore-all", "--noinhibit-exec")
    run(["ld", *options, "-o", str(linked), str(unit)], hint="apt-get install binutils")
    code = _instructions(linked, function)
    with linked.open("rb") as stream:
        known = _Code(code, ELFFile(stream), function.partition(".")[0])
        return {offset: known.field(min(code, default=0) + offset) for offset in offsets}


class _Code:
    """The code of a function, of an object that has one unit of DWARF."""

    def __init__(self, code: Mapping[int, _Instruction], file: ELFFile, function: str) -> None:
        self._code = code
        dwarf = file.get_dwarf_info()
        self._locations = LocationParser(dwarf.location_lists())
        top = next(dwarf.iter_CUs()).get_top_DIE()
        self._base = _said(top, "low_pc", 0)
        globals_ = [die for die in top.iter_children() if die.tag in ("DW_TAG_variable", "DW_TAG_subprogram")]
        functions = (die for die in globals_ if die.tag == "DW_TAG_subprogram" and _name(die) == function)
        self._variables = [die for die in globals_ if die.tag == "DW_TAG_variable"]
        self._variables += [die for own in functions for die in _below(own)]

    def field(self, at: int) -> str:
        operands = self._code[at].operands if at in self._code else ()
        memory = next((own for own in operands if "(" in own or own.startswith(("0x", "%gs:"))), "")
        places = (own for own in self._address(at, memory, set()) if 0 <= own.offset < _size(own.type))
        # Of an object and the one that it is part of, the larger has the name that people know.
        outer = max(places, key=lambda own: _size(own.type), default=None)
        return ".".join(own.name for own in _path(outer) if own.name) if outer else ""

    def _address(self, at: int, operand: str, seen: set[tuple[int, str]]) -> Iterator[_Place]:
        """What a memory operand of the instruction at ``at`` may be."""
        if not operand or (match := _MEMORY.fullmatch(operand)) is None:
            return
        by, index, scale = int(match[1] or "0", 16), match[3], match[4]
        for _, place in self._known.get("", ()):
            to = _after(place, by)
            if 0 <= to.offset < _size(to.type) and (not index or (_in_array(to) and _has_one_stride(to))):
                yield to
        for register in match.groups()[1:3]:
            for place in self._pointed(at, _WIDE.get(register, ""), seen):
                to = _after(place, by)
                # Of an array that a structure begins with, a constant may be in the index.
                if not index or (_has_one_stride(to) and (scale == "1" or (by and _in_array(to)))):
                    yield to

    def _pointed(self, at: int, where: str, seen: set[tuple[int, str]]) -> Iterator[_Place]:
        """What a register or a word of the stack may point to before the instruction at ``at``."""
        left = [at] if where else []
        while left:
            if ((at := left.pop()), where) in seen:
                continue
            seen.add((at, where))
            yield from (place for scope, place in self._known.get(where, ()) if at in scope)
            for before in self._code[at].before:
                instruction = self._code[before]
                if instruction.writes(where):
                    yield from self._assigned(before, where, seen)
                    continue
                left.append(before)
                source, by = instruction.copied
                copies = self._known.get(instruction.target, ()) if source == where else ()
                yield from (_after(place, -by) for scope, place in copies if at in scope)

    def _assigned(self, at: int, where: str, seen: set[tuple[int, str]]) -> Iterator[_Place]:
        """What ``where`` may point to after the instruction at ``at``, which writes it."""
        instruction = self._code[at]
        source, by = instruction.copied
        operand = instruction.operands[0] if instruction.operands else ""
        if source:
            yield from (_after(place, by) for place in self._pointed(at, source, seen))
        elif instruction.name == "lea":
            yield from self._address(at, operand, seen)
        elif instruction.name in ("mov", "add"):
            yield from (to for place in self._address(at, operand, seen) for to in _pointee(_path(place)[-1].type))
        if instruction.name == "add":
            for other in (where, _where((operand,))):
                yield from self._pointed(at, other, seen)

    @cached_property
    def _known(self) -> Mapping[str, list[tuple[range, _Place]]]:
        """By register what its variables point to, and at which addresses of the code; by "" variables in memory."""
        known: dict[str, list[tuple[range, _Place]]] = {}
        for die in self._variables:
            for scope, (first, *rest) in self._expressions(die):
                match = _IN_REGISTER.fullmatch(first.op_name)
                if first.op_name == "DW_OP_addr" and not rest:
                    known.setdefault("", []).append((scope, _Place(_name(die), _type(die), -first.args[0])))
                # A value in a register, or a register's value and a number.
                elif match and [op.op_name for op in rest] == (["DW_OP_stack_value"] if match[1] else []):
                    own = known.setdefault(f"%r{_NUMBERED[int(match[2])]}", [])
                    by = first.args[0] if match[1] else 0
                    own += [(scope, _after(place, -by)) for place in _pointee(_type(die))]
        return known

    def _expressions(self, die: DIE) -> Iterator[tuple[range, list[DWARFExprOp]]]:
        """Where a variable is, and at which addresses of the code."""
        if (attribute := die.attributes.get("DW_AT_location")) is None:
            return
        parser, base, scope = DWARFExprParser(die.cu.structs), self._base, die.get_parent()
        said = self._locations.parse_from_attribute(attribute, die.cu["version"], die)
        if isinstance(said, LocationExpr):
            begin, size = (_said(scope, f"{name}_pc", 0) if scope else 0 for name in ("low", "high"))
            yield range(begin, begin + size), parser.parse_expr(said.loc_expr)
            return
        for entry in said:
            if isinstance(entry, LocationEntry):
                yield range(base + entry.begin_offset, base + entry.end_offset), parser.parse_expr(entry.loc_expr)
            base = getattr(entry, "base_address", base)


def _instructions(path: Path, function: str) -> Mapping[int, _Instruction]:
    """By address."""
    code, jumps, last = dict[int, _Instruction](), list[tuple[int, int]](), list[int]()
    words = ["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", str(path)]
    for line in run(words, hint="apt-get install binutils").stdout.decode().splitlines():
        if (match := _LINE.match(line)) is None:
            continue
        at, name, said = int(match[1], 16), match[2], match[3].strip()
        operands = re.findall(r"(?:[^,(]|\([^)]*\))+", re.sub(r"-?0x\w+\(%rip\)", f"0x{match[4]}", said))
        code[at] = _Instruction(name, tuple(operands), last)
        if name.startswith("j") and re.fullmatch("[0-9a-f]+", said):
            jumps.append((int(said, 16), at))
        last = [] if name in ("jmp", "ret", "ud2") else [at]
    for target, at in jumps:
        if target in code:
            code[target].before.append(at)
    return code


def _where(operands: tuple[str, ...]) -> str:
    """The register or the word of the stack that an operand is, "" for others."""
    return "".join(own if own.endswith("(%rsp)") else _WIDE.get(own, "") for own in operands)


def _below(die: DIE) -> Iterator[DIE]:
    """What a function, its blocks and what is inlined into it have."""
    for own in die.iter_children():
        yield from (own, *_below(own))


def _after(place: _Place, by: int) -> _Place:
    return place._replace(offset=place.offset + by)


@lru_cache(maxsize=4096)
def _path(place: _Place) -> list[_Place]:
    """The place, and the members that hold its byte, outermost first, down to atomic_t, spinlock_t and the like."""
    kind = place.type if place.type.tag == "DW_TAG_typedef" else _plain(place.type)
    if kind.tag == "DW_TAG_array_type" and (size := _size(_type(kind))):
        return [place, *_path(_Place("", _type(kind), place.offset % size))]
    starts = {own: _said(own, "data_member_location", 0) for own in kind.iter_children() if kind.tag in _STRUCTURES}
    members = [own for own, start in starts.items() if 0 <= place.offset - start < _size(_type(own))]
    if not members:
        return [place]
    first = members[0]
    inner = _Place(_name(first), _type(first), place.offset - starts[first])
    if len(members) == 1:
        return [place, *_path(inner)]
    # Of a union, and of bits in one word, nothing says which member is meant.
    names = [name for own in members if (name := _name(own))]
    return [place, inner._replace(name="|".join((*names[:_SHOWN], *["..."] * (len(names) > _SHOWN))))]


def _in_array(place: _Place) -> bool:
    return any(_plain(own.type).tag == "DW_TAG_array_type" for own in _path(place))


def _has_one_stride(place: _Place) -> bool:
    """Whether a register can only be the index of one array here: else its members are not told apart."""
    arrays = [own.type for own in _path(place) if _plain(own.type).tag == "DW_TAG_array_type"]
    return not any(map(_holds_array, [_type(_plain(kind)) for kind in arrays] or [place.type]))


def _holds_array(kind: DIE) -> bool:
    kind = _plain(kind)
    members = (own for own in kind.iter_children() if kind.tag in _STRUCTURES and own.tag == "DW_TAG_member")
    return kind.tag == "DW_TAG_array_type" or any(_holds_array(_type(own)) for own in members)


def _pointee(kind: DIE) -> Iterator[_Place]:
    """The structure with a name that a value of a type points to: atomic_t has none."""
    pointer = _plain(kind)
    to = _plain(_type(pointer))
    if pointer.tag == "DW_TAG_pointer_type" and to.tag in _STRUCTURES and _name(to):
        yield _Place(_name(to), to, 0)


def _plain(kind: DIE) -> DIE:
    """The type without typedefs and qualifiers."""
    while kind.tag in _OTHER_NAMES and _type(kind) is not kind:
        kind = _type(kind)
    return kind


def _size(kind: DIE) -> int:
    kind = _plain(kind)
    if kind.tag != "DW_TAG_array_type":
        return int(_said(kind, "byte_size", 0))
    return _size(_type(kind)) * prod(int(_said(own, "upper_bound", -1)) + 1 for own in kind.iter_children())


def _type(die: DIE) -> DIE:
    """What has none, void, is its own."""
    to: DIE = _said(die, "type", die)
    return to


def _name(die: DIE) -> str:
    return str(_said(die, "name", b"").decode())


def _said(die: DIE, name: str, default: Any) -> Any:
    """An attribute of the entry, or of that of which it is an instance."""
    if attribute := die.attributes.get(f"DW_AT_{name}"):
        return die.get_DIE_from_attribute(attribute.name) if name == "type" else attribute.value
    for link in ("DW_AT_abstract_origin", "DW_AT_specification"):
        if link in die.attributes:
            return _said(die.get_DIE_from_attribute(link), name, default)
    return default
