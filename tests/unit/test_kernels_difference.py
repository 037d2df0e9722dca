# SPDX-License-Identifier: GPL-2.0-only
"""Functions whose code differs between two builds: what a struct, a macro, an inline function and a move change."""

import shutil
import subprocess
from pathlib import Path

import pytest

from lab.kernels.objects import changed_functions, keep_objects

HEADER = """
#define LIMIT 7
struct queue { int depth; int busy; };
static inline int room(struct queue *q) { return LIMIT - q->busy; }
int say(const char *text);
"""
SOURCES = {
    "first.c": """#include "q.h"
static __attribute__((noinline)) int helper(int a) { return a * 3 + say("helper"); }
int by_depth(struct queue *q) { return q->depth; }
int by_busy(struct queue *q) { return q->busy; }
int by_room(struct queue *q) { return room(q) + 1; }
int calls(int a) { return helper(a) + 1; }
""",
    "second.c": """#include "q.h"
static int table[] = {3, 4};
int neither(int a) { return table[a & 1] + say("second"); }
""",
}
_NEEDS = pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("objdump")), reason="needs gcc and binutils")


def build(folder: Path, sources: dict[str, str], header: str = HEADER) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "q.h").write_text(header)
    for name, text in sources.items():
        (folder / name).write_text(text)
        # As the kernel is compiled, without a position-independent layout.
        words = ["-O2", "-fno-pie", "-mcmodel=kernel", "-c", name]
        subprocess.run(["gcc", *words], cwd=folder, check=True)


@_NEEDS
@pytest.mark.parametrize(
    ("old", "new", "differ"),
    [
        ("int depth; int busy;", "int depth; int limit; int busy;", {"by_busy", "by_room"}),
        ("int depth; int busy;", "long depth; int busy;", {"by_busy", "by_room"}),
        ("LIMIT 7", "LIMIT 9", {"by_room"}),
        ("LIMIT - q->busy", "LIMIT + q->busy", {"by_room"}),
        ("struct queue {", "/* A comment. */\nstruct queue {", set()),
        ("int busy;", "int busy; int unused;", set()),
    ],
)
def test_a_header_changes_the_functions_that_use_it(tmp_path: Path, old: str, new: str, differ: set[str]) -> None:
    build(tmp_path / "objects", SOURCES)
    keep_objects(tmp_path / "objects", tmp_path / "before")
    build(tmp_path / "objects", SOURCES, HEADER.replace(old, new))
    assert changed_functions(tmp_path / "before", tmp_path / "objects") == dict.fromkeys(differ, "first.o")


@_NEEDS
def test_functions_that_only_move_are_the_same_and_new_ones_differ(tmp_path: Path) -> None:
    """A larger first function moves the others, their calls of each other, and the strings that they refer to."""
    build(tmp_path / "objects", SOURCES)
    keep_objects(tmp_path / "objects", tmp_path / "before")
    grown = SOURCES["first.c"].replace(
        "static __attr", 'int added(int a) { return say("added") * a * a - say("another"); }\nstatic __attr'
    )
    build(tmp_path / "objects", {"first.c": grown, "third.c": "int third;\nint third_of(void) { return third; }\n"})
    (tmp_path / "objects/second.o").unlink()
    assert changed_functions(tmp_path / "before", tmp_path / "objects") == {
        "added": "first.o",
        "neither": "second.o",
        "third_of": "third.o",
    }


def test_objects_of_the_build_s_own_tools_and_of_linked_images_are_left_out(tmp_path: Path) -> None:
    for name in ("block/mq.o", "scripts/kconfig/conf.o", "tools/objtool/check.o", "vmlinux.o", "nvme.mod.o"):
        path = tmp_path / "objects" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    keep_objects(tmp_path / "objects", tmp_path / "before")
    assert [path.name for path in (tmp_path / "before").rglob("*.o")] == ["mq.o"]
