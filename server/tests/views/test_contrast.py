"""Text and ground colours of the style sheet reach a contrast of 4.5 to 1, light and dark."""

import re
from importlib import resources

import pytest

PAIRS = (
    *((ink, ground) for ink in ("ink", "soft", "link") for ground in ("ground", "surface")),
    ("ink", "sunken"),
    ("soft", "quiet-tint"),
    ("surface", "mark"),
    *((name, f"{name}-tint") for name in ("pass", "fail", "invalid", "incomplete")),
    ("inconclusive", "inconclusive-tint"),
    *(
        (name, ground)
        for name in ("pass", "fail", "invalid", "incomplete", "inconclusive")
        for ground in ("ground", "surface")
    ),
)


def palettes() -> dict[str, dict[str, str]]:
    css = (resources.files("k3server") / "static" / "style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2]
    light, dark = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in blocks)
    return {"light": light, "dark": dark}


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(scheme: str) -> None:
    palette = palettes()[scheme]
    low = {}
    for text, ground in PAIRS:
        one, two = luminance(palette[text]), luminance(palette[ground])
        contrast = (max(one, two) + 0.05) / (min(one, two) + 0.05)
        if contrast < 4.5:
            low[text, ground] = round(contrast, 2)
    assert low == {}
