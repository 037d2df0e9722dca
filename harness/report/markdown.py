# SPDX-License-Identifier: GPL-2.0-only
"""Generated pages in Markdown: their head, and tables."""

from collections.abc import Iterable, Iterator, Sequence


def head(title: str, made: str) -> Iterator[str]:
    """The first lines of a page; ``made`` names the command that wrote it."""
    yield from ("<!-- SPDX-License-Identifier: GPL-2.0-only -->", f"<!-- {made} -->", f"# {title}", "")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int = 0) -> Iterator[str]:
    """A line for the columns, the rule and each row. The last ``numbers`` columns are aligned to the right."""
    yield _line(columns)
    yield f"|{'---|' * (len(columns) - numbers)}{'---:|' * numbers}"
    yield from map(_line, rows)


def section(title: str, body: Iterable[str]) -> Iterator[str]:
    """A heading and its body, nothing if the body is empty."""
    if lines := list(body):
        yield from (f"## {title}", "", *lines, "")


def _line(cells: Sequence[str]) -> str:
    escaped = (cell.replace("|", r"\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"
