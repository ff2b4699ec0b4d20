"""The page of failure cases names tests that exist, and forgets no kind that has one."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.repository import ROOT

PAGE = (ROOT / "docs" / "failure-cases.md").read_text()
SHOWN, NOT_SHOWN = PAGE.split("## Not shown yet")
NAMED = sorted(set(re.findall(r"`([\w./-]+\.py)::(\w+)`", PAGE)))
ROWS = [
    [column.strip() for column in line.strip("|").split(" | ")]
    for line in SHOWN.splitlines()
    if line.startswith("| ") and not line.startswith("| kind")
]
NUMBERED = re.compile(r"test_(b\d+)_\w+")


@cache
def _tests(path: Path) -> frozenset[str]:
    """Names of the test functions of a file, read and not run."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse(path.read_text(), filename=str(path))
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, functions) and node.name.startswith("test_")
    )


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_every_named_test_exists(path: str, name: str) -> None:
    assert (ROOT / path).is_file(), f"{path} is not there"
    assert name in _tests(ROOT / path)


def test_every_kind_says_what_happens_and_names_a_test() -> None:
    assert len(ROWS) >= 40
    assert [row[0] for row in ROWS if len(row) != 3 or not row[1] or "::test_" not in row[2]] == []


def test_every_kind_with_a_numbered_test_is_on_the_page() -> None:
    numbers = {
        match[1]
        for part in ("bundle", "runner", "server")
        for path in (ROOT / part / "tests").rglob("test_*.py")
        for match in map(NUMBERED.fullmatch, _tests(path))
        if match
    }
    named = {match[1] for match in (NUMBERED.fullmatch(name) for _, name in NAMED) if match}
    assert numbers - named == set()
    assert len(named) >= 15


def test_what_is_not_shown_names_no_test() -> None:
    assert NOT_SHOWN.count("\n- ") >= 1
    assert "::" not in NOT_SHOWN
