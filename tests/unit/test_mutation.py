# SPDX-License-Identifier: GPL-2.0-only
"""Mutants of a small C file: which there are, and that the one build behaves as a build of each would."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from harness.studies.mutation import schemata
from harness.studies.mutation.kernel import patch_lines
from harness.studies.mutation.places import Mutant, Operator, mutants_of
from harness.studies.mutation.schemata import NONE, further_files, number_mutants, reached_numbers, schema

SAMPLE = b"""\
static int notes;

static void note(int much)
{
	notes += much;
}

static int pick(int a, int b)
{
	static const int few = 3;
	int sum = 0;

	if (a > 2 && !(b & 1))
		sum += a * 3;
	else if (a == 1)
		return b <= 4 ? -1 : b << 2;
	note(sum);
	switch (b) {
	case 2:
		sum--;
		break;
	default:
		if ((a != b))
			note(a);
	}
	sum += a ?: 5;
	spin_unlock(&sum);
	return sum + (int)sizeof(sum * 2) - few;
}
"""
MAIN = """
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	SELECT;
	for (int a = 0; a < 6; a++)
		for (int b = 0; b < 6; b++)
			printf("%d ", pick(a, b));
	printf("%d\\n", notes);
	return 0;
}
"""
KERNEL = """
#define spin_unlock(lock) ((void)(lock))
typedef unsigned char u8;
#define OPTIMIZER_HIDE_VAR(var) __asm__ ("" : "=r" (var) : "0" (var))
"""


def mutants() -> tuple[Mutant, ...]:
    return mutants_of("block/sample.c", SAMPLE)


def shown(mutant: Mutant) -> str:
    return f"{mutant.function}:{mutant.line} {mutant.before} -> {mutant.after}"


def test_each_operator_finds_its_places() -> None:
    assert Counter(mutant.operator for mutant in mutants()) == {
        Operator.CONDITION: 4,
        Operator.RELATION: 2,
        Operator.ARITHMETIC: 9,
        Operator.CONSTANT: 9,
        Operator.STATEMENT: 6,
    }
    texts = [shown(mutant) for mutant in mutants()]
    assert "pick:13 a > 2 -> a >= 2" in texts
    assert "pick:13 a > 2 && !(b & 1) -> !(a > 2 && !(b & 1))" in texts
    assert "pick:16 b << 2 -> b >> 2" in texts
    assert "pick:20 sum-- -> sum++" in texts
    assert "note:5 notes += much; -> ;" in texts


def test_a_constant_a_label_and_what_measures_nothing_have_no_mutant() -> None:
    assert {mutant.line for mutant in mutants()}.isdisjoint({10, 19, 27})


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("\tint at[4];\n\tuse(at);", {4}),
        ("\treturn min(x, 4);", set()),
        ("\treturn x + /* why */ 4;", {3}),
        ("#if PAGE_SIZE > 4096\n\tuse(x);\n#endif", {4}),
        ("\treturn (sector_t)-x;", set()),
    ],
)
def test_a_place_that_must_stay_has_no_mutant(body: str, lines: set[int]) -> None:
    assert {mutant.line for mutant in mutants_of("a.c", f"int f(int x)\n{{\n{body}\n}}\n".encode())} == lines


def test_the_one_build_behaves_as_a_build_of_each_mutant(tmp_path: Path) -> None:
    numbers = number_mutants(mutants())
    header = further_files("", 100)["include/linux/blklab_mutants.h"]
    (tmp_path / "linux").mkdir()
    (tmp_path / "linux/blklab_mutants.h").write_text(header)
    for name in ("compiler", "types"):
        (tmp_path / f"linux/{name}.h").write_text("")
    counters = "int blklab_mutant; u8 blklab_reached[100];\n"
    every = compiled(tmp_path, "every", schema(SAMPLE, numbers), counters, "blklab_mutant = atoi(argv[1])")
    plain = said(compiled(tmp_path, "plain", SAMPLE, "", "(void)argc"))
    assert said(every, NONE) == plain
    for number, mutant in numbers.items():
        changed = SAMPLE[: mutant.start] + mutant.after.encode() + SAMPLE[mutant.end :]
        alone = said(compiled(tmp_path, "alone", changed, "", "(void)argc"))
        assert alone != plain, shown(mutant)
        assert said(every, number) == alone, shown(mutant)


def compiled(folder: Path, name: str, source: bytes, more: str, select: str) -> Path:
    text = KERNEL + (f"#include <linux/blklab_mutants.h>\n{more}" if more else "") + source.decode()
    (folder / f"{name}.c").write_text(text + MAIN.replace("SELECT", select))
    words = ["gcc", "-O2", "-w", f"-I{folder}", "-o", str(folder / name), str(folder / f"{name}.c")]
    subprocess.run(words, check=True)
    return folder / name


def said(program: Path, *numbers: int) -> str:
    return subprocess.run([program, *map(str, numbers)], check=True, capture_output=True, text=True).stdout


def test_lines_of_the_source_keep_their_order() -> None:
    assert len(schema(SAMPLE, number_mutants(mutants())).splitlines()) == len(SAMPLE.splitlines()) + 1


def test_numbers_of_executed_places_are_read_from_the_kernels_log() -> None:
    log = "[    1.5] blklab_mutants: reached 0580\n[    1.6] quiet\n[    1.7] blklab_mutants: reached 01\n"
    assert reached_numbers(log) == {0, 2, 15, 16}


def test_a_patch_makes_files_and_changes_others(tmp_path: Path) -> None:
    new = {"a.c": "one\nthree\n", "new.h": "x\n"}
    (tmp_path / "a.c").write_text("one\ntwo\n")
    patch = "".join(patch_lines({"a.c": "one\ntwo\n"}, new))
    subprocess.run(["git", "apply", "-"], input=patch, text=True, check=True, cwd=tmp_path)
    assert {name: (tmp_path / name).read_text() for name in new} == new


def test_the_kernel_has_room_for_every_number() -> None:
    code = further_files("obj-y += a.o\n", 300)["block/blklab_mutants.c"]
    assert "u8 blklab_reached[512];" in code
    assert f'"{schemata.REACHED}%*phN' in code
