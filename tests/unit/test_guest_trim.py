# SPDX-License-Identifier: GPL-2.0-only
"""Trimmed programs are run: the dynamic loader is the judge."""

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.base.errors import LabBroken
from lab.native.elf import drop_libraries, needed_libraries

LIBRARIES = ("one", "two", "three")
MAIN = """\
#include <stdio.h>
#include <string.h>
int one(void), two(void), three(void);
int main(int count, char **words)
{
	for (int at = 1; at < count; at++)
		printf("%d\\n", !strcmp(words[at], "one") ? one() : !strcmp(words[at], "two") ? two() : three());
	puts("up");
	return 0;
}
"""

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this host")


@pytest.fixture(scope="module", params=list(itertools.permutations(LIBRARIES)), ids="-".join)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that needs three libraries with symbol versions, in the order of the parameter, and libc."""
    folder = tmp_path_factory.mktemp("elf")
    for number, name in enumerate(LIBRARIES, start=1):
        (folder / f"{name}.c").write_text(f"int {name}(void) {{ return {number}; }}\n")
        (folder / f"{name}.map").write_text(f"LAB_{name} {{ global: {name}; }};\n")
        options = ["-shared", "-fPIC", f"-Wl,--version-script={name}.map", f"-Wl,-soname,lib{name}.so"]
        subprocess.run(["cc", *options, "-o", f"lib{name}.so", f"{name}.c"], cwd=folder, check=True)
    (folder / "main.c").write_text(MAIN)
    libraries = [f"-l{name}" for name in request.param]
    subprocess.run(["cc", "-o", "main", "main.c", "-L.", "-Wl,-rpath,.", *libraries], cwd=folder, check=True)
    return folder / "main"


def run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *words], cwd=program.parent, check=False, capture_output=True, text=True)


def trimmed(program: Path, *keep: str) -> Path:
    path = program.with_name("trimmed")
    path.write_bytes(drop_libraries(program.read_bytes(), keep))
    path.chmod(0o755)
    return path


@needs_compiler
def test_needed_libraries_are_in_their_order(program: Path) -> None:
    *chosen, libc = needed_libraries(program.read_bytes())
    assert sorted(chosen) == ["libone.so", "libthree.so", "libtwo.so"]
    assert libc == "libc.so.6"


@needs_compiler
@pytest.mark.parametrize("kept", [(), ("one",), ("two",), ("three",), ("one", "three"), LIBRARIES], ids="-".join)
def test_a_trimmed_program_works_without_the_removed_parts(program: Path, kept: tuple[str, ...]) -> None:
    path = trimmed(program, "libc.so.6", *(f"lib{name}.so" for name in kept))
    assert path.stat().st_size == program.stat().st_size
    assert set(needed_libraries(path.read_bytes())) == {"libc.so.6", *(f"lib{name}.so" for name in kept)}
    hidden = [program.with_name(f"lib{name}.so") for name in LIBRARIES if name not in kept]
    for library in hidden:
        library.rename(library.with_suffix(".away"))
    try:
        done = run(path, *kept)
    finally:
        for library in hidden:
            library.with_suffix(".away").rename(library)
    numbers = [str(LIBRARIES.index(name) + 1) for name in kept]
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [*numbers, "up"], "")


@needs_compiler
def test_a_removed_function_crashes_only_when_it_is_called(program: Path) -> None:
    done = run(trimmed(program, "libc.so.6", "libone.so"), "two")
    assert done.returncode == -11


@needs_compiler
def test_trimming_twice_changes_nothing_more(program: Path) -> None:
    keep = ("libc.so.6", "libtwo.so")
    once = drop_libraries(program.read_bytes(), keep)
    assert drop_libraries(once, keep) == once
    assert drop_libraries(program.read_bytes(), {*keep, "libone.so", "libthree.so"}) == program.read_bytes()


@pytest.mark.parametrize(
    "data, words",
    [
        (b"", "not a 64-bit"),
        (b"#!/bin/sh\n" * 9, "not a 64-bit"),
        (b"\x7fELF\x01\x01" + bytes(100), "not a 64-bit"),
        (b"\x7fELF\x02\x01" + bytes(100), "not dynamically linked"),
    ],
)
def test_what_is_no_program_is_refused(data: bytes, words: str) -> None:
    for attempt in (lambda: drop_libraries(data, ()), lambda: needed_libraries(data)):
        with pytest.raises(LabBroken, match=words):
            attempt()
