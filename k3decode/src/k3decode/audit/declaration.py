"""What is known about a kernel beside its code: which parameters lead to static memory.

A TOML file with one table for each kernel, or each family of kernels:

    [[kernel]]
    name = "*RouterKernel*"                              # the kernel's name, with wildcards
    parameters = ["logits", "bias", "experts", "weights"]  # names, in order; optional
    dependent_launch = false         # default true: launched before its predecessor has ended
    static = ["bias"]                # lead to memory that no kernel writes while it is in use
    scalar = ["logits+8"]            # hold a number of 64 bits: byte 8 of parameter logits
    settled = []                     # lead to memory that is complete before the kernel can start,
    predecessor = "*OtherKernel*"    # since this one, which lets it start, waits itself before that
    mailbox = []                     # lead to memory that other GPUs write while the kernel runs
    static_tables = []               # lead to a table of addresses of static memory
    activation_tables = []           # lead to a table of other addresses

A parameter is named by its name, or by its number from 0; "+N" chooses the 8 bytes at byte N of it.
What is not declared is activation memory. What is settled is believed only where the predecessor is
audited along with the kernel. A tensor map is named by the parameter that holds it.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any

from k3decode.audit.errors import UnreadableInputError
from k3decode.audit.program import Kernel

__all__ = ["Declaration", "KernelFacts", "Memory", "declaration_for", "read_declarations"]

_KEYS = frozenset(
    [
        "name",
        "parameters",
        "dependent_launch",
        "static",
        "scalar",
        "settled",
        "predecessor",
        "mailbox",
        "static_tables",
        "activation_tables",
    ]
)
_POINTER_BYTES = 8


class Memory(Enum):
    """What a parameter leads to."""

    ACTIVATION = "activation"
    STATIC = "static"
    SETTLED = "settled"
    MAILBOX = "mailbox"
    SCALAR = "scalar"
    STATIC_TABLE = "static table"
    ACTIVATION_TABLE = "activation table"


_LISTS = {
    "static": Memory.STATIC,
    "scalar": Memory.SCALAR,
    "settled": Memory.SETTLED,
    "mailbox": Memory.MAILBOX,
    "static_tables": Memory.STATIC_TABLE,
    "activation_tables": Memory.ACTIVATION_TABLE,
}


@dataclass(frozen=True)
class Declaration:
    """One table of the file."""

    name: str
    parameters: tuple[str, ...]
    dependent_launch: bool
    entries: tuple[tuple[str, Memory], ...]
    """As written: (parameter, memory)."""
    predecessor: str | None


@dataclass(frozen=True)
class KernelFacts:
    """A declaration, applied to one kernel."""

    names: tuple[str, ...]
    """One for each parameter."""
    dependent_launch: bool
    memory: Mapping[tuple[int, int | None], Memory]
    """(ordinal, byte offset or None for the whole parameter) -> what it leads to."""
    declared: bool
    """Whether a declaration names the kernel."""
    predecessor: str | None = None
    """Pattern of the name of the kernel that lets this one start."""

    def memory_of(self, ordinal: int, offset: int) -> Memory:
        """What 8 bytes of a parameter lead to."""
        exact = self.memory.get((ordinal, offset))
        return exact or self.memory.get((ordinal, None), Memory.ACTIVATION)

    def name_of(self, ordinal: int) -> str:
        """A parameter in words."""
        return self.names[ordinal] if ordinal < len(self.names) else str(ordinal)


def read_declarations(text: str) -> tuple[Declaration, ...]:
    """Parse a file of declarations.

    Raises:
        UnreadableInputError: it is no TOML, or says something that is not known.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableInputError(f"expected TOML, found an error: {error}") from error
    tables = content.get("kernel")
    if not isinstance(tables, list) or set(content) != {"kernel"}:
        raise UnreadableInputError(
            f"expected only tables [[kernel]], found {', '.join(content) or 'nothing'}"
        )
    return tuple(_declaration(table) for table in tables)


def _declaration(table: Mapping[str, Any]) -> Declaration:
    name = table.get("name")
    if not isinstance(name, str):
        raise UnreadableInputError("expected a name in each [[kernel]], found one without")
    unknown = sorted(set(table) - _KEYS)
    if unknown:
        raise UnreadableInputError(
            f"[[kernel]] {name}: expected only {', '.join(sorted(_KEYS))}, found "
            f"{', '.join(unknown)}"
        )
    dependent = table.get("dependent_launch", True)
    if not isinstance(dependent, bool):
        raise UnreadableInputError(
            f"[[kernel]] {name}: dependent_launch: expected true or false, found {dependent!r}"
        )
    entries = [
        (text, memory)
        for key, memory in _LISTS.items()
        for text in _strings(name, key, table.get(key, []))
    ]
    names = _strings(name, "parameters", table.get("parameters", []))
    predecessor = table.get("predecessor")
    if (predecessor is None) == any(memory is Memory.SETTLED for _, memory in entries):
        raise UnreadableInputError(
            f"[[kernel]] {name}: expected settled parameters and their predecessor together, found "
            "only one of the two"
        )
    return Declaration(name, tuple(names), dependent, tuple(entries), predecessor)


def _strings(name: str, key: str, found: object) -> Sequence[str]:
    if not isinstance(found, list) or not all(isinstance(one, str | int) for one in found):
        raise UnreadableInputError(
            f"[[kernel]] {name}: {key}: expected a list of names or numbers, found {found!r}"
        )
    return [str(one) for one in found]


def declaration_for(kernel: Kernel, declarations: Sequence[Declaration]) -> KernelFacts:
    """What is known about a kernel; the first declaration that names and fits it counts.

    Raises:
        UnreadableInputError: the declaration does not fit the kernel's parameters.
    """
    plain = tuple(str(parameter.ordinal) for parameter in kernel.parameters)
    naming = [d for d in declarations if fnmatchcase(kernel.name, d.name)]
    if not naming:
        return KernelFacts(plain, True, {}, declared=False)
    fitting = [d for d in naming if len(d.parameters or plain) == len(plain)]
    if not fitting:
        raise UnreadableInputError(
            f"[[kernel]] {naming[0].name}: expected as many names as {kernel.name} has parameters "
            f"({len(plain)}), found {len(naming[0].parameters)}: bring the declaration up to date"
        )
    chosen = fitting[0]
    names = chosen.parameters or plain
    memory: dict[tuple[int, int | None], Memory] = {}
    for text, kind in chosen.entries:
        place = _place(text, names, kernel, chosen.name)
        if memory.setdefault(place, kind) is not kind:
            raise UnreadableInputError(
                f"[[kernel]] {chosen.name}: expected one list for {text}, found it in two"
            )
    return KernelFacts(names, chosen.dependent_launch, memory, True, chosen.predecessor)


def _place(
    text: str, names: Sequence[str], kernel: Kernel, declaration: str
) -> tuple[int, int | None]:
    name, plus, offset_text = text.partition("+")
    ordinals = [o for o, known in enumerate(names) if name in {known, str(o)}]
    offset = int(offset_text) if offset_text.isdigit() else None
    fits = len(ordinals) == 1 and (
        not plus
        or (
            offset is not None
            and offset % _POINTER_BYTES == 0
            and offset < kernel.parameters[ordinals[0]].size
        )
    )
    if not fits:
        raise UnreadableInputError(
            f"[[kernel]] {declaration}: expected a parameter of {kernel.name} "
            f"({', '.join(names)}), or one and a multiple of 8 below its size, found {text}"
        )
    return ordinals[0], offset
