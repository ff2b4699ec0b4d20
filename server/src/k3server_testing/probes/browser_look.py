"""Looks at pages in a real browser and lets axe-core judge them; runs in the environment `probes`.

Reads one JSON object from stdin, `{"browser": PATH, "pages": {NAME: URL}, "pictures": FOLDER}` (no
pictures where the folder is empty), and writes one JSON line per page, width and colour scheme.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

__all__ = ["main"]

_LOOKS: Final = (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390))
_HEIGHT: Final = 900
_RULES: Final = {
    "runOnly": {
        "type": "tag",
        "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    },
    # Of rules that pass only the number counts; listing their places takes most of the time.
    "resultTypes": ["violations", "incomplete"],
}
_MOST_NODES: Final = 5


def main() -> None:
    """Look at everything that is asked for."""
    asked = json.load(sys.stdin)
    with sync_playwright() as playwright:
        # As root there is no sandbox; the pages are our own.
        browser = playwright.chromium.launch(
            executable_path=asked["browser"], args=["--no-sandbox", "--disable-gpu"]
        )
        for found in _looks(browser, asked["pages"], asked["pictures"]):
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()
        browser.close()


def _looks(browser: Browser, pages: dict[str, str], pictures: str) -> Iterator[dict[str, Any]]:
    for scheme, width in _LOOKS:
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": _HEIGHT}
        )
        page = context.new_page()
        complaints = _listen(page)
        for name, url in pages.items():
            complaints.clear()
            found = _look(page, url)
            found |= {"page": name, "scheme": scheme, "width": width}
            expected = f"status of {found['status']}"
            found["complaints"] = [each for each in complaints if expected not in each]
            if pictures:
                path = Path(pictures) / f"{name}-{scheme}-{width}.png"
                page.screenshot(path=path, full_page=True)
            yield found
        context.close()


def _listen(page: Page) -> list[str]:
    """A list that gets what the browser refuses or cannot load."""
    complaints: list[str] = []
    # What the policy of the page refuses comes as an error of the console.
    page.on("console", lambda said: complaints.append(f"{said.type}: {said.text}"))
    page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
    page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}"))
    return complaints


def _look(page: Page, url: str) -> dict[str, Any]:
    answer = page.goto(url, wait_until="load")
    # Everything that opens is open, so that it is judged, too.
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    judged = Axe().run(page, options=_RULES).response
    return {
        "status": 0 if answer is None else answer.status,
        "title": page.title(),
        "passes": len(judged["passes"]),
        "violations": [_violation(each) for each in judged["violations"]],
        "undecided": [_violation(each) for each in judged["incomplete"]],
        # A page that is wider than its window must be dragged to be read.
        "too_wide_px": page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        ),
        "scripts": page.evaluate("document.scripts.length"),
    }


def _violation(found: dict[str, Any]) -> dict[str, Any]:
    nodes = [str(node["target"]) for node in found["nodes"][:_MOST_NODES]]
    return {"rule": found["id"], "help": found["help"], "where": nodes}


if __name__ == "__main__":
    main()
