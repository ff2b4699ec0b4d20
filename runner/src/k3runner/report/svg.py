"""Builds SVG as markup-safe text. Pure; every attribute and every text is escaped here.

Horizontal places are percentages and vertical ones pixels, so a chart fills any width while its
letters keep their size. Colours come from the page's classes, so charts follow light and dark.
"""

from collections.abc import Mapping

from markupsafe import Markup

from k3runner.visible import visible

__all__ = ["chart", "circle", "diamond", "line", "percent_of", "rect", "text"]


def percent_of(share: float, start: float = 0.0, end: float = 100.0) -> str:
    """Return the place at `share` of the way from `start` to `end`, as a percentage."""
    return f"{start + (end - start) * share:.3f}%"


def chart(label: str, height: int, parts: list[Markup]) -> Markup:
    """Return an SVG that fills its column, `height` pixels high, with `label` for readers."""
    shown = visible(label)
    return Markup('<svg role="img" aria-label="{}" width="100%" height="{}">{}</svg>').format(
        shown, height, Markup("").join(parts)
    )


def line(x1: str, y1: float, x2: str, y2: float, cls: str) -> Markup:
    """Return a straight line."""
    return _element("line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class": cls})


def rect(x: str, y: float, width: str, height: float, cls: str) -> Markup:
    """Return a rectangle with slightly rounded corners."""
    return _element(
        "rect", {"x": x, "y": y, "width": width, "height": height, "rx": 2.0, "class": cls}
    )


def circle(x: str, y: float, radius: float, cls: str) -> Markup:
    """Return a circle."""
    return _element("circle", {"cx": x, "cy": y, "r": radius, "class": cls})


def diamond(x: str, y: float, radius: float, cls: str) -> Markup:
    """Return a diamond. A nested SVG carries it: paths know no percentages."""
    path = f"M0 {-radius} L{radius} 0 L0 {radius} L{-radius} 0 Z"
    inner = _element("path", {"d": path, "class": cls})
    return Markup('<svg x="{}" y="{}" overflow="visible">{}</svg>').format(x, y, inner)


def text(x: str, y: float, content: str, cls: str, anchor: str = "start") -> Markup:
    """Return a line of text; acting characters in it are named, not obeyed."""
    place: dict[str, str | float] = {"x": x, "y": y, "class": cls, "text-anchor": anchor}
    return Markup("<text {}>{}</text>").format(_attributes(place), visible(content))


def _element(name: str, attributes: Mapping[str, str | float]) -> Markup:
    return Markup("<{} {}/>").format(name, _attributes(attributes))


def _attributes(attributes: Mapping[str, str | float]) -> Markup:
    pairs = (Markup('{}="{}"').format(name, _number(v)) for name, v in attributes.items())
    return Markup(" ").join(pairs)


def _number(value: str | float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
