"""Where added code chooses the optimized path: configuration keys, variables, imports. Pure."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from k3bundle.isolation_record import PathClass, SelectionPoint
from k3runner.audit.policy import IsolationPolicy
from k3runner.audit.python_module import ChangedModule, dotted

__all__ = ["selection_points", "text_selection_points"]

_NAME: Final = re.compile(r"^[A-Z][A-Z0-9_]{2,79}$")
_OUTSIDE: Final = frozenset({"shared", "unnamed"})
_Kind = Literal["config_key", "environment", "import"]


@dataclass(frozen=True)
class _Found:
    node: ast.AST
    kind: _Kind
    name: str


def selection_points(module: ChangedModule, policy: IsolationPolicy) -> tuple[SelectionPoint, ...]:
    """Selection points in the added lines of one Python file, in order of lines."""
    deciding = _deciding_nodes(module.nodes)
    points: dict[tuple[int, str, str], SelectionPoint] = {}
    for node in module.nodes:
        if not module.is_new(node):
            continue
        for found in (
            *_keys(node, policy),
            *_variables(node, policy),
            *_imports(node, module, policy),
        ):
            place = module.place(found.node)
            key = (place["line"], found.kind, found.name)
            branches = id(found.node) in deciding
            if key not in points or branches:
                points[key] = SelectionPoint(
                    **place, kind=found.kind, name=found.name[:2000], branches=branches
                )
    return tuple(points[key] for key in sorted(points))


def text_selection_points(
    path: str, path_class: PathClass, lines: list[tuple[int, str]], policy: IsolationPolicy
) -> Iterator[SelectionPoint]:
    """Selection points in added lines of a file that is no Python, by whole words.

    Args:
        path: The file.
        path_class: Its class.
        lines: Number and text of each added line.
        policy: What to look for.
    """
    keys = set(policy.config_keys)
    for number, text in lines:
        words = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text[:10_000]))
        named: list[tuple[_Kind, str]] = [("config_key", word) for word in sorted(words & keys)]
        named += [("environment", word) for word in sorted(words) if _is_variable(word, policy)]
        for kind, name in named:
            yield SelectionPoint(
                path=path,
                line=number,
                symbol="<file>",
                path_class=path_class,
                excerpt=text.strip()[:200],
                kind=kind,
                name=name[:2000],
                branches=False,
            )


def _deciding_nodes(nodes: tuple[ast.AST, ...]) -> frozenset[int]:
    """Identities of all nodes inside a condition."""
    tests: list[ast.expr] = []
    for node in nodes:
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            tests.append(node.test)
        elif isinstance(node, ast.Match):
            tests.append(node.subject)
        elif isinstance(node, ast.comprehension):
            tests.extend(node.ifs)
        elif isinstance(node, ast.Compare | ast.BoolOp):
            tests.append(node)
    return frozenset(id(inner) for test in tests for inner in ast.walk(test))


def _keys(node: ast.AST, policy: IsolationPolicy) -> Iterator[_Found]:
    name: str | None = None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        name = node.value
    elif isinstance(node, ast.Attribute):
        name = node.attr
    elif isinstance(node, ast.arg | ast.keyword):
        name = node.arg
    elif isinstance(node, ast.Name):
        name = node.id
    if name is not None and name in policy.config_keys:
        yield _Found(node, "config_key", name)


def _variables(node: ast.AST, policy: IsolationPolicy) -> Iterator[_Found]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if _is_variable(node.value, policy):
            yield _Found(node, "environment", node.value)
    elif isinstance(node, ast.Attribute):
        root = dotted(node.value)
        module = (root or "").rpartition(".")[2]
        if module and any(fnmatchcase(module, glob) for glob in policy.environment_modules):
            yield _Found(node, "environment", node.attr)
    elif isinstance(node, ast.Call):
        name = dotted(node.func) or ""
        reads = name in {"os.getenv", "os.environ.get", "getenv", "environ.get"}
        first = node.args[0] if node.args else None
        if reads and isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield _Found(first, "environment", first.value)
    elif isinstance(node, ast.Subscript) and dotted(node.value) in {"os.environ", "environ"}:
        index = node.slice
        reads = isinstance(node.ctx, ast.Load)
        if reads and isinstance(index, ast.Constant) and isinstance(index.value, str):
            yield _Found(index, "environment", index.value)


def _is_variable(name: str, policy: IsolationPolicy) -> bool:
    return bool(_NAME.match(name)) and any(fnmatchcase(name, g) for g in policy.environment_names)


def _imports(node: ast.AST, module: ChangedModule, policy: IsolationPolicy) -> Iterator[_Found]:
    """Imports of one model's code by code that other models run."""
    if module.path_class not in _OUTSIDE:
        return
    for name in imported_modules(node, module.path):
        found = policy.classify_module(name)
        if found is not None and found.path_class == "model_only":
            yield _Found(node, "import", name)
            return


def imported_modules(node: ast.AST, path: str) -> tuple[str, ...]:
    """Dotted names that an import may name as modules, the most specific first.

    Args:
        node: Any node.
        path: File that holds it, relative to the repository: relative imports start there.
    """
    if isinstance(node, ast.Import):
        return tuple(one.name for one in node.names)
    if not isinstance(node, ast.ImportFrom):
        return ()
    origin = node.module or ""
    if node.level:
        package = path.removesuffix(".py").split("/")[: -node.level]
        origin = ".".join([*package, *([node.module] if node.module else [])])
    return (*(f"{origin}.{one.name}" for one in node.names if one.name != "*"), origin)
