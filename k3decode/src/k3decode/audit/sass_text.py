"""Text of nvdisasm to kernels: names, parameters, labels, and instructions in pieces.

Wants the whole text, with the `.nv.info` sections that list the parameters (`nvdisasm FILE`, not
`nvdisasm -c FILE`).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from k3decode.audit.errors import UnreadableInputError
from k3decode.audit.program import Parameter

__all__ = ["RawInstruction", "RawKernel", "split_operands", "split_sass"]

_TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.MULTILINE)
_SECTION = re.compile(r"^\s*\.section\s+([^,\s]+),", re.MULTILINE)
_CODE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P[0-9T]+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_OTHER_CODE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+[^.\s].*")
_ENTRY = "STO_CUDA_ENTRY"
# Above every offset in a constant bank.
_NO_PARAMETERS = 1 << 32
# What nvdisasm knows beside the operands, as which labels a jump leads to.
_REMARK = re.compile(r'\s*\(\*".*?"\*\)')
_LABEL = re.compile(r"^(\S+):\s*$")
_ATTRIBUTE = re.compile(r"EIATTR_(\w+)")
_NUMBER = re.compile(r"(?<![\w@])0x[0-9a-f]+")
_SIZE_SHIFT = 18
_KPARAM_WORDS = 3


@dataclass(frozen=True, slots=True)
class RawInstruction:
    """One line of code."""

    at: int
    guard: str | None
    """As "@!P0"."""
    opcode: str
    """With its modifiers."""
    operands: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class RawKernel:
    """One code section."""

    name: str
    target: str
    parameters: tuple[Parameter, ...]
    parameter_base: int
    """Where the parameters begin in constant bank 0."""
    lines: tuple[RawInstruction, ...]
    labels: Mapping[str, int]


def split_sass(text: str) -> list[RawKernel]:
    """All kernels of a text of nvdisasm.

    Raises:
        UnreadableInputError: it is no such text, or one without the lists of parameters.
    """
    target = _TARGET.search(text)
    sections = dict(_sections(text))
    code = {
        name.removeprefix(".text."): body
        for name, body in sections.items()
        if name.startswith(".text.")
    }
    if target is None or not code:
        raise UnreadableInputError(
            "expected text of nvdisasm with a target and a code section, found none: pass a .cubin "
            "or what `nvdisasm FILE.cubin` prints"
        )
    kernels = []
    for name, body in code.items():
        information = sections.get(f".nv.info.{name}", "")
        base, parameters = _NO_PARAMETERS, tuple[Parameter, ...]()
        if "EIATTR_PARAM_CBANK" in information:
            base, parameters = _parameters(name, information)
        elif not information or _ENTRY not in body:
            # A subroutine with a section of its own is no kernel; a call to it is reported.
            continue
        lines, labels = _code(body)
        kernels.append(RawKernel(name, target[1], parameters, base, lines, labels))
    if not kernels:
        raise UnreadableInputError(
            f"expected a section .nv.info.{next(iter(code))} that lists the parameters, found "
            "none: call nvdisasm without -c"
        )
    return sorted(kernels, key=lambda kernel: kernel.name)


def _sections(text: str) -> Iterator[tuple[str, str]]:
    starts = list(_SECTION.finditer(text))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    for start, end in zip(starts, ends, strict=False):
        yield start[1], text[start.end() : end]


def _parameters(name: str, information: str) -> tuple[int, tuple[Parameter, ...]]:
    """Base in the constant bank, and parameters in order."""
    pieces = _ATTRIBUTE.split(information)
    base = size = 0
    parameters = []
    for attribute, body in zip(pieces[1::2], pieces[2::2], strict=True):
        numbers = _attribute_numbers(body)
        if attribute == "PARAM_CBANK":
            base, size = numbers[-2:]
        elif attribute == "KPARAM_INFO":
            _, ordinal, offset = numbers[:_KPARAM_WORDS]
            flags = int.from_bytes(bytes(numbers[_KPARAM_WORDS:]), "little")
            parameters.append(Parameter(ordinal, offset, flags >> _SIZE_SHIFT))
    if size and not parameters:
        raise UnreadableInputError(
            f"expected a list of the parameters of {name}, which take {size} bytes, found none: "
            "the audit does not know how this toolkit writes it"
        )
    return base, tuple(sorted(parameters, key=lambda parameter: parameter.ordinal))


def _attribute_numbers(body: str) -> list[int]:
    """Numbers of an attribute after its kind and size."""
    numbers = []
    for line in body.splitlines():
        code = re.match(r"\s*/\*[0-9a-f]+\*/\s+\.(byte|short|word)\s+(.*)", line)
        if code:
            numbers += [int(number, 16) for number in _NUMBER.findall(code[2])]
    # The first two bytes are the form and the number of the attribute.
    return numbers[2:]


def _code(body: str) -> tuple[tuple[RawInstruction, ...], dict[str, int]]:
    lines: list[RawInstruction] = []
    labels: dict[str, int] = {}
    for line in body.splitlines():
        label = _LABEL.match(line)
        if label:
            labels[label[1]] = len(lines)
            continue
        code = _CODE.match(line)
        if code:
            offset, guard, opcode, operands = code.groups()
            text = " ".join(part for part in (guard, opcode, operands) if part)
            pieces = split_operands(_REMARK.sub("", operands))
            lines.append(RawInstruction(int(offset, 16), guard, opcode, pieces, text))
        elif _OTHER_CODE.match(line):
            raise UnreadableInputError(
                f"expected an instruction, found `{line.strip()}`: this version of nvdisasm writes "
                "what the audit does not read"
            )
    return tuple(lines), labels


def split_operands(text: str) -> tuple[str, ...]:
    """Operands between the commas that stand in no bracket."""
    parts = []
    depth = 0
    start = 0
    for index, character in enumerate(text):
        if character in "[({":
            depth += 1
        elif character in "])}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return tuple(stripped for part in parts if (stripped := part.strip()))
