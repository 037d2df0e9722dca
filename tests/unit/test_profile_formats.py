# SPDX-License-Identifier: GPL-2.0-only
"""What other tools read of a profile, and the page; each format is checked by its reader or its schema."""

import json
import re
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest

from harness.profile.formats import callgrind, differential_stacks, folded_stacks, speedscope
from harness.profile.model import BLIND, frames_of, joined
from harness.profile.report import differential_page, profile_page
from tests.unit.page_samples import Page
from tests.unit.profile_samples import AFTER, BEFORE, profile

# The file of speedscope's package 1.25.0 (MIT).
SPEEDSCOPE = json.loads((Path(__file__).parent / "fixtures/speedscope-file-format-schema.json").read_text())


def test_speedscope_gets_what_its_schema_asks_for() -> None:
    document = json.loads(speedscope(profile(BEFORE)))
    jsonschema.validate(document, SPEEDSCOPE)
    sampled, frames = document["profiles"][0], document["shared"]["frames"]
    assert sum(sampled["weights"]) == sampled["endValue"] == profile(BEFORE).total
    assert len(sampled["weights"]) == len(sampled["samples"])
    assert max(number for stack in sampled["samples"] for number in stack) < len(frames)
    assert BLIND in document["name"]


def test_the_page_lists_200_of_more_functions() -> None:
    text = "\n".join(f"kernel;f{number} 1 {number}" for number in range(1, 202))
    page = differential_page(profile(text), profile(text.replace(" 1 ", " 2 ")))
    assert "The 200 largest of 201 functions" in page
    assert page.count("<tr><td>") == 200


@pytest.mark.skipif(shutil.which("flamegraph.pl") is None, reason="flamegraph.pl (FlameGraph) is not in PATH")
@pytest.mark.parametrize(
    ("text", "titles"),
    [
        (folded_stacks(profile(BEFORE)), ["submit (8,100 samples, 53.61%)", "all (15,110 samples, 100%)"]),
        (
            differential_stacks(profile(BEFORE), profile(AFTER)),
            ["schedule (60,000 samples, 24.99%; +24.99%)", "all (240,100 samples, 100%)"],
        ),
    ],
)
def test_flamegraph_pl_reads_every_line(text: str, titles: list[str], tmp_path: Path) -> None:
    path = tmp_path / "folded"
    path.write_text(text)
    drawn = subprocess.run(["flamegraph.pl", str(path)], check=True, capture_output=True, text=True)
    assert "Ignored" not in drawn.stderr
    for title in titles:
        assert f"<title>{title}</title>" in drawn.stdout


@pytest.mark.skipif(shutil.which("callgrind_annotate") is None, reason="valgrind is not installed")
def test_callgrind_annotate_reads_the_costs(tmp_path: Path) -> None:
    path = tmp_path / "callgrind.out"
    path.write_text(callgrind(profile(BEFORE)))

    def annotated(*options: str) -> dict[str, int]:
        command = ["callgrind_annotate", "--threshold=100", *options, str(path)]
        said = subprocess.run(command, check=True, capture_output=True, text=True)
        assert said.stderr == ""
        found = re.findall(r"^ *([\d,]+) \([ \d.]+%\)  (\S.*)$", said.stdout, re.MULTILINE)
        return {name: int(count.replace(",", "")) for count, name in found}

    own, inclusive = annotated(), annotated("--inclusive=yes")
    assert own["PROGRAM TOTALS"] == profile(BEFORE).total
    assert own["kernel/vmlinux:submit [vmlinux]"] == 4000
    assert own["user/fio:get_io_u [fio]"] == 5000
    assert inclusive["kernel/vmlinux:entry [vmlinux]"] == 9100
    assert inclusive["kernel/vmlinux:plug [vmlinux]"] == 3200


@pytest.mark.parametrize("page", [profile_page(profile(BEFORE)), differential_page(profile(BEFORE), profile(AFTER))])
def test_a_page_has_no_script_and_needs_no_network(page: str) -> None:
    seen = Page(page)
    assert seen.elements["svg"]
    assert not seen.elements.keys() & {"script", "link", "img", "iframe"}
    assert seen.targets == []
    assert "://" not in page
    assert BLIND in page


def test_a_page_without_instructions_has_no_frames() -> None:
    nothing = profile("kernel;idle 1 0", lost=100)
    page = differential_page(nothing, nothing)
    assert "<rect" not in page and page.count('height="17"') == 2


def test_a_renamed_function_is_a_frame_of_both_sides() -> None:
    """By most of its instructions in common callees, or by its name; without either the two sides stay apart."""
    old, new = (
        profile(
            f"kernel;f 1 10\nkernel;f;{call} 1 10\nkernel;f;{call};get_tag 1 {cost}\n"
            f"kernel;f;{read} 1 5\nkernel;f;{other} 1 7"
        )
        for call, cost, read, other in (("make", 30, "iomap_readpage", "x"), ("submit", 20, "iomap_read_folio", "y"))
    )
    frames = joined(frames_of([old, new])).below["kernel"].below["f"].below
    assert sorted(frames) == ["iomap_readpage -> iomap_read_folio", "make -> submit", "x", "y"]
    # 100 I/Os: 40 before, 30 after.
    assert frames["make -> submit"].costs == [Fraction(40, 100), Fraction(30, 100)]
    assert frames["make -> submit"].below["get_tag"].costs == [Fraction(30, 100), Fraction(20, 100)]
    assert "make -&gt; submit" in differential_page(old, new)
    for common, frame in ((10, "make"), (11, "make -> submit")):  # half of both, and more
        old, new = (profile(f"kernel;{name} 1 10\nkernel;{name};get_tag 1 {common}") for name in ("make", "submit"))
        assert frame in joined(frames_of([old, new])).below["kernel"].below
    # Of two names that are alike the nearer one.
    old, new = (
        profile("kernel;f 1 10\nkernel;f;iomap_readpage 1 5"),
        profile("kernel;f 1 10\nkernel;f;iomap_readpages 1 5\nkernel;f;iomap_read_folio 1 5"),
    )
    frames = joined(frames_of([old, new])).below["kernel"].below["f"].below
    assert sorted(frames) == ["iomap_read_folio", "iomap_readpage -> iomap_readpages"]
    old = profile("kernel;f 1 10\nkernel;f;make 1 10\nkernel;f;make;get_tag 1 30")
    seldom = profile("kernel;f 1 10\nkernel;f;submit 1 90\nkernel;f;submit;get_tag 1 10")
    assert "make -> submit" not in joined(frames_of([old, seldom])).below["kernel"].below["f"].below
