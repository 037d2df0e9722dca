# SPDX-License-Identifier: GPL-2.0-only
"""The reference pages are current and complete, and their examples load.

After a change of the tables write the pages anew: ``.venv/bin/python -m tests.unit.test_reference``.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.scenario.load import read_scenario
from harness.scenario.reference import MARK, inside, references, sample
from harness.scenario.registry import FIGURES
from harness.scenario.schema import SCENARIO
from lab.topology.fields import TOPOLOGY_RECORD
from lab.topology.load import load_topology
from lab.yaml.fields import Field, Record
from lab.yaml.strict import Map, Problems, parse

DOCS = Path(__file__).parents[2] / "docs"
PAGES = tuple(references())


def written(page: str) -> tuple[str, str]:
    """The part of a page above the mark, and the generated part."""
    above, _, generated = (DOCS / page).read_text().partition(MARK)
    return above, generated


def every_field(record: Record, seen: set[int]) -> Iterator[Field]:
    if id(record) in seen:
        return
    seen.add(id(record))
    for field in (*record.fields, *record.patterns):
        yield field
        if found := inside(field.kind):
            yield from every_field(found[0], seen)


FIELDS = [*every_field(SCENARIO, set()), *every_field(TOPOLOGY_RECORD, set())]


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_are_current(page: str) -> None:
    assert written(page)[1] == references()[page]


def test_every_key_and_metric_is_on_a_page() -> None:
    pages = "".join(references().values())
    assert len(FIELDS) > 200
    assert [field.name for field in FIELDS if f"`{field.label or field.name}`" not in pages] == []
    assert [name for name, figure in FIGURES.items() if figure.held_by and f"`{name}`" not in pages] == []


def test_a_key_that_an_arm_overrides_is_described_where_its_row_says() -> None:
    pages = "".join(references().values())
    rows = re.findall(r"^\| (.*?) \| \[as there\]", pages, re.MULTILINE)
    keys = {
        re.sub(r"^(?:(?:disk|link|stack)\.NAME\.)?(?:(?:queue|md|hba|vm)\.)?", "", key)
        for row in rows
        for key in row.strip("`").split("`, `")
    }
    assert len(keys) > 40
    assert [key for key in sorted(keys) if f"| `{key}` |" not in pages] == []


def test_links_lead_to_a_heading() -> None:
    for page, text in references().items():
        headings = {
            re.sub(r"[^a-z0-9_-]", "", line.strip("# ").lower()) for line in text.splitlines() if line[:1] == "#"
        }
        assert set(re.findall(r"\]\(#([^)]*)\)", text)) <= headings, page


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.label or field.name)
def test_every_key_has_a_meaning_and_an_example_that_reads(field: Field) -> None:
    assert field.says
    text = sample(field)
    if not text:
        assert inside(field.kind)
        return
    problems = Problems()
    node = parse(f"key: {text}\n".encode(), "example", problems)
    assert isinstance(node, Map)
    assert field.kind.read(problems, field.name, node.entries["key"].value) is not None
    assert problems.all == ()


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.label or field.name)
def test_every_default_reads_as_itself(field: Field) -> None:
    if not field.default:
        return
    problems = Problems()
    node = parse(f"key: {field.default_text}\n".encode(), "default", problems)
    assert isinstance(node, Map)
    assert field.kind.read(problems, field.name, node.entries["key"].value) == field.default


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_on_a_page_load(page: str, tmp_path: Path) -> None:
    examples = re.findall(r"^```yaml\n(.*?)^```", written(page)[0], re.MULTILINE | re.DOTALL)
    assert examples
    for text in examples:
        path = tmp_path / f"{page}.yaml"
        path.write_text(text)
        if text.startswith("scenario:"):
            assert read_scenario(str(path), search=tmp_path / "none").claims
        else:
            assert load_topology(str(path), near=tmp_path).disks


if __name__ == "__main__":
    for name, generated in references().items():
        (DOCS / name).write_text(f"{written(name)[0]}{MARK}{generated}")
