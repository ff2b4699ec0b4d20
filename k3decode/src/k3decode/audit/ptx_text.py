"""PTX text to kernels: names, parameters, labels, statements in pieces.

Blocks in braces have names of their own for registers and labels; they get names that are unique
in the kernel.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from k3decode.audit.errors import UnreadableInputError
from k3decode.audit.program import Parameter

__all__ = ["PtxKernel", "Statement", "split_ptx"]

_TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?[^{;]*\{")
_SHARED = re.compile(r"\.shared\b[^;=]*?([\w$%]+)\s*(?:\[[^;]*)?(?=;|=)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LABEL = re.compile(r"^\s*([\w$%]+)\s*:(?!:)")
_GUARD = re.compile(r"^@(!?)\s*([\w$%]+)\s+")
_DECLARED = re.compile(r"([\w$%]+)(?:<(\d+)>)?")
_NAME = re.compile(r"[%\w$]+")
_TYPE_BITS = re.compile(r"^\.[bsuf](\d+)$")


@dataclass(frozen=True)
class Statement:
    """One instruction."""

    line: int
    text: str
    guard: str | None
    """As "!%p1"."""
    opcode: str
    operands: tuple[str, ...]


@dataclass(frozen=True)
class PtxKernel:
    """One `.entry`."""

    name: str
    target: str
    parameters: tuple[Parameter, ...]
    parameter_names: tuple[str, ...]
    registers: frozenset[str]
    """Names that do not begin with a percent sign."""
    shared: frozenset[str]
    """Variables in shared memory."""
    statements: tuple[Statement, ...]
    labels: Mapping[str, int]
    branch_lists: Mapping[str, tuple[str, ...]]


def split_ptx(text: str) -> list[PtxKernel]:
    """All kernels of a PTX text.

    Raises:
        UnreadableInputError: it holds no kernel.
    """
    plain = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    target = _TARGET.search(plain)
    entries = list(_ENTRY.finditer(plain))
    if target is None or not entries:
        raise UnreadableInputError(
            "expected PTX with a .target and an .entry, found none: pass what the compiler kept "
            "as PTX"
        )
    shared = frozenset(_SHARED.findall(plain))
    kernels = []
    for entry in entries:
        body = _Body(plain, entry.end())
        parameters, names = _parameters(entry[2] or "")
        kernels.append(
            PtxKernel(
                entry[1],
                target[1],
                parameters,
                names,
                frozenset(body.registers),
                shared,
                tuple(body.statements),
                body.labels,
                body.branch_lists,
            )
        )
    return sorted(kernels, key=lambda kernel: kernel.name)


def _parameters(text: str) -> tuple[tuple[Parameter, ...], tuple[str, ...]]:
    parameters: list[Parameter] = []
    names: list[str] = []
    end = 0
    for part in text.split(","):
        words = part.split()
        if not words:
            continue
        name, _, extent = words[-1].partition("[")
        bits = next((m[1] for word in words if (m := _TYPE_BITS.match(word))), "64")
        element = int(bits) // 8
        size = element * int(extent.rstrip("]") or 1) if extent else element
        # The .align of a pointer says what it points to.
        aligned = ".align" in words and ".ptr" not in words
        align = int(words[words.index(".align") + 1]) if aligned else element
        offset = -(-end // align) * align
        parameters.append(Parameter(len(parameters), offset, size))
        names.append(name)
        end = offset + size
    return tuple(parameters), tuple(names)


@dataclass
class _Scope:
    """Names of one block in braces, as they are written -> as they are unique."""

    names: dict[str, str] = field(default_factory=dict)


class _Body:
    """Statements of a kernel, from after its opening brace."""

    def __init__(self, text: str, start: int) -> None:
        self.statements: list[Statement] = []
        self.labels: dict[str, int] = {}
        self.registers: set[str] = set()
        self.branch_lists: dict[str, tuple[str, ...]] = {}
        self._scopes = [_Scope()]
        self._count = 0
        self._text = text
        self._line = text.count("\n", 0, start) + 1
        self._read(start)

    def _read(self, start: int) -> None:
        pending = start
        depth = 0
        at = start
        while at < len(self._text):
            character = self._text[at]
            empty = not self._text[pending:at].strip()
            if character == "{" and empty and not depth:
                self._open(at)
                pending = at + 1
            elif character == "}" and not depth:
                self._scopes.pop()
                pending = at + 1
                if not self._scopes:
                    return
            elif character in "{[(":
                depth += 1
            elif character in "}])":
                depth -= 1
            elif character == ":" and not depth and self._label(pending, at):
                pending = at + 1
            elif character == ";" and not depth:
                self._statement(pending, at)
                pending = at + 1
            at += 1
        raise UnreadableInputError("expected a closing brace of the kernel, found the end of PTX")

    def _open(self, at: int) -> None:
        """A new block: its names are known before its statements are read."""
        self._count += 1
        scope = _Scope()
        depth = 0
        pieces: list[str] = []
        start = at + 1
        for index in range(at, len(self._text)):
            character = self._text[index]
            if character in "{}":
                if depth <= 1:
                    pieces.append(self._text[start:index])
                depth += 1 if character == "{" else -1
                start = index + 1
                if depth == 0:
                    break
        own = ";".join(pieces)
        declared = [
            n for words in re.findall(r"\.reg\s+\.\w+\s+([^;]*)", own) for n in _names(words)
        ]
        declared += re.findall(r"(?:^|[;\n])\s*([\w$%]+)\s*:(?!:)", own)
        for name in declared:
            scope.names[name] = f"{name}_block{self._count}"
        self._scopes.append(scope)

    def _label(self, pending: int, at: int) -> bool:
        name = self._text[pending:at].strip()
        following = self._text[at + 1 : at + 2]
        if not re.fullmatch(r"[\w$%]+", name) or following == ":" or self._text[at - 1] == ":":
            return False
        self.labels[self._unique(name)] = len(self.statements)
        return True

    def _unique(self, name: str) -> str:
        for scope in reversed(self._scopes):
            if name in scope.names:
                return scope.names[name]
        return name

    def _statement(self, pending: int, at: int) -> None:
        raw = self._text[pending:at]
        text = " ".join(raw.split())
        if not text:
            return
        first = pending + len(raw) - len(raw.lstrip())
        line = self._text.count("\n", 0, first) + 1
        if text.startswith(".reg"):
            for name in _names(text.split(None, 2)[2]):
                unique = self._unique(name)
                if not unique.startswith("%"):
                    self.registers.add(unique)
            return
        if text.startswith(".branchtargets"):
            label = next(reversed(self.labels))
            names = text.removeprefix(".branchtargets").split(",")
            self.branch_lists[label] = tuple(self._unique(name.strip()) for name in names)
            return
        if text.startswith("."):
            return
        renamed = self._renamed(text)
        guard = _GUARD.match(renamed)
        rest = renamed[guard.end() :] if guard else renamed
        opcode, _, operands = rest.partition(" ")
        self.statements.append(
            Statement(
                line,
                text,
                guard[1] + guard[2] if guard else None,
                opcode,
                _operands(operands),
            )
        )

    def _renamed(self, text: str) -> str:
        if len(self._scopes) == 1:
            return text
        opcode = re.match(r"^(@!?\s*[\w$%]+\s+)?([a-z][\w.:]*)", text)
        head = opcode.end() if opcode else 0
        start = text[: opcode.start(2)] if opcode else ""
        name = opcode[2] if opcode else ""
        swap = lambda match: self._unique(match[0])  # noqa: E731
        return _NAME.sub(swap, start) + name + _NAME.sub(swap, text[head:])


def _names(words: str) -> list[str]:
    """Register names of a declaration, numbered ones written out."""
    found = []
    for name, count in _DECLARED.findall(words):
        found += [f"{name}{number}" for number in range(int(count))] if count else [name]
    return found


def _operands(text: str) -> tuple[str, ...]:
    parts: list[str] = []
    depth = 0
    start = 0
    for index, character in enumerate(text):
        depth += (character in "[{(") - (character in "]})")
        if character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    parts.append(text[start:].strip())
    return tuple(part for part in parts if part)
