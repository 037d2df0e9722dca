# SPDX-License-Identifier: GPL-2.0-only
"""The mutants of a kernel's source, and the kernel that has all of them."""

import difflib
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.studies.mutation.places import FoundMutants, Mutant, mutants_of
from harness.studies.mutation.schemata import FIRST, further_files, numbered, schema
from lab.base.cache import Cache
from lab.base.errors import CannotJudge
from lab.base.process import run
from lab.base.units import Tell
from lab.kernels import tree
from lab.kernels.model import Kernel
from lab.kernels.tree import KernelSource, Options

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
_MAKEFILE = "block/Makefile"


@dataclass(frozen=True)
class Generated:
    """``texts`` are the sources of the files, ``found`` is what they admit, ``numbers`` numbers the mutants."""

    source: KernelSource
    texts: Mapping[str, bytes]
    found: FoundMutants
    numbers: Mapping[int, Mutant]

    def of(self, file: str) -> Mapping[int, Mutant]:
        return {number: one for number, one in self.numbers.items() if one.file == file}


def generate(source: KernelSource) -> Generated:
    """The mutants of ``FILES``. Raises CannotJudge for a source that lacks one of them."""
    texts = {file: _text(source, file) for file in FILES}
    each = [mutants_of(file, text) for file, text in texts.items()]
    mutants = tuple(mutant for one in each for mutant in one.mutants)
    found = FoundMutants(mutants, sum((one.skipped for one in each), Counter()))
    return Generated(source, texts, found, numbered(mutants))


def build_schemata(generated: Generated, cache: Cache, tell: Tell) -> Kernel:
    """The kernel with all mutants, of which one is selected at run time. Raises what building a kernel raises."""
    old = {file: text.decode() for file, text in generated.texts.items()}
    old[_MAKEFILE] = _text(generated.source, _MAKEFILE).decode()
    new = {file: schema(text, generated.of(file)).decode() for file, text in generated.texts.items()}
    new |= further_files(old[_MAKEFILE], FIRST + len(generated.numbers))
    breaks = f"one of {len(generated.numbers)} mutants, by a number"
    return _built(generated.source, SCHEMATA, breaks, patch_lines(old, new), cache=cache, tell=tell)


def build_alone(generated: Generated, mutant: Mutant, cache: Cache, tell: Tell) -> Kernel:
    """The kernel with this one mutant, as if it had been written by hand."""
    text = generated.texts[mutant.file]
    new = text[: mutant.start] + mutant.after.encode() + text[mutant.end :]
    name = f"alone-{mutant.start}"
    patch = patch_lines({mutant.file: text.decode()}, {mutant.file: new.decode()})
    return _built(generated.source, name, mutant.place, patch, cache=cache, tell=tell)


def _built(source: KernelSource, name: str, breaks: str, patch: Iterator[str], *, cache: Cache, tell: Tell) -> Kernel:
    with tempfile.TemporaryDirectory() as folder:
        header = f"Mutant: {breaks}\nKernels: >= 5.0\n"
        (Path(folder) / f"{name}.patch").write_text(header + "".join(patch))
        mutated = replace(source, mutant=name, spec=f"{source.spec}+{name}")
        return tree.built(mutated, cache, options=Options(mutants=Path(folder)), tell=tell)


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
