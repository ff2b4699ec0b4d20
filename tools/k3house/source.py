"""Where wheels come from: the WHEELS folder, and whatever pip is configured with.

The installer is uv, which does not read pip's configuration. A machine that is set up for pip must
work all the same, so its sources are handed on. Locks carry digests: a source can fail to offer a
file, it cannot offer another one.
"""

import ast
import os
import re
from dataclasses import dataclass
from pathlib import Path

from k3house.problem import EXIT_USAGE, HouseError

__all__ = ["Sources", "find_sources", "parse_pip_config"]

_LINE = re.compile(r"^(?P<section>[^=\s]+)\.(?P<key>[a-z-]+)=(?P<value>.*)$")
_KEYS = ("find-links", "index-url", "extra-index-url")


@dataclass(frozen=True)
class Sources:
    """Resolved sources of wheels."""

    wheels: Path | None
    """Folder given by WHEELS."""
    find_links: tuple[str, ...]
    index_url: str | None
    extra_index_urls: tuple[str, ...]

    def uv_arguments(self, *, offline: bool) -> list[str]:
        """Arguments for `uv pip install`.

        Args:
            offline: Use nothing but the WHEELS folder.
        """
        if offline and self.wheels is not None:
            return ["--no-index", "--offline", "--find-links", str(self.wheels)]
        arguments: list[str] = []
        for link in ([str(self.wheels)] if self.wheels else []) + list(self.find_links):
            arguments += ["--find-links", link]
        if self.index_url:
            arguments += ["--default-index", self.index_url]
        for url in self.extra_index_urls:
            arguments += ["--index", url]
        # Safe because every file is checked against the lock: which source wins does not matter.
        return [*arguments, "--index-strategy", "unsafe-best-match"]


def parse_pip_config(text: str) -> dict[str, tuple[str, ...]]:
    """Values of `pip config list` that name sources; a variable wins over a file.

    Args:
        text: Lines such as `global.find-links='/folder'` or `:env:.index-url='...'`.
    """
    found: dict[str, tuple[str, ...]] = {}
    rank: dict[str, int] = {}
    for line in text.splitlines():
        match = _LINE.match(line.strip())
        if match is None or match["key"] not in _KEYS:
            continue
        section_rank = {":env:": 2, "install": 1, "global": 0}.get(match["section"], -1)
        try:
            value = str(ast.literal_eval(match["value"]))
        except (ValueError, SyntaxError):
            continue
        if section_rank >= rank.get(match["key"], 0):
            rank[match["key"]] = section_rank
            found[match["key"]] = tuple(value.split())
    return found


def find_sources(pip_config: str, wheels: str | None) -> Sources:
    """Resolve the sources.

    Args:
        pip_config: Output of `pip config list`.
        wheels: Value of WHEELS, or None.

    Raises:
        HouseError: WHEELS is not a folder.
    """
    folder = Path(wheels).expanduser().resolve() if wheels else None
    if folder is not None and not folder.is_dir():
        raise HouseError(
            f"WHEELS={wheels} is not a folder.",
            "give a folder that holds wheels, or leave WHEELS out.",
            EXIT_USAGE,
        )
    configured = parse_pip_config(pip_config)
    index = configured.get("index-url", ())
    return Sources(
        wheels=folder,
        find_links=configured.get("find-links", ()),
        # uv's own variable, where it is set, wins over pip's configuration.
        index_url=index[0] if index and "UV_DEFAULT_INDEX" not in os.environ else None,
        extra_index_urls=configured.get("extra-index-url", ()),
    )
