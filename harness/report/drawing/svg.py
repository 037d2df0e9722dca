# SPDX-License-Identifier: GPL-2.0-only
"""Elements of SVG as text, with escaped words and pixels of one digit; colours for light and dark screens."""

import re
from collections.abc import Iterable, Mapping

from markupsafe import Markup, escape

_DAY = {"PAPER": "#fff", "INK": "#1b1e22", "SOFT": "#565e67", "GRID": "#d8dbdf", "BAND": "#d9ebdd"}
_NIGHT = {"PAPER": "#191c20", "INK": "#e7e9eb", "SOFT": "#a3abb4", "GRID": "#31363c", "BAND": "#1d3a26"}


def px(value: float) -> str:
    """A tenth of a pixel is enough."""
    return f"{value:.1f}".removesuffix(".0")


def tag(name: str, kind: str, attributes: Mapping[str, float | str], title: str = "") -> str:
    """An element with a class and a tooltip."""
    shown = "".join(f' {key}="{value if isinstance(value, str) else px(value)}"' for key, value in attributes.items())
    return f'<{name} class="{kind}"{shown}>{f"<title>{escape(title)}</title>" if title else ""}</{name}>'


def path(kind: str, *data: str | float, title: str = "") -> str:
    """``data`` are commands and pixels: ``"M", 0.0, 10.0, "H", 20.0``."""
    return tag("path", kind, {"d": " ".join(part if isinstance(part, str) else px(part) for part in data)}, title)


def cross(kind: str, x: float, y: float, size: float, title: str = "") -> str:
    return path(
        kind, "M", x - size, y - size, f"l{2 * size} {2 * size}m0 {-2 * size}l{-2 * size} {2 * size}", title=title
    )


def dot(kind: str, x: float, y: float, radius: float, title: str = "") -> str:
    return tag("circle", kind, {"cx": x, "cy": y, "r": radius}, title)


def rect(kind: str, x: float, y: float, width: float, height: float, *, radius: float = 0.0) -> str:
    return tag("rect", kind, {"x": x, "y": y, "width": width, "height": height, "rx": radius})


def text(kind: str, x: float, y: float, words: str) -> str:
    return f'<text class="{kind}" x="{px(x)}" y="{px(y)}">{escape(words)}</text>'


def picture(
    kind: str,
    title: str,
    size: tuple[float, float],
    body: Iterable[str],
    *,
    top: float = 0.0,
    style: str = "",
    least: float = 0.0,
) -> Markup:
    """The whole SVG: ``size`` pixels from (0, ``top``) on.

    With a ``style`` it is a file of its own, on paper. It shrinks with its page to ``least`` pixels in width.
    """
    width, height = map(px, size)
    own = ' xmlns="http://www.w3.org/2000/svg"' if style else ""
    own += f' width="{width}" height="{height}"' if style or least else ""
    own += f' style="min-width:{px(least)}px"' if least else ""
    paper = f'<style>{style}</style><rect class="paper" width="100%" height="100%"/>' if style else ""
    return Markup(  # noqa: S704 - every word is escaped
        f'<svg class="{kind}" viewBox="0 {px(top)} {width} {height}"{own} role="img">'
        f"<title>{escape(title)}</title>{paper}{''.join(body)}</svg>" + ("\n" if style else "")
    )


def theme(within: str, rules: str, day: dict[str, str], night: dict[str, str]) -> str:
    """CSS below the class ``within`` from one rule a line, in which words in capitals name colours.

    The colours are not variables: not every program that draws SVG knows them.
    """

    def colour(lines: Iterable[str], colours: Mapping[str, str]) -> str:
        return "".join(re.sub("[A-Z]{3,}", lambda role: colours[role[0]], f".{within} {line}") for line in lines)

    lines = rules.splitlines()
    dark = colour((line for line in lines if re.search("[A-Z]{3,}", line)), _NIGHT | night)
    return f"{colour(lines, _DAY | day)}@media (prefers-color-scheme:dark){{{dark}}}"
