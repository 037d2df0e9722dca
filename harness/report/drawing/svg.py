# SPDX-License-Identifier: GPL-2.0-only
"""Elements of SVG as text, with escaped words and pixels of one digit."""

from collections.abc import Iterable, Mapping

from markupsafe import Markup, escape


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


def rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return tag("rect", kind, {"x": x, "y": y, "width": width, "height": height})


def text(kind: str, x: float, y: float, words: str) -> str:
    return f'<text class="{kind}" x="{px(x)}" y="{px(y)}">{escape(words)}</text>'


def picture(kind: str, title: str, size: tuple[float, float], body: Iterable[str]) -> Markup:
    """The whole SVG of ``size`` pixels."""
    width, height = map(px, size)
    return Markup(  # noqa: S704 - every word is escaped
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{escape(title)}</title>{''.join(body)}</svg>"
    )
