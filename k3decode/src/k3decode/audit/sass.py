"""SASS to the audit's terms: what each opcode assigns, reads from global memory, waits for.

An opcode that is not listed makes a value that is no address; what cannot be told is then a
finding, not a silence. Read from the code that the assemblers of CUDA 13 make for sm_90a, sm_100a
and sm_103a; NVIDIA documents only the names.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from k3decode.audit.errors import UnreadableInputError
from k3decode.audit.program import (
    Access,
    Assignment,
    Coherence,
    Event,
    Form,
    Guard,
    Instruction,
    Jump,
    JumpKind,
    Kernel,
    Operand,
    Register,
    Route,
)
from k3decode.audit.sass_arithmetic import assignments_of, result_registers
from k3decode.audit.sass_operands import (
    OperandReader,
    guard_of,
    is_memory,
    is_predicate,
    is_register,
    label_of,
)
from k3decode.audit.sass_text import RawInstruction, RawKernel, split_sass

__all__ = ["read_sass"]

_STACK_POINTER = "R1"
_STACK = re.compile(r"^\[R1(?:\+(0x[0-9a-f]+))?\]$")
_BRANCH_TARGETS = re.compile(r'BRANCH_TARGETS ([^"]+)"')
_WORD_BYTES = 4
_BARRIER_PAIR = 1


def read_sass(text: str) -> list[Kernel]:
    """All kernels of a text of nvdisasm.

    Raises:
        UnreadableInputError: it is no such text.
    """
    return [_Translator(raw).kernel() for raw in split_sass(text)]


class _Translator:
    """Turns the instructions of one kernel into the audit's terms."""

    def __init__(self, raw: RawKernel) -> None:
        self._raw = raw
        self._reader = OperandReader(raw.parameter_base)
        self._plain_stack = _stack_is_plain(raw.lines)

    def kernel(self) -> Kernel:
        """The whole kernel."""
        raw = self._raw
        return Kernel(
            name=raw.name,
            target=raw.target,
            dialect="SASS",
            parameters=raw.parameters,
            instructions=tuple(self._instruction(line) for line in raw.lines),
            labels=raw.labels,
        )

    def _instruction(self, line: RawInstruction) -> Instruction:
        guard = guard_of(line.guard) if line.guard else None
        if guard == Guard("PT", True):
            # Never executed: fills a slot.
            return Instruction(line.at, line.text)
        family = line.opcode.split(".")[0]
        read = _FAMILIES.get(family)
        if read is None and family.startswith("LDG"):
            read = _Translator._load
        if read is not None:
            return replace(read(self, line), guard=guard)
        jump = self._jump(line, family, guard)
        if jump is not None:
            return Instruction(line.at, line.text, jump=jump)
        return Instruction(line.at, line.text, guard, assignments_of(line, self._reader))

    def _loaded(self, line: RawInstruction) -> tuple[Assignment, ...]:
        return tuple(Assignment(name, Form.LOADED) for name in result_registers(line))

    def _load(self, line: RawInstruction) -> Instruction:
        (address,) = _memory(line, 1)
        parts = line.opcode.split(".")
        coherence = Coherence.PLAIN
        if "CONSTANT" in parts:
            coherence = Coherence.NONCOHERENT
        elif {"STRONG", "MMIO"} & set(parts):
            coherence = Coherence.STRONG
        access = Access(self._reader.memory(address), coherence=coherence, generic=parts[0] == "LD")
        return Instruction(line.at, line.text, None, self._loaded(line), access)

    def _atomic(self, line: RawInstruction) -> Instruction:
        results = self._loaded(line)
        (address,) = _memory(line, 1)
        access = Access(
            self._reader.memory(address),
            Route.ATOMIC,
            Coherence.STRONG,
            generic=line.opcode.startswith("ATOM."),
        )
        # Nothing is read when nothing receives the old value.
        read = access if results else None
        return Instruction(line.at, line.text, None, results, read, target=access.address)

    def _store(self, line: RawInstruction) -> Instruction:
        (address,) = _memory(line, 1)
        return Instruction(line.at, line.text, target=self._reader.memory(address))

    def _shared_load(self, line: RawInstruction) -> Instruction:
        return Instruction(line.at, line.text, None, self._loaded(line))

    def _nothing(self, line: RawInstruction) -> Instruction:
        return Instruction(line.at, line.text)

    def _async_copy(self, line: RawInstruction) -> Instruction:
        _, source = _memory(line, 2)
        access = Access(self._reader.memory(source), Route.ASYNC_COPY)
        return Instruction(line.at, line.text, None, (), access)

    def _tensor_copy(self, line: RawInstruction) -> Instruction:
        return self._copy(line, Route.TENSOR_COPY)

    def _bulk_copy(self, line: RawInstruction) -> Instruction:
        # Target and source follow the name; from shared memory no global memory is read.
        if line.opcode.split(".")[2:3] == ["S"]:
            return Instruction(line.at, line.text)
        return self._copy(line, Route.BULK_COPY)

    def _copy(self, line: RawInstruction, route: Route) -> Instruction:
        """Destination and mbarrier are a pair of registers; the source comes second."""
        target, source = _memory(line, 2)
        barrier = self._reader.word(target.strip("[]"), _BARRIER_PAIR)
        access = Access(self._pair(source), route)
        return Instruction(
            line.at, line.text, None, (), access, Event.MBARRIER_ARRIVE, barrier=(barrier,)
        )

    def _pair(self, address: str) -> tuple[tuple[Operand, ...], ...]:
        register = address.strip("[]")
        return ((self._reader.low(register),), (self._reader.word(register, 1),))

    def _texture(self, line: RawInstruction) -> Instruction:
        # The address is inside the texture's header, which is not followed.
        access = Access((), Route.TEXTURE, Coherence.NONCOHERENT)
        return Instruction(line.at, line.text, None, self._loaded(line), access)

    def _constant_load(self, line: RawInstruction) -> Instruction:
        source = line.operands[-1]
        assignments = []
        for number, name in enumerate(result_registers(line)):
            indexed = self._reader.indexed(source, number)
            form = Form.SUM if indexed is None else Form.PARAMETER
            sources = (self._reader.word(source, number),) if indexed is None else indexed
            assignments.append(Assignment(name, form, sources))
        return Instruction(line.at, line.text, None, tuple(assignments))

    def _synchronisation(self, line: RawInstruction) -> Instruction:
        memory = next((operand for operand in line.operands if is_memory(operand)), "[]")
        barrier = self._reader.memory(memory)[0]
        if "PHASECHK" in line.opcode:
            outcome = tuple(
                Assignment(operand, Form.OUTCOME)
                for operand in line.operands[:1]
                if is_predicate(operand)
            )
            return Instruction(line.at, line.text, None, outcome, None, Event.MBARRIER_TRY, barrier)
        if "ARRIVE" in line.opcode or line.opcode.startswith(("ARRIVES", "UTCBAR", "STAS")):
            return Instruction(line.at, line.text, None, (), None, Event.MBARRIER_ARRIVE, barrier)
        return Instruction(line.at, line.text, None, assignments_of(line, self._reader))

    def _dependency_wait(self, line: RawInstruction) -> Instruction:
        return Instruction(line.at, line.text, event=Event.DEPENDENCY_WAIT)

    def _launch_dependents(self, line: RawInstruction) -> Instruction:
        return Instruction(line.at, line.text, event=Event.LAUNCH_DEPENDENTS)

    def _barrier(self, line: RawInstruction) -> Instruction:
        # With a count of threads, only some of the CTA meet.
        whole = line.opcode.startswith("BAR.SYNC") and len(line.operands) == 1
        return Instruction(line.at, line.text, event=Event.CTA_BARRIER if whole else None)

    def _local_store(self, line: RawInstruction) -> Instruction:
        slots = self._stack_slots(line, line.operands[0])
        values = tuple(
            Assignment(slot, Form.SUM, (self._reader.word(line.operands[1], number),))
            for number, slot in enumerate(slots)
        )
        return Instruction(line.at, line.text, None, values)

    def _local_load(self, line: RawInstruction) -> Instruction:
        registers = result_registers(line)
        slots = self._stack_slots(line, line.operands[-1])
        if not slots:
            return Instruction(line.at, line.text, None, self._loaded(line))
        values = tuple(
            Assignment(name, Form.SUM, (Register(slot),))
            for name, slot in zip(registers, slots, strict=False)
        )
        return Instruction(line.at, line.text, None, values)

    def _stack_slots(self, line: RawInstruction, address: str) -> list[str]:
        """Names of the words of the stack that are accessed; none where they cannot be told."""
        match = _STACK.match(address)
        if match is None or not self._plain_stack:
            return []
        first = int(match[1] or "0x0", 16)
        words = {"64": 2, "128": 4}.get(line.opcode.split(".")[-1], 1)
        return [f"stack+{first + _WORD_BYTES * number:#x}" for number in range(words)]

    def _jump(self, line: RawInstruction, family: str, guard: Guard | None) -> Jump | None:
        labels = tuple(label for o in line.operands if (label := label_of(o)) is not None)
        guards = [guard, *(guard_of(o) for o in line.operands if is_predicate(o))]
        conditions = tuple(g for g in guards if g is not None)
        kind = _JUMPS.get(family)
        if kind is JumpKind.RETURN:
            link = next(
                (word for word in " ".join(line.operands).split() if is_register(word)), None
            )
            return Jump(kind, (), conditions, link)
        if kind is JumpKind.EXIT or line.opcode == "BPT.TRAP":
            # After a trap nothing that is read matters.
            return Jump(JumpKind.EXIT, (), conditions)
        if family == "WARPSYNC" and labels:
            return Jump(JumpKind.BRANCH, labels, conditions, maybe=True)
        if kind is None:
            return None
        listed = _BRANCH_TARGETS.search(line.text)
        if listed:
            labels = tuple(name.strip() for name in listed[1].split(","))
        # These ask all threads of the warp, not this one.
        maybe = bool({"ANY", "ALL", "DIV", "CONV"} & set(line.opcode.split(".")))
        return Jump(kind if labels else JumpKind.UNKNOWN, labels, conditions, maybe=maybe)


_JUMPS = {
    "BRA": JumpKind.BRANCH,
    "BRX": JumpKind.BRANCH,
    "BRXU": JumpKind.BRANCH,
    "JMP": JumpKind.BRANCH,
    "JMX": JumpKind.BRANCH,
    "JMXU": JumpKind.BRANCH,
    "CALL": JumpKind.CALL,
    "RET": JumpKind.RETURN,
    "EXIT": JumpKind.EXIT,
    "KILL": JumpKind.EXIT,
}

_FAMILIES: dict[str, Callable[[_Translator, RawInstruction], Instruction]] = {
    "LD": _Translator._load,
    "LDGSTS": _Translator._async_copy,
    "LDGDEPBAR": _Translator._nothing,
    "ATOM": _Translator._atomic,
    "ATOMG": _Translator._atomic,
    "RED": _Translator._store,
    "REDG": _Translator._store,
    "ST": _Translator._store,
    "STG": _Translator._store,
    "LDS": _Translator._shared_load,
    "LDSM": _Translator._shared_load,
    "ATOMS": _Translator._shared_load,
    "UTMALDG": _Translator._tensor_copy,
    "UBLKCP": _Translator._bulk_copy,
    "TEX": _Translator._texture,
    "TLD": _Translator._texture,
    "TLD4": _Translator._texture,
    "TXD": _Translator._texture,
    "SULD": _Translator._texture,
    "SUATOM": _Translator._texture,
    "LDC": _Translator._constant_load,
    "ULDC": _Translator._constant_load,
    "LDCU": _Translator._constant_load,
    "SYNCS": _Translator._synchronisation,
    "ARRIVES": _Translator._synchronisation,
    "UTCBAR": _Translator._synchronisation,
    "STAS": _Translator._synchronisation,
    "ACQBULK": _Translator._dependency_wait,
    "PREEXIT": _Translator._launch_dependents,
    "BAR": _Translator._barrier,
    "STL": _Translator._local_store,
    "LDL": _Translator._local_load,
}


def _memory(line: RawInstruction, count: int) -> list[str]:
    """The first addresses among the operands.

    Raises:
        UnreadableInputError: there are fewer.
    """
    found = [operand for operand in line.operands if is_memory(operand)]
    if len(found) < count:
        raise UnreadableInputError(
            f"expected {count} addresses at {line.at:#x}, found `{line.text}`: this version of "
            "nvdisasm writes what the audit does not read"
        )
    return found[:count]


def _stack_is_plain(lines: tuple[RawInstruction, ...]) -> bool:
    """Whether the stack is only accessed at fixed places, so that its words are like registers."""
    moved = 0
    for line in lines:
        family = line.opcode.split(".")[0]
        if family in {"STL", "LDL"}:
            (address,) = _memory(line, 1)
            if _STACK.match(address) is None:
                return False
        elif _STACK_POINTER in result_registers(line) and family != "LDC":
            moved += 1
    return moved <= 1
