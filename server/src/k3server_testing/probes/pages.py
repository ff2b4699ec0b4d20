"""`python -m k3server_testing.probes.pages --out FILE`: every page in a real browser, by axe-core.

WCAG 2.2 at level AA, light and dark, wide and narrow, under the policy that the registry sends. The
exit status is 1 when something is found.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from k3server_testing.probes.shown_registry import make_token_for, shown_pages
from k3server_testing.services.child import program

__all__ = ["PagesResult", "browser", "main", "run_pages"]

_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
_LOOK: Final = "browser_look.py"
_LIMIT_S: Final = 3600


@dataclass(frozen=True)
class PagesResult:
    """What the browser and axe-core said."""

    browser: str
    """The browser's name and version."""
    looks: int
    """Pages times widths times colour schemes."""
    rules_passed: int
    """Rules of axe-core that passed, over all looks."""
    violations: tuple[str, ...]
    """Rules that are broken, each with page, scheme, width and place."""
    undecided: tuple[str, ...]
    """Rules that axe-core leaves to a person, each once, with an example."""
    complaints: tuple[str, ...]
    """What the browser refused or could not load."""
    too_wide: tuple[str, ...]
    """Pages that are wider than their window."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not (self.violations or self.complaints or self.too_wide)


def browser() -> str:
    """The machine's browser.

    Raises:
        FileNotFoundError: There is none.
    """
    for name in _BROWSERS:
        if (found := shutil.which(name)) is not None:
            return found
    raise FileNotFoundError(
        f"Expected one of {', '.join(_BROWSERS)} on this machine, found none. "
        "On Debian: apt-get install chromium."
    )


def run_pages(folder: Path, *, pictures: Path | None = None) -> PagesResult:
    """Look at every page.

    Args:
        folder: Where the registry's data goes; it must not exist.
        pictures: Folder that a picture of each look goes to; None: none is kept.
    """
    chosen = browser()
    version = subprocess.run(
        [chosen, "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    with shown_pages(folder, make_token_for(folder)) as pages:
        asked = {"browser": chosen, "pages": pages, "pictures": str(pictures or "")}
        looked = subprocess.run(
            [str(program("python", "probes")), str(Path(__file__).parent / _LOOK)],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    if looked.returncode != 0:
        raise RuntimeError(f"Expected the browser to look, found: {looked.stderr[-2000:]}")
    return _result(version, [json.loads(line) for line in looked.stdout.splitlines()])


def _result(version: str, looks: list[dict[str, Any]]) -> PagesResult:
    undecided: dict[str, str] = {}
    for look in looks:
        for each in look["undecided"]:
            undecided.setdefault(each["rule"], f"{each['rule']} ({each['help']}): {_named(look)}")
    return PagesResult(
        browser=version,
        looks=len(looks),
        rules_passed=sum(look["passes"] for look in looks),
        violations=tuple(
            f"{_named(look)}: {each['rule']} ({each['help']}) at {', '.join(each['where'])}"
            for look in looks
            for each in look["violations"]
        ),
        undecided=tuple(undecided.values()),
        complaints=tuple(
            f"{_named(look)}: {each}" for look in looks for each in look["complaints"]
        ),
        too_wide=tuple(
            f"{_named(look)}: {look['too_wide_px']} px" for look in looks if look["too_wide_px"]
        ),
    )


def _named(look: Mapping[str, Any]) -> str:
    return f"{look['page']} {look['scheme']} {look['width']}"


def main(arguments: list[str] | None = None) -> int:
    """Look, and write what was found.

    Returns:
        Exit status: 1 when something was found.
    """
    parser = argparse.ArgumentParser(
        prog="python -m k3server_testing.probes.pages", description=__doc__
    )
    parser.add_argument("--out", type=Path, required=True, help="file of the result")
    parser.add_argument("--pictures", type=Path, help="folder that pictures go to")
    parser.add_argument("--commit", default="unknown", help="what was looked at")
    chosen = parser.parse_args(arguments)
    if chosen.pictures is not None:
        chosen.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="k3-pages-") as folder:
        found = run_pages(Path(folder) / "data", pictures=chosen.pictures)
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kept = {**vars(found), "commit": chosen.commit, "measured_at_utc": at}
    chosen.out.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    for line in (*found.violations, *found.complaints, *found.too_wide):
        sys.stderr.write(f"{line}\n")
    sys.stderr.write(f"{found.looks} looks, {found.rules_passed} rules passed\n")
    return 0 if found.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
