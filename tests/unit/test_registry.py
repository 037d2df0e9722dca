# SPDX-License-Identifier: GPL-2.0-only
"""The registry knows every figure, and nothing else asks which figure it has at hand."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.scenario.registry import FIGURES, GUEST, HOST, IDLE, IOPS, LUN, PER_IO, SEEN, Machine, figure_of, named
from tests.unit.test_recorded_boots import NAMES, recorded

ROOT = Path(__file__).parents[2]
REGISTRY = {ROOT / "harness/scenario/registry.py"}
_PARTS = {"startswith", "endswith", "removeprefix", "removesuffix"}


def is_metric(node: ast.expr) -> bool:
    return (isinstance(node, ast.Name) and node.id == "metric") or (
        isinstance(node, ast.Attribute) and node.attr == "metric"
    )


def is_fixed(node: ast.expr) -> bool:
    """Whether it is written in the code: text, a collection of texts, or a constant of some module."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return all(map(is_fixed, node.elts))
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


def questions(source: str) -> Iterator[int]:
    """Lines in which code asks whether a figure is a certain one, or of a certain family."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            if any(map(is_metric, sides)) and any(map(is_fixed, sides)):
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_metric(node.func.value):
            if node.func.attr in _PARTS:
                yield node.lineno
        elif isinstance(node, ast.Match) and is_metric(node.subject):
            yield node.lineno


@pytest.mark.parametrize(
    "line",
    ["metric == 'iops'", "x.metric != PER_IO", "metric in FOLIOS", "metric in ('a', B)", "metric.endswith('.ms')"],
)
def test_a_question_is_found(line: str) -> None:
    assert [*questions(line)] == [1]
    assert not [*questions("metric in metrics and metric == other")]


def test_only_the_registry_asks_which_figure_it_is() -> None:
    files = [path for top in ("lab", "harness") for path in (ROOT / top).rglob("*.py") if path not in REGISTRY]
    assert len(files) > 100
    assert [f"{path}:{line}" for path in files for line in questions(path.read_text())] == []


@pytest.mark.parametrize("boot", NAMES)
def test_every_figure_of_a_boot_has_a_row(boot: str) -> None:
    keys = {key for cell in recorded(boot).cells for key in cell.figures}
    assert keys
    assert [key for key in keys if not figure_of(*key[1:]).name] == []


def test_what_a_figure_names_and_its_row() -> None:
    assert named(LUN, "d0.tags.mean") == ("d0", FIGURES["tags.mean"])
    assert named(HOST, "h.tags.free") == ("h", FIGURES["tags.free"])
    assert named(GUEST, "line.sd_done.locks.held") == ("sd_done", FIGURES["line.NAME.locks.held"])
    assert named(LUN, IOPS) == ("", FIGURES[IOPS]), "a role may be called lun"
    for role, metric in ((LUN, "d0.tags.free"), ("victim", "tags.mean.x"), (GUEST, "line.sd_done.taken")):
        assert not figure_of(role, metric).name


def test_rows_agree_with_themselves() -> None:
    for figure in FIGURES.values():
        assert figure.says, figure.name
        assert figure.least < figure.most
        assert figure.machine is Machine.ANY or GUEST in figure.held_by, figure.name


def test_a_figure_that_a_boot_lacks_is_explained_where_the_cause_is_known() -> None:
    key = ("l", "r", PER_IO)
    busy, idle = {("l", "r", IOPS): 5.0, ("l", GUEST, IDLE): 0.04}, {("l", "r", IOPS): 5.0, ("l", GUEST, IDLE): 0.06}
    assert figure_of(*key[1:]).absent(key, idle).startswith("idle time is known in ticks only")
    for figures in (busy, {}, idle | {("l", "r", IOPS): 0.0}, {("m", "r", IOPS): 5.0, ("l", GUEST, IDLE): 0.06}):
        assert not figure_of(*key[1:]).absent(key, figures)
    key = ("l", GUEST, "line.sd_done.seen")
    assert "no function or variable sd_done" in figure_of(*key[1:]).absent(key, {("l", GUEST, SEEN): 1.0})
    assert not figure_of(*key[1:]).absent(key, {})
    assert "Linux 5.17" in figure_of("r", "folios.order3").absent(("l", "r", "folios.order3"), {})
    assert "Linux 5.5" in figure_of("r", "members.flushes.ms").absent(("l", "r", "members.flushes.ms"), {})
    assert not figure_of("r", IOPS).absent(("l", "r", IOPS), {})
