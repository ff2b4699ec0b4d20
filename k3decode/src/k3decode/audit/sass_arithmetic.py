"""What SASS arithmetic does to addresses, as far as the audit follows them."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from k3decode.audit.program import Assignment, Form, Immediate, Number, Operand, ThreadIndex
from k3decode.audit.sass_operands import (
    OperandReader,
    is_predicate,
    is_register,
    label_of,
)
from k3decode.audit.sass_text import RawInstruction

__all__ = ["assignments_of", "result_registers"]

_WIDTHS = {"64": 2, "128": 4, "256": 8, "WIDE": 2, "F64": 2, "U64": 2, "S64": 2}
# Registers of a result, whatever the modifiers say.
_RESULT_WIDTHS = {"HMMA": 4, "IMMA": 4, "QMMA": 4, "OMMA": 4, "DMMA": 4, "CS2R": 2}
_PREDICATES = tuple(f"P{number}" for number in range(7))
_TWO_PREDICATES = frozenset(
    ["ISETP", "FSETP", "DSETP", "HSETP2", "UISETP", "UFSETP", "PSETP", "PLOP3", "UPLOP3"]
)
_ONE_PREDICATE = frozenset(["FCHK"])
# Predicates that follow the result are results too: carries, votes.
_CARRYING = frozenset(["IADD3", "UIADD3", "LEA", "ULEA", "IMAD", "UIMAD", "VOTE", "VOTEU", "ELECT"])
_WITHOUT_RESULT = frozenset(
    [
        "ST", "STG", "STS", "STL", "STSM", "STTM", "RED", "REDG", "REDAS", "UTMASTG", "UTMAREDG",
        "UTMAPF", "UTMACCTL", "UTMACMDFLUSH", "UBLKPF", "UBLKRED", "CCTL", "CCTLL", "CCTLT",
        "MEMBAR", "FENCE", "ERRBAR", "BAR", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "NANOSLEEP",
        "YIELD", "NOP", "DEPBAR", "LDGDEPBAR", "BPT", "PREEXIT", "ACQBULK", "WARPGROUP",
        "USETMAXREG", "UCGABAR", "UTCHMMA", "UTCQMMA", "UTCOMMA", "UTCIMMA", "UTCCP", "UTCATOMSWS",
        "UTCSHIFT", "PMTRIG", "RPCMOV",
    ]
)  # fmt: skip
_MOVES = frozenset(["MOV", "UMOV", "R2UR", "SHFL", "MOV32I", "IABS", "UIABS"])
_CHOICES = frozenset(
    ["SEL", "USEL", "FSEL", "IMNMX", "VIMNMX", "VIMNMX3", "UIMNMX", "UVIMNMX", "UVIMNMX3"]
)
_SUMS = frozenset(["IADD3", "IADD", "UIADD3", "UIADD", "VIADD", "UVIADD", "IADD32I"])
# Masks and byte shuffles keep an address where it is.
_MASKS = frozenset(["LOP3", "ULOP3", "LOP", "LOP32I", "PRMT", "UPRMT", "BFI", "SGXT", "USGXT"])


@dataclass(frozen=True)
class _Split:
    """Operands by what they are for."""

    registers: tuple[str, ...]
    """First register of each result."""
    predicates: tuple[str, ...]
    sources: tuple[str, ...]


def _split(line: RawInstruction) -> _Split:
    family = line.opcode.split(".")[0]
    operands = list(line.operands)
    if family in _WITHOUT_RESULT:
        return _Split((), (), tuple(operands))
    if family in _TWO_PREDICATES:
        return _Split((), tuple(operands[:2]), tuple(operands[2:]))
    if family == "R2P":
        return _Split((), _PREDICATES, tuple(operands))
    predicates = []
    while operands and is_predicate(operands[0]):
        predicates.append(operands.pop(0))
    registers = []
    if operands and is_register(operands[0]) and family not in _ONE_PREDICATE:
        registers.append(operands.pop(0))
        while family in _CARRYING and operands and is_predicate(operands[0]):
            predicates.append(operands.pop(0))
    elif not operands:
        # Only predicates: the first is the result.
        operands = predicates[1:]
        predicates = predicates[:1]
    if family.startswith("LDG") and "256" in line.opcode.split("."):
        # Two groups of four.
        while operands and is_register(operands[0]):
            registers.append(operands.pop(0))
    return _Split(tuple(registers), tuple(predicates), tuple(operands))


def result_registers(line: RawInstruction) -> tuple[str, ...]:
    """Registers, not predicates, that are written, in order; the zero register is none."""
    starts = _split(line).registers
    width = _width(line.opcode) // max(len(starts), 1)
    return tuple(name for start in starts for name in _group(start, width))


def _width(opcode: str) -> int:
    """Registers of a result; for a mix of types the wider."""
    family, *modifiers = opcode.split(".")
    if family in {"SHF", "USHF"} or (family == "CS2R" and "32" in modifiers):
        return 1
    tile = re.search(r"\.\d+x(\d+)x\d+", opcode)
    if tile:
        return int(tile[1]) // 2
    if family == "LDTM":
        per_repeat = 4 if "256" in opcode else 2 if "128" in opcode else 1
        repeats = re.search(r"\.x(\d+)", opcode)
        return per_repeat * int(repeats[1] if repeats else 1)
    if family == "LDSM":
        return int(modifiers[-1]) if modifiers[-1] in {"2", "4"} else 1
    width = max((_WIDTHS.get(modifier, 1) for modifier in modifiers), default=1)
    return max(width, _RESULT_WIDTHS.get(family, 1))


def _group(start: str, width: int) -> tuple[str, ...]:
    name = start.split(".", maxsplit=1)[0]
    kind = name.rstrip("0123456789")
    if name == kind:
        # RZ and URZ keep nothing.
        return ()
    first = int(name.removeprefix(kind))
    if width in {2, 4} and first % 2:
        # A pair begins at an even number, so the result is a single register.
        width = 1
    return tuple(f"{kind}{first + number}" for number in range(width))


def assignments_of(line: RawInstruction, reader: OperandReader) -> tuple[Assignment, ...]:
    """What an instruction that is no access, wait or jump assigns."""
    family = line.opcode.split(".")[0]
    split = _split(line)
    sources = [o for o in split.sources if label_of(o) is None]
    rule = _RULES.get(family, _other)
    made = [
        rule(line, register, sources, number, reader)
        for number, register in enumerate(result_registers(line))
    ]
    everything = reader.plain(sources)
    if family == "ELECT":
        everything = (ThreadIndex(),)
    tested = _tested_register(line.opcode, sources)
    for name in split.predicates:
        if is_predicate(name) and name not in {"PT", "UPT"}:
            form, known = (Form.MIX, everything)
            if tested is not None and name == split.predicates[0]:
                form, known = Form.FLAG, (reader.low(tested),)
            made.append(Assignment(name, form, known))
    return tuple(made)


def _tested_register(opcode: str, sources: list[str]) -> str | None:
    """The register whose being zero or not is all that a comparison asks."""
    plain = opcode.removeprefix("U") in {"ISETP.NE.AND", "ISETP.NE.U32.AND"}
    if plain and sources[1:] in (["RZ", "PT"], ["URZ", "UPT"]) and is_register(sources[0]):
        return sources[0]
    return None


_Rule = Callable[[RawInstruction, str, list[str], int, OperandReader], Assignment]


def _other(
    _: RawInstruction, register: str, sources: list[str], __: int, reader: OperandReader
) -> Assignment:
    return Assignment(register, Form.MIX, reader.plain(sources))


def _move(
    _: RawInstruction, register: str, sources: list[str], number: int, reader: OperandReader
) -> Assignment:
    # Other lanes' copies of a register, too, begin with what this one begins with.
    return Assignment(register, Form.SUM, (reader.word(sources[0], number),))


def _special(
    _: RawInstruction, register: str, sources: list[str], __: int, reader: OperandReader
) -> Assignment:
    return Assignment(register, Form.SUM, (reader.special(sources[0]),))


def _choice(
    _: RawInstruction, register: str, sources: list[str], number: int, reader: OperandReader
) -> Assignment:
    chosen = [reader.word(o, number) for o in sources if not is_predicate(o)]
    return Assignment(register, Form.CHOICE, tuple(chosen), _predicates(sources, reader))


def _predicates(sources: list[str], reader: OperandReader) -> tuple[Operand, ...]:
    return reader.plain([o for o in sources if is_predicate(o)])


def _sum(
    _: RawInstruction, register: str, sources: list[str], number: int, reader: OperandReader
) -> Assignment:
    added = [reader.word(o, number) for o in sources if not is_predicate(o)]
    return Assignment(register, Form.SUM, tuple(added))


def _multiply_add(
    line: RawInstruction, register: str, sources: list[str], number: int, reader: OperandReader
) -> Assignment:
    one, other, addend, *_ = sources
    factors: tuple[Operand, ...] = (reader.low(one), reader.low(other))
    if "HI" in line.opcode.split(".") or number == 1:
        # The upper half of a product is a product of neither.
        factors = (*factors, Number())
    return Assignment(register, Form.SUM, (reader.word(addend, number),), factors)


def _shifted_add(
    line: RawInstruction, register: str, sources: list[str], _: int, reader: OperandReader
) -> Assignment:
    shifted, addend, *rest = [o for o in sources if not is_predicate(o)]
    modifiers = line.opcode.split(".")
    shift = reader.low(rest[-1]) if rest else Immediate(0)
    factors: tuple[Operand, ...]
    if "HI" in modifiers or not isinstance(shift, Immediate):
        factors = (reader.low(shifted), *map(reader.low, rest[:-1]), Number())
    else:
        factors = (reader.low(shifted), Immediate(1 << shift.value))
    return Assignment(register, Form.SUM, (reader.low(addend),), factors)


def _mask(
    _: RawInstruction, register: str, sources: list[str], number: int, reader: OperandReader
) -> Assignment:
    kept = [reader.word(o, number) for o in sources if not is_predicate(o)]
    return Assignment(register, Form.SUM, (*kept, Number()))


def _pack(
    _: RawInstruction, register: str, sources: list[str], __: int, reader: OperandReader
) -> Assignment:
    mask = reader.low(sources[-1])
    for number, name in enumerate(_PREDICATES):
        if sources[0] == "PR" and mask == Immediate(1 << number):
            return Assignment(register, Form.FLAG, (reader.low(name),))
    return Assignment(register, Form.MIX, reader.plain(sources))


def _shift(
    line: RawInstruction, register: str, sources: list[str], _: int, reader: OperandReader
) -> Assignment:
    direction, *modifiers = line.opcode.split(".")[1:]
    amount = reader.low(sources[1])
    whole = "HI" not in modifiers and sources[2] in {"RZ", "URZ"}
    if direction == "L" and whole and isinstance(amount, Immediate):
        factors = (reader.low(sources[0]), Immediate(1 << (amount.value % 64)))
        return Assignment(register, Form.SUM, (), factors)
    return Assignment(register, Form.MIX, reader.plain(sources))


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_MOVES, _move),
    **dict.fromkeys(["S2R", "S2UR", "CS2R"], _special),
    **dict.fromkeys(_CHOICES, _choice),
    **dict.fromkeys(_SUMS, _sum),
    **dict.fromkeys(["IMAD", "UIMAD"], _multiply_add),
    **dict.fromkeys(["LEA", "ULEA"], _shifted_add),
    **dict.fromkeys(_MASKS, _mask),
    **dict.fromkeys(["SHF", "USHF"], _shift),
    "P2R": _pack,
}
