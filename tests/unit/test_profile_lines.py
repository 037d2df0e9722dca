# SPDX-License-Identifier: GPL-2.0-only
"""Lines of source, from tables that the host's compiler makes."""

import shutil
import subprocess
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pytest

from harness.profile.formats import Side, line_changes, lines_text, listed_functions
from harness.profile.model import BLIND, Code, Profile
from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken
from lab.base.units import silent
from lab.kernels.objects import SourceLine, Wanted, source_lines, source_of
from lab.kernels.tree import KernelSource
from tests.unit.payload_samples import kernel
from tests.unit.profile_samples import profile

pytestmark = pytest.mark.skipif(shutil.which("addr2line") is None, reason="addr2line (binutils) is not installed")
HEADER = 'static inline void bump(int *b)\n{\n\tasm volatile("nop; nop; nop" : : "r"(b));\n}\n'
SOURCE = """\
#include "include/bump.h"
static inline void near(int *b)
{
	asm volatile("nop; nop" : : "r"(b));
}
void submit(int *b)
{
	bump(b);
	near(b);
}
void resubmit(int *b)
{
	bump(b);
}
"""
"""Three instructions of a shared header, and two of a function that is inlined from the same file."""
CODE = "blk.c"


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Objects of a made-up kernel: one of the image, one of a module, and one that has another static function."""
    source, objects = tmp_path / "src", tmp_path / "objects"
    (source / "include").mkdir(parents=True)
    (objects / "block").mkdir(parents=True)
    (source / "include/bump.h").write_text(HEADER)
    (source / CODE).write_text(SOURCE)
    (source / "twin.c").write_text(
        "__attribute__((noinline)) static int twin(int a) { return a * a; }\nint one(int a) { return twin(a); }\n"
    )
    (source / "other.c").write_text(
        "__attribute__((noinline)) static int twin(int a) { return a / 3; }\nint two(int a) { return twin(a); }\n"
    )
    for file, name, module in (
        (CODE, "blk", ""),
        (CODE, "blk_mod", "blk_mod"),
        ("twin.c", "twin", ""),
        ("other.c", "other", ""),
    ):
        own = f"-DMODULE -DKBUILD_MODNAME='\"{module}\"' " if module else ""
        path = f"block/{name}.o"
        flags = f"-Wp,-MMD,block/.{name}.o.d -O2 -fcf-protection=none {own} -DHASH='$(pound)'"
        words = f"gcc {flags} -c -o {path} {source / file} ; test -f {path}"
        (objects / f"block/.{name}.o.cmd").write_text(f"savedcmd_{path} := {words}\n\nsource_{path} := {file}\n")
        subprocess.run(["sh", "-c", words.replace("$(pound)", "#")], cwd=objects, check=True)
    (objects / "block/.built-in.a.cmd").write_text("savedcmd_block/built-in.a := ar cDPrST block/built-in.a\n")
    monkeypatch.setattr(
        "lab.kernels.tree.in_objects", lambda _kernel, _source, _cache, look, **_: look(objects, source)
    )
    return objects


def lines_of(tmp_path: Path, *wanted: Wanted) -> list[Mapping[int, SourceLine]]:
    source = KernelSource(tmp_path, "tree:x", "x")
    return source_lines(kernel(tmp_path / "kernel", {}), source, wanted, Cache(tmp_path / "cache"))


@pytest.mark.parametrize("owner", ["vmlinux", "blk_mod"])
def test_an_instruction_has_the_line_that_people_read(objects: Path, tmp_path: Path, owner: str) -> None:
    before = {path: path.read_bytes() for path in objects.rglob("*") if path.is_file()}
    (got,) = lines_of(tmp_path, Wanted(owner, "submit", range(5)))
    assert [got[offset] for offset in range(3)] == [SourceLine(CODE, 8, "submit", "bump(b);")] * 3
    near = SourceLine(CODE, 4, "near", 'asm volatile("nop; nop" : : "r"(b));')
    assert [got[offset] for offset in range(3, 5)] == [near] * 2
    assert {path: path.read_bytes() for path in objects.rglob("*") if path.is_file()} == before


def test_a_function_that_two_files_have_has_no_lines(objects: Path, tmp_path: Path) -> None:
    found = lines_of(tmp_path, *(Wanted("vmlinux", name, [0]) for name in ("twin", "one", "unknown")))
    assert [sorted(one) for one in found] == [[], [0], []]


def test_other_code_is_refused(objects: Path, tmp_path: Path) -> None:
    command = objects / "block/.twin.o.cmd"
    command.write_text(command.read_text().replace(" -O2 ", " -O0 "))
    with pytest.raises(LabBroken, match=r"block/twin\.o has other code"):
        lines_of(tmp_path, Wanted("vmlinux", "one", [0]))


def test_a_packaged_kernel_has_no_lines(tmp_path: Path) -> None:
    with pytest.raises(CannotJudge, match="only kernels that blklab builds"):
        source_of(kernel(tmp_path, {}), Cache(tmp_path), silent)


def _side(counts: dict[int, int], texts: dict[int, str], *, ios: int = 100) -> Side:
    """One function whose instruction at offset N is of line N."""
    own = profile("kernel;submit 100 1000\nkernel;other 1 10\n", ios=ios)
    code = (Code("vmlinux", "submit", 0x1000, counts), Code("vmlinux", "submit.cold", 0x2000, {0: 50}))
    known = {offset: SourceLine(CODE, offset, "submit", texts.get(offset, "")) for offset in counts}
    return Side(Profile(own.head, own.ios, own.total, 0, own.nodes, code), {code[0]: known})


def test_a_line_that_moved_is_the_same_line() -> None:
    before = _side({3: 100, 4: 200}, {3: "old();", 4: "tag = get();"})
    after = _side({7: 600, 9: 700}, {7: "tag = get();", 9: "new();"}, ios=200)
    found = {
        one.line.text: (one.number, one.before, one.after) for one in line_changes([before, after], "vmlinux", "submit")
    }
    assert found == {
        "old();": (3, 1, 0),
        "tag = get();": (7, 2, 3),
        "new();": (9, 0, Fraction(7, 2)),
        "no line number": (0, Fraction(1, 2), Fraction(1, 4)),
    }


def test_the_deltas_of_the_lines_add_up_to_the_heading() -> None:
    before = _side({number: 90 + number for number in range(1, 18)}, {})
    after = _side({number: 1700 - number for number in range(2, 19)}, {}, ios=97)
    functions = listed_functions([before.profile, after.profile], "submit")
    text = list(lines_text([before, after], functions))
    total = int(text[0].split("(")[1].split(" ")[0].replace(",", "").rstrip(")"))
    end = next(number for number, line in enumerate(text) if line.endswith("other lines"))
    assert sum(int(line.split()[0].replace(",", "")) for line in text[1 : end + 1]) == total
    assert text[-1] == BLIND


def test_a_line_without_a_difference_is_one_of_the_others() -> None:
    sides = [_side({3: 150, 4: cost}, {3: "a();", 4: "b();"}) for cost in (100, 400)]
    text = list(lines_text(sides, listed_functions([side.profile for side in sides], "submit")))
    assert [line.split()[0] for line in text[1:3]] == ["+3", "+0"]
    assert text[2].endswith("2 other lines")


def test_the_lines_of_six_functions_are_shown() -> None:
    wide = profile("\n".join(f"kernel;f{number} 1 {100 - number}" for number in range(9)))
    assert [each.name for each in listed_functions([wide], None)] == [f"f{number}" for number in range(6)]


def test_a_single_profile_has_lines_without_a_before() -> None:
    side = _side({3: 100, 4: 250}, {3: "a();", 4: "b();"})
    text = list(lines_text([side], listed_functions([side.profile], None)))
    assert text[0] == "submit: 4 instructions per I/O, by line"
    assert [line.split() for line in text[1:3]] == [["+2", "blk.c:4", "b();"], ["+1", "blk.c:3", "a();"]]
