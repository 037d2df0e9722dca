# SPDX-License-Identifier: GPL-2.0-only
"""The mutants of a kernel's source, and the kernel that has all of them."""

import difflib
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.patch.sources import Sources
from lab.base.cache import Cache
from lab.base.errors import CannotJudge
from lab.base.process import run
from lab.base.units import Tell
from lab.kernels import tree
from lab.kernels.model import Kernel
from lab.kernels.tree import KernelSource
from tools.mutation.places import Mutant, mutants_of

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
