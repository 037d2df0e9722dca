# SPDX-License-Identifier: GPL-2.0-only
"""From values to self-contained HTML: no script, nothing from the network, and all values escaped."""

from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from harness.judge.claims import XFAIL, XPASS
from harness.report.charts import px
from harness.scenario.model import Status
from lab.base.units import printable

Values = dict[str, Any]
"""What a template shows in one place."""
_KINDS = {
    **{str(status): str(status).lower() for status in Status},
    XFAIL: "miss",
    XPASS: "fail",
    "ok": "pass",
    "better": "pass",
    "worse": "fail",
    "different": "done",
}
_OTHER = "skip"


def render(template: str, **values: Any) -> str:
    """The whole page, without control characters. Raises jinja2.UndefinedError for a value that the template lacks."""
    return printable(_environment().get_template(template).render(style=_style(), **values))


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("harness.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(kind=kind, px=px)
    return environment


def kind(word: object) -> str:
    """The CSS class of a status; other words look like SKIP."""
    return _KINDS.get(str(word), _OTHER)


@cache
def _style() -> Markup:
    text = files("harness.report").joinpath("templates/style.css").read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704 - of this program alone
