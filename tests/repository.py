"""What the cross-package tests read: the files of the repository and their syntax trees."""

import ast
import io
import subprocess
import tokenize
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "Source", "code_lines", "committed_files", "pyproject", "sources"]

ROOT = Path(__file__).resolve().parents[1]
_TOKENS_WITHOUT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


@dataclass(frozen=True)
class Source:
    """One Python file."""

    path: Path
    """Relative to the repository."""
    text: str
    tree: ast.Module


@cache
def committed_files() -> tuple[Path, ...]:
    """Files that git tracks or would track, relative to the repository, sorted."""
    done = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    paths = (Path(name) for name in done.stdout.split("\0") if name)
    return tuple(sorted(path for path in paths if (ROOT / path).is_file()))


@cache
def sources() -> tuple[Source, ...]:
    """Every Python file."""
    found = []
    for path in committed_files():
        if path.suffix == ".py":
            text = (ROOT / path).read_text()
            found.append(Source(path, text, ast.parse(text, filename=str(path))))
    return tuple(found)


@cache
def pyproject() -> dict[str, Any]:
    """The settings of the whole repository."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def code_lines(source: Source) -> set[int]:
    """Numbers of the lines that hold code: no comment, no docstring, no blank line."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type not in _TOKENS_WITHOUT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(source.tree):
        # A string that stands alone is documentation: of a module, a class, a function, a field.
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines
