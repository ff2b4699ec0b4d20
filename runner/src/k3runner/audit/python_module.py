"""One Python file after a change: its tree, which symbol each line is in, which lines are new.

Pure. The code is parsed and never compiled or run.
"""

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypedDict

from k3bundle.isolation_record import PathClass, TouchedSymbol

__all__ = [
    "MODULE_SYMBOL",
    "ChangedModule",
    "Place",
    "SymbolMap",
    "dotted",
    "parse_python",
    "statement_bodies",
    "symbol_map",
    "touched_symbols",
]

MODULE_SYMBOL: Final = "<module>"
_EXCERPT: Final = 200
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Place(TypedDict):
    """Where something is, in the fields that records share."""

    path: str
    line: int
    symbol: str
    path_class: PathClass
    excerpt: str


@dataclass(frozen=True)
class SymbolMap:
    """The innermost symbol of each line of one file."""

    owner: tuple[str, ...]
    """Symbol of line n at n - 1."""
    names: tuple[str, ...]
    """Every symbol, in order of its first line."""

    def at(self, line: int) -> str:
        """Symbol of a line; the module's for lines outside of all."""
        return self.owner[line - 1] if 0 < line <= len(self.owner) else MODULE_SYMBOL


@dataclass(frozen=True)
class ChangedModule:
    """A parsed file and its added lines."""

    path: str
    path_class: PathClass
    tree: ast.Module
    lines: tuple[str, ...]
    symbols: SymbolMap
    added: frozenset[int]

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the tree, outer ones first."""
        return tuple(ast.walk(self.tree))

    def is_new(self, node: ast.AST) -> bool:
        """Whether a node begins on an added line."""
        return getattr(node, "lineno", 0) in self.added

    def place(self, node: ast.AST) -> Place:
        """Where a node is."""
        line = max(1, getattr(node, "lineno", 1))
        text = self.lines[line - 1].strip() if line <= len(self.lines) else ""
        return Place(
            path=self.path,
            line=line,
            symbol=self.symbols.at(line),
            path_class=self.path_class,
            excerpt=text[:_EXCERPT],
        )


def parse_python(source: bytes) -> ast.Module | str:
    """Parses Python source.

    Returns:
        The tree, or why there is none, in a sentence.
    """
    try:
        with warnings.catch_warnings():
            # Doubtful escapes in somebody's strings are not this program's warnings.
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        return f"It does not parse as Python of this version: {error.msg}, line {error.lineno}."
    except (ValueError, RecursionError, MemoryError) as error:
        return f"It cannot be parsed: {type(error).__name__}."


def symbol_map(tree: ast.Module, line_count: int) -> SymbolMap:
    """Maps lines to the innermost function or class around them, decorators included."""
    owner = [MODULE_SYMBOL] * line_count
    names: list[str] = []
    stack: list[tuple[ast.stmt, str]] = [(one, "") for one in reversed(tree.body)]
    while stack:
        node, prefix = stack.pop()
        if isinstance(node, _Function | ast.ClassDef):
            name = f"{prefix}{node.name}"
            names.append(name)
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            last = node.end_lineno or node.lineno
            owner[first - 1 : last] = [name] * (last - first + 1)
            prefix = f"{name}."
        # Inner symbols are painted over outer ones, so outer ones come first.
        inner = [child for body in statement_bodies(node) for child in body]
        stack.extend((child, prefix) for child in reversed(inner))
    return SymbolMap(owner=tuple(owner), names=tuple(names))


def statement_bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Bodies of statements directly inside a statement."""
    for name in ("body", "orelse", "finalbody"):
        body = getattr(statement, name, None)
        if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
            yield body
    for handler in getattr(statement, "handlers", ()):
        yield handler.body
    for case in getattr(statement, "cases", ()):
        yield case.body


def touched_symbols(
    before: SymbolMap, after: SymbolMap, removed: Iterable[int], added: Iterable[int]
) -> tuple[TouchedSymbol, ...]:
    """Symbols in which lines changed.

    Args:
        before: Symbols of the file before the change; empty for a new file.
        after: Symbols of the file after it; empty for a removed one.
        removed: Lines that are gone, in the file before.
        added: Lines that are new, in the file after.
    """
    counts: dict[str, int] = {}
    for symbols, lines in ((after, added), (before, removed)):
        for line in lines:
            name = symbols.at(line)
            counts[name] = counts.get(name, 0) + 1
    known_before, known_after = set(before.names), set(after.names)
    if before.owner:
        known_before.add(MODULE_SYMBOL)
    if after.owner:
        known_after.add(MODULE_SYMBOL)
    order = {name: at for at, name in enumerate((MODULE_SYMBOL, *after.names, *before.names))}
    return tuple(
        TouchedSymbol(
            name=name[:2000],
            change=(
                "added"
                if name not in known_before
                else "removed"
                if name not in known_after
                else "changed"
            ),
            lines=counts[name],
        )
        for name in sorted(counts, key=lambda one: order.get(one, 0))
    )


def dotted(node: ast.AST) -> str | None:
    """The dotted name of an expression such as `torch.library.define`; None for any other."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join((node.id, *reversed(parts)))
