"""The page of threats names tests that exist."""

import ast
import re
from functools import cache

import pytest

from tests.repository import ROOT

PAGE = (ROOT / "server" / "SECURITY.md").read_text()
ROWS = [
    [column.strip() for column in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| threat")
]
NAMED = re.findall(r"`([\w./-]+\.py)::(\w+)`", PAGE)


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(), filename=path)
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, functions))


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_every_named_test_exists(path: str, name: str) -> None:
    assert name in functions_of(path)


def test_every_threat_says_what_is_done_and_names_one_test() -> None:
    assert len(ROWS) >= 55
    assert len(NAMED) == len(ROWS)
    assert [row[0] for row in ROWS if len(row) != 3 or not row[1]] == []
    threats = [row[0] for row in ROWS]
    assert len(set(threats)) == len(threats)
