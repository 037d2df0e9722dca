# SPDX-License-Identifier: GPL-2.0-only
"""The mutants of a kernel's C functions, and the kernel that has all of them.

Which small changes a file admits is read from the syntax tree of tree-sitter.
"""

import difflib
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.patch.sources import Sources
from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken
from lab.base.process import run
from lab.base.units import Tell
from lab.kernels import tree
from lab.kernels.model import Kernel
from lab.kernels.tree import KernelSource

if TYPE_CHECKING:
    from tree_sitter import Node


Operator = Literal["relation", "arithmetic", "constant", "condition", "statement"]


@dataclass(frozen=True)
class Mutant:
    """``before`` becomes ``after`` in bytes ``start`` to ``end`` of ``file``.

    ``schema`` is the text that has both, with ``{is}`` for 1 if the mutant is selected, else 0, ``{number}`` for its
    number, and ``{text}`` for the original text, in which other mutants may be.
    """

    file: str
    function: str
    line: int
    operator: Operator
    before: str
    after: str
    start: int
    end: int
    schema: str

    @property
    def place(self) -> str:
        """Names the mutant in every build of this source."""
        return f"{self.file}:{self.function}:{self.line}:{self.start}:{self.operator}"


_RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
_ARITHMETIC = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "*", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|"}
_STEPS = {"++": "--", "--": "++"}
_CONDITIONS = ("if_statement", "while_statement", "do_statement", "for_statement", "conditional_expression")
_EFFECTS = ("call_expression", "assignment_expression", "update_expression")
_NOT_EVALUATED = ("sizeof_expression", "alignof_expression", "offsetof_expression", "type_descriptor")
_CONSTANT = ("array_declarator", "bitfield_clause", "enumerator", "subscript_designator", "gnu_asm_expression")
_SAME_TYPES = ("min", "max", "min3", "max3", "clamp", "min_not_zero")
"""Macros that refuse a variable of another signedness, where they take a constant of any."""
# Messages, tracing, assertions and annotations: nothing that a load could measure. Locks: a kernel without one hangs.
# Calls of macros that declare a variable or begin a loop are no statements.
_ARID = re.compile(
    r"(?:[A-Z][A-Z_]+\b|guard\b|trace_|pr_|dev_|sdev_|shost_|scmd_|printk|DM(?:WARN|ERR|INFO|DEBUG)|(?:VM_|DM_)?(?:WARN|BUG)_|BUILD_BUG|lockdep_|"
    r"might_sleep|blk_add_trace|bfq_log|blk_log|throtl_log|seq_|\w*(?:un)?lock\w*$|rcu_read_|local_irq_|preempt_|"
    r"local_bh_|percpu_ref_|module_|kfree|debugfs|SCSI_LOG|EXPORT_SYMBOL|raid[0-9]+_log)\w*"
)
_LOOP = re.compile(r"\w*for_each")


def mutants_of(file: str, source: bytes) -> tuple[Mutant, ...]:
    """Every mutant of the functions of ``source``, in the order of their places."""
    reader = _File(file, source)
    for node in _below(_parse_tree(source)):
        if node.type == "function_definition":
            reader.read_function(node)
    return tuple(reader.mutants)


def _parse_tree(source: bytes) -> "Node":
    try:
        import tree_sitter_c  # noqa: PLC0415
        from tree_sitter import Language, Parser  # noqa: PLC0415
    except ImportError as error:
        raise LabBroken(
            "tree-sitter, which reads the kernel's C code for mutants, is not installed",
            remedy="pip install --require-hashes -r requirements/mutation.txt",
        ) from error
    return Parser(Language(tree_sitter_c.language())).parse(source).root_node


def _below(node: "Node") -> "Iterator[Node]":
    """``node`` and all nodes below it, without functions inside functions."""
    yield node
    for child in node.children:
        yield from _below(child)


class _File:
    def __init__(self, file: str, source: bytes) -> None:
        self._file, self._source = file, source
        self._function = ""
        self.mutants: list[Mutant] = []

    def read_function(self, node: "Node") -> None:
        body, name = node.child_by_field_name("body"), _name_of(node)
        if body is not None and name:
            self._function = name
            self._read(body)

    def _read(self, node: "Node") -> None:
        if node.type == "ERROR" or node.is_missing or _is_unfit(node):
            return
        if node.type == "expression_statement" and (_ARID.match(_callee(node)) or _LOOP.match(self._text(node))):
            return
        self._mutate(node)
        for child in node.children:
            if not _is_constant(node, child):
                self._read(child)

    def _mutate(self, node: "Node") -> None:
        if node.type in _CONDITIONS:
            condition = node.child_by_field_name("condition")
            if condition is not None and not condition.has_error and not _is_value(node):
                self._invert(condition)
        if node.has_error:
            return
        match node.type:
            case "binary_expression":
                self._binary(node)
            case "assignment_expression" | "update_expression":
                self._assignment(node)
            case "number_literal":
                self._constant(node)
            case "expression_statement":
                self._statement(node)

    def _invert(self, node: "Node") -> None:
        inner = node.named_children[0] if node.type == "parenthesized_expression" and node.named_children else node
        self._add(inner, "condition", f"!({self._text(inner)})", "blklab_not({number}, {text})")

    def _binary(self, node: "Node") -> None:
        if _is_cast(node.children[0]):
            return
        left, operator, right = (self._text(child) for child in node.children if child.type != "comment")
        if after := _RELATIONS.get(operator):
            self._relation(node, left, operator, right, after)
        elif after := _ARITHMETIC.get(operator):
            changed, text = f"{left} {after} {right}", _raw(self._text(node))
            # The casts also allow the difference of two pointers, which have no sum.
            added = f"(__typeof__({text}))(({_raw(left)}) + (long)({_raw(right)}))"
            other = added if operator == "-" else f"({_raw(changed)})"
            self._add(node, "arithmetic", changed, f"({{is}} ? {other} : ({{text}}))")

    def _relation(self, node: "Node", left: str, operator: str, right: str, after: str) -> None:
        changed = f"{left} {after} {right}"
        if operator in ("==", "!="):
            # The condition of a statement is inverted already.
            if not _is_condition(node):
                self._add(node, "relation", changed, "(({text}) ^ {is})")
        elif any(child.type in _EFFECTS for child in _below(node)):
            self._add(node, "relation", changed, f"({{is}} ? ({_raw(changed)}) : ({{text}}))")
        else:
            # Both paths take the same instructions: unless the two differ somewhere, nothing measurable changes.
            equal = f"({{is}} & (({_raw(left)}) == ({_raw(right)})))"
            joined = f"(({{text}}) | {equal})" if after.endswith("=") else f"(({{text}}) & !{equal})"
            self._add(node, "relation", changed, joined)

    def _assignment(self, node: "Node") -> None:
        at = next((child for child in node.children if not child.is_named), None)
        word = "" if at is None else self._text(at)
        after = _STEPS.get(word) or (f"{_ARITHMETIC[word[:-1]]}=" if word[:-1] in _ARITHMETIC else "")
        if at is not None and after:
            parts = (after if child == at else self._text(child) for child in node.children)
            changed = " ".join(parts) if node.type == "assignment_expression" else "".join(parts)
            self._add(node, "arithmetic", changed, f"({{is}} ? ({_raw(changed)}) : ({{text}}))")

    def _constant(self, node: "Node") -> None:
        text = self._text(node)
        if re.fullmatch(r"-?(?:0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*", text):
            self._add(node, "constant", f"({text} + 1)", "({text} + {is})")

    def _statement(self, node: "Node") -> None:
        inner = node.named_children[0] if node.named_children else None
        if inner is not None and inner.type in _EFFECTS:
            self._add(node, "statement", ";", "{{ if (!{is}) {text} }}")

    def _add(self, node: "Node", operator: Operator, after: str, schema: str) -> None:
        if any(child.type == "comment" or child.type.startswith("preproc_") for child in _below(node)):
            return
        place = (node.start_point.row + 1, operator, self._text(node), after, node.start_byte, node.end_byte)
        self.mutants.append(Mutant(self._file, self._function, *place, schema))

    def _text(self, node: "Node") -> str:
        return self._source[node.start_byte : node.end_byte].decode(errors="replace")


def _is_unfit(node: "Node") -> bool:
    """Whether nothing below can be mutated: a macro, a static initialiser, a constant, what is not evaluated."""
    if node.type.startswith("preproc_"):
        return node.type not in ("preproc_if", "preproc_ifdef", "preproc_else")
    if node.type == "declaration" and any(child.type == "storage_class_specifier" for child in node.children):
        return True
    return node.type in (*_CONSTANT, *_NOT_EVALUATED)


def _is_constant(node: "Node", child: "Node") -> bool:
    """Whether this child of ``node`` must stay as it is: a case label, a condition of #if, an argument of min()."""
    if node.type == "case_statement" and child == node.child_by_field_name("value"):
        return True
    if node.type.startswith("preproc_") and child == node.child_by_field_name("condition"):
        return True
    before = child.prev_sibling.text if child.type == "argument_list" and child.prev_sibling else None
    return before is not None and before.decode() in _SAME_TYPES


def _is_condition(node: "Node") -> bool:
    above = node.parent
    while above is not None and above.type == "parenthesized_expression":
        node, above = above, above.parent
    return above is not None and above.type in _CONDITIONS and above.child_by_field_name("condition") == node


def _is_value(node: "Node") -> bool:
    """Whether the condition is the value too, as in ``a ?: b``."""
    return node.type == "conditional_expression" and node.child_by_field_name("consequence") is None


def _is_cast(left: "Node") -> bool:
    """Whether the left operand is a type in parentheses, as in ``(sector_t)-1``, which could be a variable."""
    return left.type == "parenthesized_expression" and [child.type for child in left.named_children] == ["identifier"]


def _callee(statement: "Node") -> str:
    """The name of the function that a statement calls; empty for another statement."""
    call = statement.named_children[0] if statement.named_children else None
    function = call.child_by_field_name("function") if call is not None and call.type == "call_expression" else None
    return "" if function is None or function.text is None else function.text.decode(errors="replace")


def _name_of(function: "Node") -> str:
    node = function.child_by_field_name("declarator")
    while node is not None and node.type != "identifier":
        node = node.child_by_field_name("declarator")
    return "" if node is None or node.text is None else node.text.decode()


def _raw(text: str) -> str:
    """``text`` for ``str.format``, on one line so that those behind it keep their numbers."""
    return " ".join(text.split()).replace("{", "{{").replace("}", "}}")


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


FILES = (
    "block/blk-mq.c",
    "block/blk-mq.h",
    "block/blk-mq-sched.c",
    "block/blk-mq-sched.h",
    "block/blk-mq-tag.c",
    "lib/sbitmap.c",
    "block/mq-deadline.c",
    "block/bfq-iosched.c",
    "block/bfq-wf2q.c",
    "block/kyber-iosched.c",
    "block/blk-throttle.c",
    "drivers/md/dm-stripe.c",
    "drivers/md/dm-mpath.c",
    "drivers/md/dm-rq.c",
    "drivers/md/dm-ps-historical-service-time.c",
    "drivers/md/dm-ps-queue-length.c",
    "drivers/md/dm-ps-round-robin.c",
    "drivers/md/dm-ps-service-time.c",
    "drivers/md/raid0.c",
    "drivers/md/raid1.c",
    "drivers/md/raid1-10.c",
    "drivers/md/raid10.c",
    "drivers/md/raid5.c",
    "drivers/scsi/scsi_lib.c",
)
SCHEMATA = "schemata"


@dataclass(frozen=True)
class Generated:
    """``texts`` are the sources of the files, ``numbers`` the mutants by number."""

    source: KernelSource
    texts: Mapping[str, bytes]
    numbers: Mapping[int, Mutant]

    def containing(self, number: int, executed: Collection[str]) -> frozenset[str]:
        """The names among ``executed`` of the functions that contain a mutant, as ``blklab track`` chooses them."""
        mutant, revision = self.numbers[number], self.source.git_tree or self.source.revision
        sources = Sources(self.source.path, revision, revision)
        return frozenset(name for name, _ in sources.executed_as((mutant.function, mutant.file), lambda _: executed))


def generate(source: KernelSource) -> Generated:
    """The mutants of ``FILES``. Raises CannotJudge for a source that lacks one of them."""
    texts = {file: _text(source, file) for file in FILES}
    return Generated(
        source, texts, number_mutants([mutant for file in FILES for mutant in mutants_of(file, texts[file])])
    )


def build_schemata(generated: Generated, cache: Cache, tell: Tell) -> Kernel:
    """The kernel with all mutants, of which one is selected at run time. Raises what building a kernel raises."""
    source, numbers = generated.source, generated.numbers
    old = {file: text.decode() for file, text in generated.texts.items()} | {MAKEFILE: _text(source, MAKEFILE).decode()}
    new = {
        file: schema(text, {number: mutant for number, mutant in numbers.items() if mutant.file == file}).decode()
        for file, text in generated.texts.items()
    }
    new |= further_files(old[MAKEFILE], FIRST + len(numbers))
    header = f"Mutant: one of {len(numbers)} mutants, by a number\nKernels: >= 5.0\n"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{SCHEMATA}.patch").write_text(header + "".join(patch_lines(old, new)))
        mutated = replace(source, mutant=SCHEMATA, mutants=Path(folder), spec=f"{source.spec}+{SCHEMATA}")
        return tree.built(mutated, cache, tell=tell)


def patch_lines(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """A patch from files to others; one that is not in ``old`` is made."""
    for file, text in new.items():
        before = old.get(file, "")
        named = f"a/{file}" if before else "/dev/null"
        yield from difflib.unified_diff(before.splitlines(True), text.splitlines(True), named, f"b/{file}")


def _text(source: KernelSource, file: str) -> bytes:
    revision = source.git_tree or source.revision
    done = run(["git", "-C", str(source.path), "cat-file", "blob", f"{revision}:{file}"], accept=(0, 128))
    if done.returncode:
        raise CannotJudge(f"{source.title} has no {file}", remedy="mutants are of source:6.12 and its neighbours")
    return done.stdout
