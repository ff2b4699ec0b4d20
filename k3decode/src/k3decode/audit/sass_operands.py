"""Operands of SASS: registers and their pairs, constant banks, memory, predicates."""

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from k3decode.audit.program import (
    Guard,
    Immediate,
    ModuleConstant,
    Negated,
    Operand,
    ParameterArea,
    ParameterWord,
    Register,
    Scalar,
    SharedWindow,
    Symbol,
    ThreadIndex,
)

__all__ = ["OperandReader", "guard_of", "is_memory", "is_predicate", "is_register", "label_of"]

_REGISTER = re.compile(r"^(U?R)(\d+|Z)((?:\.\w+)*)$")
_PREDICATE = re.compile(r"^!?(U?P(?:\d|T))$")
_BANK = re.compile(r"^cx?\[(\w+)\]\[(?:(U?R\d+|U?RZ)(?:\.\w+)*\+?)?(-?0x[0-9a-f]+)?\]$")
_MEMORY = re.compile(r"\[([^\[\]]*)\]$")
_LABEL = re.compile(r"^`\((.+)\)$")
_WORD_BYTES = 4
# Words of constant bank 0 that hold the address of the parameters, by where the parameters begin:
# Hopper, Blackwell.
_AREA_WORD = {0x210: 0x198, 0x380: 0x348}
_THREAD_REGISTERS = ("SR_TID", "SR_LANEID", "SR_EQMASK", "SR_LTMASK", "SR_LEMASK", "SR_GTMASK")


def is_register(text: str) -> bool:
    """Whether it is a register, and no predicate."""
    return _REGISTER.match(_plain(text)) is not None


def is_predicate(text: str) -> bool:
    """Whether it is a predicate."""
    return _PREDICATE.match(text) is not None


def is_memory(text: str) -> bool:
    """Whether it is an address in brackets, and no constant bank."""
    return text.endswith("]") and _BANK.match(_plain(text)) is None


def label_of(text: str) -> str | None:
    """The label that a jump names."""
    label = _LABEL.match(text)
    return label[1] if label else None


def guard_of(text: str) -> Guard | None:
    """The condition that a predicate is; None for one that always holds."""
    name = text.lstrip("@!")
    negated = "!" in text
    if name in {"PT", "UPT"}:
        return Guard("PT", True) if negated else None
    return Guard(name, negated)


def _plain(text: str) -> str:
    """Without sign, magnitude, complement and reuse marks."""
    text = text.replace(".reuse", "").lstrip("-~!+")
    return text.strip("|")


@dataclass(frozen=True)
class OperandReader:
    """Reads operands of one kernel."""

    parameter_base: int

    def low(self, text: str) -> Operand:
        """A 32-bit operand, or the low half of a 64-bit one."""
        return self.word(text, 0)

    def word(self, text: str, number: int) -> Operand:
        """One 32-bit word of an operand."""
        plain = _plain(text)
        register = _REGISTER.match(plain)
        if register:
            found = _register(register, number)
            negated = text.startswith(("-", "~")) and isinstance(found, Register)
            return Negated(found) if negated and isinstance(found, Register) else found
        predicate = _PREDICATE.match(text)
        if predicate:
            # True and false are numbers to what is computed from them.
            always = predicate[1] in {"PT", "UPT"}
            return Immediate(int(not text.startswith("!"))) if always else Register(predicate[1])
        bank = _BANK.match(plain)
        if bank:
            return self._bank(bank, number)
        return _number(text) if number == 0 else Immediate(0)

    def _bank(self, bank: re.Match[str], number: int) -> Operand:
        index, register, offset_text = bank.groups()
        offset = int(offset_text or "0x0", 16) + _WORD_BYTES * number
        if index != "0x0":
            # Both words of an address have one name.
            name = f"c[{index}][{offset & -2 * _WORD_BYTES:#x}]"
            # Bank 4 holds addresses of the module's variables, bank 3 what the host put into its
            # constants; the others hold numbers.
            module: dict[str, Operand] = {"0x3": ModuleConstant(name), "0x4": Symbol(name)}
            return module.get(index, Scalar())
        if _is_index(register):
            return ParameterWord(None)
        if offset >= self.parameter_base:
            return ParameterWord(offset - self.parameter_base)
        return ParameterArea() if offset == _AREA_WORD.get(self.parameter_base) else Scalar()

    def indexed(self, text: str, number: int) -> tuple[Operand, ...] | None:
        """The address of an indexed word among the parameters; None for any other operand."""
        bank = _BANK.match(_plain(text))
        if bank is None or bank[1] != "0x0" or not _is_index(bank[2]):
            return None
        offset = int(bank[3] or "0x0", 16) + _WORD_BYTES * number - self.parameter_base
        return self.low(bank[2]), ParameterArea(offset)

    def memory(self, text: str) -> tuple[tuple[Operand, ...], ...]:
        """Halves of an address; each is a sum."""
        match = _MEMORY.search(text)
        low: list[Operand] = []
        high: list[Operand] = []
        for part in re.findall(r"[+-]?[^+-]+", match[1] if match else ""):
            operand = part.lstrip("+")
            low.append(self.low(operand.removesuffix(".64").removesuffix(".U32")))
            pair = ".64" in operand or (operand.startswith("UR") and ".U32" in text)
            if pair or (operand.startswith("UR") and "+" not in text and "desc" in text):
                high.append(self.word(operand.removesuffix(".64"), 1))
        return (tuple(low), tuple(high)) if high else (tuple(low),)

    def special(self, name: str) -> Operand:
        """What a special register holds."""
        if name == "SRZ":
            return Immediate(0)
        if name == "SR_CgaCtaId":
            # Addresses in shared memory begin with it.
            return SharedWindow()
        return ThreadIndex() if name.startswith(_THREAD_REGISTERS) else Scalar()

    def plain(self, texts: Iterable[str]) -> tuple[Operand, ...]:
        """Operands that may influence a result; addresses are left out."""
        found: list[Operand] = []
        for text in texts:
            if text == "PR":
                # All predicates, packed.
                found += [Register(f"P{number}") for number in range(7)]
            elif not is_memory(text):
                operand = self.low(text)
                found.append(operand.operand if isinstance(operand, Negated) else operand)
        return tuple(found)


def _is_index(register: str | None) -> bool:
    return register is not None and not register.endswith("Z")


def _register(match: re.Match[str], number: int) -> Operand:
    kind, index, _ = match.groups()
    return Immediate(0) if index == "Z" else Register(f"{kind}{int(index) + number}")


def _number(text: str) -> Operand:
    try:
        return Immediate(int(text, 0))
    except ValueError:
        pass
    try:
        return Immediate(int.from_bytes(struct.pack("<f", float(text)), "little"))
    except (ValueError, OverflowError):
        pass
    if "@" in text:
        return Symbol(text)
    return Scalar()
