# SPDX-License-Identifier: GPL-2.0-only
"""Mutants: headers of patches, ranges of kernels, and the mutants that scenarios name."""

from pathlib import Path

import pytest

from harness.commands.common.options import SCENARIOS
from harness.scenario.load import find_scenarios, load_scenario
from lab.base.errors import CannotJudge, InputErrors, Misuse
from lab.kernels.mutants import catalogue, mutation
from lab.kernels.release import Release

BODY = "\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


def test_the_patch_for_the_kernel_is_taken(tmp_path: Path) -> None:
    (tmp_path / "late.5.10.patch").write_text(f"Mutant: late\nKernels: 5.10\n{BODY}")
    header = "Mutant: late\nKernels: >= 6.1\nFrom: https://example.org/a\nOptions: A B\n"
    (tmp_path / "late.patch").write_text(f"{header}{BODY}")
    known = catalogue(tmp_path)
    assert mutation("late", Release.parse("5.10.3"), known).patch.name == "late.5.10.patch"
    late = mutation("late", Release.parse("6.12"), known)
    assert (late.source, late.options) == ("https://example.org/a", ("A", "B"))
    with pytest.raises(CannotJudge, match=r"mutant late is for kernels 5\.10; >= 6\.1, and this is 5\.15"):
        mutation("late", Release.parse("5.15"), known)
    with pytest.raises(Misuse, match=r"no mutant lat\b.*late"):
        mutation("lat", Release.parse("6.12"), known)


def test_all_mistakes_of_all_headers(tmp_path: Path) -> None:
    (tmp_path / "Bad_Name.patch").write_text(f"Mutant: x\nKernels: 6.1\n{BODY}")
    (tmp_path / "no-range.patch").write_text(f"Mutant: x\n{BODY}")
    (tmp_path / "wrong-range.patch").write_text(f"Mutant: x\nKernels: <= 6.1\n{BODY}")
    with pytest.raises(InputErrors) as caught:
        catalogue(tmp_path)
    said = [problem.message for problem in caught.value.problems]
    assert said == [
        "not the name of a mutant's file",
        "the line Kernels: is missing before the diff",
        'expected kernels, got "<= 6.1"',
    ]


def test_every_mutant_of_a_control_exists_and_every_mutant_has_a_control() -> None:
    scenarios = [load_scenario(name, search=SCENARIOS) for name in find_scenarios(SCENARIOS)]
    named = {control.mutant for scenario in scenarios for control in scenario.controls if control.mutant}
    assert named == set(catalogue())


def test_every_mutant_is_for_the_packaged_source() -> None:
    for name, patches in catalogue().items():
        assert mutation(name, Release.parse("6.12.107"), catalogue()) in patches
