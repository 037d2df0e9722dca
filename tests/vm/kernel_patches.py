# SPDX-License-Identifier: GPL-2.0-only
"""Patches of a kernel's source whose effect on the instructions of a read is known."""

import difflib
import re
import subprocess
from pathlib import Path

from lab.kernels.tree import KernelSource


def source_file(source: KernelSource, path: str) -> str:
    command = ["git", f"--git-dir={source.path}", "cat-file", "blob", f"{source.git_tree}:{path}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def adding(source: KernelSource, path: str, function: str, count: int) -> str:
    """A mutant's patch: ``count`` nops, which need no register, at the beginning of the function in file ``path``."""
    before = source_file(source, path)
    # GNU C, "Size of an asm": asm inline counts as small where the compiler decides what to inline.
    added = f'\tasm_inline volatile(".rept {count}; nop; .endr");\n'
    after, found = re.subn(
        rf"(^\w[^;{{}}]*\b{function}\([^;{{}}]*\)\n\{{\n)", rf"\g<1>{added}", before, flags=re.MULTILINE
    )
    assert found == 1, f"{path}: {found} definitions of {function}"
    return _patch(path, before, after, f"{function} executes {count} nops")


_SUBMIT = "block/blk-core.c"


def _submit_bio(text: str) -> str:
    begin = text.index("static void __submit_bio(")
    return text[begin : text.index("\n}\n", begin)]


def without_plug(source: KernelSource) -> str:
    """A mutant's patch: __submit_bio() has no plug, as before 6.10 (060406c61c7c) and since 7.2 (9cbbac29d752)."""
    before = source_file(source, _SUBMIT)
    function = _submit_bio(before)
    after, found = re.subn(r"\n\t(struct blk_plug plug|blk_(start|finish)_plug\(&plug\));", "", function)
    assert found == 3, f"{found} lines of a plug in __submit_bio"
    return _patch(_SUBMIT, before, before.replace(function, after), "a bio is submitted without a plug")


def with_plug(source: KernelSource) -> str:
    """A mutant's patch: __submit_bio() holds a plug, as from 6.10 to 7.1: the opposite of 9cbbac29d752."""
    before = source_file(source, _SUBMIT)
    function = _submit_bio(before)
    assert "plug" not in function
    held = "\n{\n\tstruct blk_plug plug;\n\n\tblk_start_plug(&plug);\n"
    after = function.replace("\n{\n", held, 1) + "\n\tblk_finish_plug(&plug);"
    return _patch(_SUBMIT, before, before.replace(function, after), "a bio is submitted with a plug")


def without_nowait(source: KernelSource) -> str:
    """A mutant's patch: dm-stripe does not say that it supports REQ_NOWAIT, as in 5.10."""
    path = "drivers/md/dm-stripe.c"
    before = source_file(source, path)
    assert before.count(" | DM_TARGET_NOWAIT") == 1
    return _patch(path, before, before.replace(" | DM_TARGET_NOWAIT", ""), "io_uring cannot submit to dm-stripe")


def without_priority(source: KernelSource) -> str:
    """A mutant's patch: ioprio_set(2) succeeds and has no effect."""
    path = "block/blk-ioc.c"
    before = source_file(source, path)
    assert before.count("->ioprio = ioprio;") == 1
    return _patch(path, before, before.replace("->ioprio = ioprio;", "->ioprio = 0;"), "priorities have no effect")


def _patch(path: str, before: str, after: str, breaks: str) -> str:
    lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
    diff = "".join(difflib.unified_diff(*lines, f"a/{path}", f"b/{path}"))
    return f"Mutant: {breaks}\nKernels: >= 4.19\n\n{diff}"


def write_mutant(folder: Path, source: KernelSource, path: str, function: str, count: int) -> str:
    """Put the patch into ``folder`` and return the mutant's name."""
    name = function.replace("_", "-")
    (folder / f"{name}.patch").write_text(adding(source, path, function, count))
    return name
