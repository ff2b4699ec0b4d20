"""How added code gives a step back to the standard path, and whether anybody is told. Pure."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Literal

from k3bundle.isolation_record import StandardReturn
from k3runner.audit.policy import IsolationPolicy
from k3runner.audit.python_module import ChangedModule, dotted

__all__ = ["standard_returns"]

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Kind = Literal["declines", "calls_parent", "swallows_error", "refuses"]


def standard_returns(module: ChangedModule, policy: IsolationPolicy) -> tuple[StandardReturn, ...]:
    """Ways back to the standard path in the added lines of one Python file, in order of lines."""
    finder = _Finder(module, policy)
    finder.walk(module.tree.body, function=None, condition="", siblings=module.tree.body)
    return tuple(sorted(finder.found, key=lambda one: (one.line, one.kind)))


class _Finder:
    """Walks statements with the function and the innermost condition around them."""

    def __init__(self, module: ChangedModule, policy: IsolationPolicy) -> None:
        self._module = module
        self._policy = policy
        self.found: list[StandardReturn] = []

    def walk(
        self,
        body: list[ast.stmt],
        *,
        function: str | None,
        condition: str,
        siblings: list[ast.stmt],
    ) -> None:
        for statement in body:
            if isinstance(statement, _Function):
                self.walk(
                    statement.body, function=statement.name, condition="", siblings=statement.body
                )
                continue
            if isinstance(statement, ast.ClassDef):
                self.walk(statement.body, function=None, condition="", siblings=statement.body)
                continue
            if function is not None:
                self._statement(statement, function, condition, siblings)
            for inner, inner_condition in _branches(statement, condition):
                self.walk(inner, function=function, condition=inner_condition, siblings=inner)

    def _statement(
        self, statement: ast.stmt, function: str, condition: str, siblings: list[ast.stmt]
    ) -> None:
        decides = any(fnmatchcase(function, glob) for glob in self._policy.deciders)
        if isinstance(statement, ast.Return) and decides and _is_empty(statement.value):
            self._note(statement, "declines", condition, siblings)
        elif isinstance(statement, ast.Raise) and decides:
            self._note(statement, "refuses", condition, siblings)
        elif function != "__init__" and _calls_parent(statement, function):
            self._note(statement, "calls_parent", condition, siblings)
        if isinstance(statement, ast.Try):
            for handler in statement.handlers:
                if not any(isinstance(node, ast.Raise) for node in ast.walk(handler)):
                    caught = "any error" if handler.type is None else ast.unparse(handler.type)
                    self._note(handler, "swallows_error", f"except {caught}", handler.body)

    def _note(self, node: ast.AST, kind: _Kind, condition: str, siblings: list[ast.stmt]) -> None:
        if self._module.is_new(node):
            self.found.append(
                StandardReturn(
                    **self._module.place(node),
                    kind=kind,
                    condition=condition[:200],
                    told=kind == "refuses" or self._tells(siblings),
                )
            )

    def _tells(self, siblings: list[ast.stmt]) -> bool:
        """Whether a statement of the same branch logs, counts or raises."""
        for statement in siblings:
            if isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Try):
                continue
            for node in ast.walk(statement):
                if isinstance(node, ast.Raise):
                    return True
                if isinstance(node, ast.Call):
                    name = dotted(node.func)
                    if name is not None and any(
                        fnmatchcase(name, glob) for glob in self._policy.telling_calls
                    ):
                        return True
        return False


def _branches(statement: ast.stmt, condition: str) -> Iterator[tuple[list[ast.stmt], str]]:
    """Bodies inside a statement, each with the innermost condition that leads to it."""
    if isinstance(statement, ast.If):
        test = ast.unparse(statement.test)
        yield statement.body, test
        if statement.orelse:
            yield statement.orelse, f"not ({test})"
    elif isinstance(statement, ast.Try):
        yield statement.body, condition
        for handler in statement.handlers:
            caught = "any error" if handler.type is None else ast.unparse(handler.type)
            yield handler.body, f"except {caught}"
        yield statement.orelse, condition
        yield statement.finalbody, condition
    elif isinstance(statement, ast.Match):
        for case in statement.cases:
            subject = ast.unparse(statement.subject)
            yield case.body, f"{subject} is {ast.unparse(case.pattern)}"
    elif isinstance(statement, ast.While):
        yield statement.body, ast.unparse(statement.test)
        yield statement.orelse, condition
    elif isinstance(statement, ast.For | ast.AsyncFor):
        yield statement.body, condition
        yield statement.orelse, condition
    elif isinstance(statement, ast.With | ast.AsyncWith):
        yield statement.body, condition


def _is_empty(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value in (None, False))


def _calls_parent(statement: ast.stmt, function: str) -> bool:
    """Whether a statement calls the parent's method of the same name."""
    if not isinstance(statement, ast.Return | ast.Expr | ast.Assign) or statement.value is None:
        return False
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == function
        and isinstance(node.func.value, ast.Call)
        and dotted(node.func.value.func) == "super"
        for node in ast.walk(statement.value)
    )
