"""What state added code writes beyond its own objects and locals. Pure.

Plain `self.x = ...` is an object's own state and is left out; so are writes of device code, whose
only way to give a result is to write its arguments.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, Literal

from k3bundle.isolation_record import StateWrite
from k3runner.audit.policy import IsolationPolicy
from k3runner.audit.python_module import ChangedModule, dotted, statement_bodies
from k3runner.audit.selection import imported_modules

__all__ = ["StateFindings", "state_writes"]

_Kind = Literal[
    "monkey_patch",
    "module_global",
    "environment",
    "registration",
    "foreign_attribute",
    "in_place",
    "buffer",
]
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_MUTATORS: Final = frozenset(
    ["append", "extend", "insert", "update", "setdefault", "add", "pop", "clear", "remove"]
)
_ENVIRON: Final = frozenset({"os.environ", "environ"})
_OWN_STEPS: Final = 2
_OWN_BUFFERS: Final = frozenset({"register_buffer", "register_parameter"})


@dataclass(frozen=True)
class StateFindings:
    """State that one file writes."""

    writes: tuple[StateWrite, ...]
    """In order of lines."""
    device_functions: int
    """Touched functions of device code, which are not looked into."""


@dataclass(frozen=True)
class _Scope:
    """What names mean inside one function."""

    own: str | None
    """Name of the object itself, usually `self`; None in a plain function."""
    parameters: frozenset[str]
    global_names: frozenset[str]
    inside_function: bool
    class_method: bool = False


@dataclass
class _Names:
    """What names mean in the module."""

    outside: dict[str, str] = field(default_factory=dict)
    """Imported name -> module, for what is not the model's own code."""
    inside: set[str] = field(default_factory=set)
    """Imported names of the model's own code."""
    module_level: set[str] = field(default_factory=set)


def state_writes(module: ChangedModule, policy: IsolationPolicy) -> StateFindings:
    """State that the added lines of one Python file write."""
    visitor = _Visitor(module, policy, _names(module, policy))
    visitor.walk(module.tree.body, _Scope(None, frozenset(), frozenset(), inside_function=False))
    writes = sorted(visitor.writes, key=lambda write: (write.line, write.kind, write.target))
    return StateFindings(writes=tuple(writes), device_functions=visitor.device_functions)


def _names(module: ChangedModule, policy: IsolationPolicy) -> _Names:
    names = _Names()
    for node in module.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = imported_modules(node, module.path)
            classes = [policy.classify_module(one) for one in modules]
            own = any(found is not None and found.path_class == "model_only" for found in classes)
            for one in node.names:
                bound = one.asname or one.name.partition(".")[0]
                if own:
                    names.inside.add(bound)
                else:
                    names.outside[bound] = modules[-1] or one.name
    for node in module.tree.body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        names.module_level.update(one.id for one in targets if isinstance(one, ast.Name))
        if isinstance(node, ast.ClassDef):
            names.module_level.add(node.name)
    return names


class _Visitor:
    """Walks statements with the scope they are in."""

    def __init__(self, module: ChangedModule, policy: IsolationPolicy, names: _Names) -> None:
        self._module = module
        self._policy = policy
        self._names = names
        self.writes: list[StateWrite] = []
        self.device_functions = 0

    def walk(self, body: list[ast.stmt], scope: _Scope, *, in_class: bool = False) -> None:
        for statement in body:
            if isinstance(statement, _Function):
                self._function(statement, scope, in_class=in_class)
            elif isinstance(statement, ast.ClassDef):
                self._decorators(statement)
                self.walk(statement.body, scope, in_class=True)
            else:
                self._statement(statement, scope, in_class=in_class)

    def _function(self, function: _Function, scope: _Scope, *, in_class: bool) -> None:
        if self._is_device(function):
            last = function.end_lineno or function.lineno
            lines = range(function.lineno, last + 1)
            self.device_functions += any(line in self._module.added for line in lines)
            return
        self._decorators(function)
        arguments = [
            *function.args.posonlyargs,
            *function.args.args,
            *function.args.kwonlyargs,
        ]
        names = [one.arg for one in arguments]
        decorators = {dotted(one) for one in function.decorator_list}
        own = names[0] if in_class and names and "staticmethod" not in decorators else None
        if own is None and not in_class:
            # A function inside a method still sees the object it belongs to.
            own = scope.own if scope.own not in names else None
        inner = _Scope(
            own=own,
            parameters=frozenset(names) - {own or ""},
            global_names=frozenset(
                name
                for node in ast.walk(function)
                if isinstance(node, ast.Global)
                for name in node.names
            ),
            inside_function=True,
            class_method="classmethod" in decorators,
        )
        self.walk(function.body, inner)

    def _is_device(self, function: _Function) -> bool:
        return any(
            fnmatchcase(name, glob)
            for one in function.decorator_list
            if (name := dotted(one.func if isinstance(one, ast.Call) else one)) is not None
            for glob in self._policy.device_decorators
        )

    def _decorators(self, node: _Function | ast.ClassDef) -> None:
        for one in node.decorator_list:
            name = dotted(one.func if isinstance(one, ast.Call) else one)
            if name is not None and self._registers(name):
                self._note(one, "registration", name)

    def _statement(self, statement: ast.stmt, scope: _Scope, *, in_class: bool) -> None:
        for node in _own_nodes(statement):
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, ast.AugAssign | ast.For | ast.AsyncFor):
                targets = [node.target]
            elif isinstance(node, ast.AnnAssign):
                targets = [node.target] if node.value is not None else []
            elif isinstance(node, ast.Delete):
                targets = node.targets
            else:
                targets = []
            for target in targets:
                self._target(target, scope)
            if isinstance(node, ast.Call):
                self._call(node, scope)
        for body in statement_bodies(statement):
            self.walk(body, scope, in_class=in_class)

    def _target(self, target: ast.expr, scope: _Scope) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for one in target.elts:
                self._target(one, scope)
        elif isinstance(target, ast.Starred):
            self._target(target.value, scope)
        elif isinstance(target, ast.Name):
            if target.id in scope.global_names:
                self._note(target, "module_global", target.id)
        elif isinstance(target, ast.Attribute | ast.Subscript):
            kind = self._place_kind(target, scope)
            if kind is not None:
                self._note(target, kind, ast.unparse(target))

    def _place_kind(self, target: ast.expr, scope: _Scope) -> _Kind | None:
        """Whose state an attribute or an element is; None for own state and locals."""
        steps, root = _root(target)
        by_index = isinstance(target, ast.Subscript)
        if isinstance(target, ast.Subscript) and dotted(target.value) in _ENVIRON:
            return "environment"
        if root is not None and root == scope.own:
            return _own_kind(steps, scope, by_index=by_index)
        if root in scope.parameters:
            return "in_place" if by_index else "foreign_attribute"
        if root in self._names.outside:
            return "monkey_patch"
        module_level = root in self._names.module_level and scope.inside_function
        return "module_global" if module_level or root in self._names.inside else None

    def _call(self, call: ast.Call, scope: _Scope) -> None:
        name = dotted(call.func)
        last = call.func.attr if isinstance(call.func, ast.Attribute) else name or ""
        if name in {"setattr", "delattr", "object.__setattr__"} and call.args:
            self._setattr(call, scope)
        elif name is not None and _writes_environment(name):
            self._note(call, "environment", ast.unparse(call))
        elif last in _OWN_BUFFERS:
            self._note(call, "buffer", ast.unparse(call))
        elif name is not None and self._registers(name):
            self._note(call, "registration", name)
        elif isinstance(call.func, ast.Attribute):
            self._method(call, call.func, scope)
        for keyword in call.keywords:
            if keyword.arg == "out" and isinstance(keyword.value, ast.Attribute):
                kind = self._place_kind(keyword.value, scope)
                if kind is not None:
                    self._note(keyword.value, "in_place", ast.unparse(keyword.value))

    def _method(self, call: ast.Call, function: ast.Attribute, scope: _Scope) -> None:
        """Methods that change what they are called on."""
        in_place = function.attr.endswith("_") and not function.attr.startswith("_")
        steps, root = _root(function)
        if root is None:
            return
        # `self.x.copy_()` fills the object's own buffer, `self.x.y.copy_()` another object's.
        belongs_to_others = root in scope.parameters or (root == scope.own and steps > _OWN_STEPS)
        if in_place and belongs_to_others:
            self._note(call, "in_place", ast.unparse(function))
        elif (
            function.attr in _MUTATORS
            and steps == 1
            and scope.inside_function
            and root in self._names.module_level
        ):
            self._note(call, "module_global", ast.unparse(function))

    def _setattr(self, call: ast.Call, scope: _Scope) -> None:
        owner = call.args[0]
        attribute = ast.Attribute(value=owner, attr="attribute", ctx=ast.Store())
        kind = self._place_kind(attribute, scope)
        if kind is not None:
            self._note(call, kind, ast.unparse(call))

    def _registers(self, name: str) -> bool:
        if name.rpartition(".")[2] in _OWN_BUFFERS:
            return False
        return any(fnmatchcase(name, glob) for glob in self._policy.registrations)

    def _note(self, node: ast.AST, kind: _Kind, target: str) -> None:
        if self._module.is_new(node):
            self.writes.append(
                StateWrite(**self._module.place(node), kind=kind, target=target[:2000])
            )


def _own_kind(steps: int, scope: _Scope, *, by_index: bool) -> _Kind | None:
    """Whose state is written below `self` or `cls`; None for the object's own."""
    if scope.class_method and steps == 1:
        return "module_global"
    if steps == 1 or (by_index and steps == _OWN_STEPS):
        return None
    return "foreign_attribute"


def _writes_environment(name: str) -> bool:
    owner, _, method = name.rpartition(".")
    return name == "os.putenv" or (owner in _ENVIRON and method in _MUTATORS)


def _root(node: ast.AST) -> tuple[int, str | None]:
    """Attributes and elements between an expression and its first name, and that name."""
    steps = 0
    while isinstance(node, ast.Attribute | ast.Subscript):
        steps += 1
        node = node.value
    return steps, node.id if isinstance(node, ast.Name) else None


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """A statement and its expressions, without the statements inside it."""
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(
            child
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case)
        )
