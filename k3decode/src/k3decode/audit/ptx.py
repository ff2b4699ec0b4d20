"""PTX to the audit's terms.

Follows the names of the PTX instruction set; what is not listed makes a value that is no address.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from k3decode.audit.program import (
    Access,
    Assignment,
    Coherence,
    Event,
    Form,
    Guard,
    Immediate,
    Instruction,
    Jump,
    JumpKind,
    Kernel,
    Negated,
    Number,
    Operand,
    ParameterArea,
    ParameterWord,
    Register,
    Route,
    Scalar,
    SharedWindow,
    Symbol,
    ThreadIndex,
)
from k3decode.audit.ptx_text import PtxKernel, Statement, split_ptx

__all__ = ["read_ptx"]

_THREAD_NAMES = ("%tid", "%laneid", "%lanemask")
_SPECIAL = re.compile(
    r"^%(tid|ntid|laneid|warpid|nwarpid|ctaid|nctaid|smid|nsmid|gridid|is_explicit_cluster|"
    r"clusterid|nclusterid|cluster_\w+|lanemask_\w+|clock\w*|pm\d+\w*|envreg\d+|globaltimer\w*|"
    r"total_smem_size|aggr_smem_size|dynamic_smem_size|current_graph_exec|reserved_smem\w*)\b"
)
_HARMLESS_CALLS = frozenset(["vprintf", "__assertfail", "__assert_fail"])
_INTEGER = re.compile(r"^[bsu](8|16|32|64)$")
_WORD_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
_WITHOUT_RESULT = frozenset(
    [
        "st",
        "red",
        "prefetch",
        "prefetchu",
        "fence",
        "membar",
        "nanosleep",
        "pmevent",
        "setmaxnreg",
        "stmatrix",
        "discard",
        "applypriority",
        "multimem",
    ]
)


def read_ptx(text: str) -> list[Kernel]:
    """All kernels of a PTX text.

    Raises:
        UnreadableInputError: it holds no kernel.
    """
    return [_Translator(kernel).kernel() for kernel in split_ptx(text)]


class _Translator:
    """Turns the statements of one kernel into the audit's terms."""

    def __init__(self, source: PtxKernel) -> None:
        self._source = source
        self._offsets = {
            name: parameter.offset
            for name, parameter in zip(source.parameter_names, source.parameters, strict=True)
        }

    def kernel(self) -> Kernel:
        """The whole kernel."""
        source = self._source
        return Kernel(
            name=source.name,
            target=source.target,
            dialect="PTX",
            parameters=source.parameters,
            instructions=tuple(self._instruction(s) for s in source.statements),
            labels=source.labels,
        )

    def _instruction(self, line: Statement) -> Instruction:
        guard = None
        if line.guard is not None:
            guard = Guard(line.guard.removeprefix("!"), line.guard.startswith("!"))
        jump = self._jump(line, guard)
        if jump is not None:
            return Instruction(line.line, line.text, jump=jump)
        return replace(self._effect(line), guard=guard)

    def _jump(self, line: Statement, guard: Guard | None) -> Jump | None:
        conditions = () if guard is None else (guard,)
        family = line.opcode.split(".")[0]
        if family == "bra":
            return Jump(JumpKind.BRANCH, (line.operands[0],), conditions)
        if family == "brx":
            targets = self._source.branch_lists.get(line.operands[1], ())
            kind = JumpKind.BRANCH if targets else JumpKind.UNKNOWN
            return Jump(kind, targets, conditions)
        if family in {"ret", "exit", "trap"}:
            return Jump(JumpKind.EXIT, (), conditions)
        if family == "call" and not _HARMLESS_CALLS & set(line.operands):
            return Jump(JumpKind.UNKNOWN, (), conditions, maybe=True)
        return None

    def _effect(self, line: Statement) -> Instruction:
        """Everything but the guard."""
        parts = line.opcode.split(".")
        plain = Instruction(line.line, line.text)
        event: Event | None = None
        match parts[0]:
            case "ld" | "ldu":
                plain = self._load(line, parts, plain)
            case "multimem" if parts[1].startswith("ld"):
                plain = self._load(line, parts, plain)
            case "wmma" if parts[1] == "load":
                plain = self._load(line, parts, plain)
            case "atom":
                plain = self._atomic(line, parts, plain)
            case "tex" | "tld4" | "suld":
                access = Access((), Route.TEXTURE, Coherence.NONCOHERENT)
                plain = replace(plain, assignments=self._loaded(line), access=access)
            case "cp":
                plain = self._copy(line, parts, plain)
            case "mbarrier" | "tcgen05":
                plain = self._barrier(line, parts, plain)
            case "griddepcontrol":
                waits = "wait" in parts
                event = Event.DEPENDENCY_WAIT if waits else Event.LAUNCH_DEPENDENTS
            case "bar" | "barrier":
                whole = "sync" in parts and len(line.operands) == 1 and "cluster" not in parts
                event = Event.CTA_BARRIER if whole else None
            case "st" if "async" in parts:
                event = Event.MBARRIER_ARRIVE
            case "st" | "red":
                plain = replace(plain, target=self._written(line, parts))
            case family if family not in _WITHOUT_RESULT:
                plain = replace(plain, assignments=self._arithmetic(line, parts))
        return plain if event is None else replace(plain, event=event)

    def _load(self, line: Statement, parts: list[str], plain: Instruction) -> Instruction:
        if "param" in parts:
            return replace(plain, assignments=self._parameters(line, parts))
        loaded = self._loaded(line)
        if any(part.startswith(("shared", "local", "const")) for part in parts):
            return replace(plain, assignments=loaded)
        coherence = Coherence.PLAIN
        if "nc" in parts or parts[0] == "ldu":
            coherence = Coherence.NONCOHERENT
        elif "acquire" in parts:
            coherence = Coherence.ACQUIRE
        elif {"volatile", "relaxed", "mmio"} & set(parts):
            coherence = Coherence.STRONG
        address = self._address(line.operands[1])
        access = Access((address,), Route.LOAD, coherence, generic="global" not in parts)
        return replace(plain, assignments=loaded, access=access)

    def _parameters(self, line: Statement, parts: list[str]) -> tuple[Assignment, ...]:
        name, _, extra = line.operands[1].strip("[]").replace(" ", "").partition("+")
        start = self._offsets.get(name)
        size = _WORD_BYTES.get(parts[-1][1:], 8)
        registers = _registers(line.operands[0])
        if start is None:
            address = self._address(line.operands[1])
            return tuple(Assignment(register, Form.PARAMETER, address) for register in registers)
        first = start + int(extra or "0", 0)
        return tuple(
            Assignment(register, Form.SUM, (ParameterWord(first + size * number),))
            for number, register in enumerate(registers)
        )

    def _atomic(self, line: Statement, parts: list[str], plain: Instruction) -> Instruction:
        loaded = self._loaded(line)
        if any(part.startswith("shared") for part in parts):
            return replace(plain, assignments=loaded)
        generic = "global" not in parts
        address = self._address(line.operands[1])
        if line.operands[0] == "_":
            return replace(plain, assignments=loaded, target=(address,))
        access = Access((address,), Route.ATOMIC, Coherence.STRONG, generic)
        return replace(plain, assignments=loaded, access=access, target=(address,))

    def _written(self, line: Statement, parts: list[str]) -> tuple[tuple[Operand, ...], ...]:
        """Address in global memory that a store or a reduction without result writes."""
        elsewhere = ("shared", "local", "param")
        memory = [operand for operand in line.operands if operand.startswith("[")]
        if not memory or any(part.startswith(elsewhere) for part in parts):
            return ()
        return (self._address(memory[0]),)

    def _copy(self, line: Statement, parts: list[str], plain: Instruction) -> Instruction:
        memory = [operand for operand in line.operands if operand.startswith("[")]
        if "mbarrier" in parts and "arrive" in parts:
            barrier = self._address(memory[0])
            return replace(plain, event=Event.MBARRIER_ARRIVE, barrier=barrier)
        before_source = parts[: parts.index("global")] if "global" in parts else []
        into_shared = any(part.startswith("shared") for part in before_source)
        if parts[1] != "async" or not into_shared or "prefetch" in parts:
            return plain
        if "bulk" not in parts:
            access = Access((self._address(memory[1]),), Route.ASYNC_COPY)
            return replace(plain, access=access)
        route = Route.TENSOR_COPY if "tensor" in parts else Route.BULK_COPY
        # The tensor map comes first, then where in the tensor.
        source = self._address(memory[1].split(",")[0])
        access = Access((source,), route)
        barrier = self._address(memory[2]) if len(memory) > 2 else ()  # noqa: PLR2004
        return replace(plain, access=access, event=Event.MBARRIER_ARRIVE, barrier=barrier)

    def _barrier(self, line: Statement, parts: list[str], plain: Instruction) -> Instruction:
        address = next((o for o in line.operands if o.startswith("[")), None)
        barrier = self._address(address) if address else ()
        if {"try_wait", "test_wait"} & set(parts) and parts[0] == "mbarrier":
            outcome = tuple(Assignment(name, Form.OUTCOME) for name in _registers(line.operands[0]))
            return replace(plain, assignments=outcome, event=Event.MBARRIER_TRY, barrier=barrier)
        arrives = any(part.startswith(("arrive", "complete_tx", "commit")) for part in parts)
        if arrives:
            return replace(plain, event=Event.MBARRIER_ARRIVE, barrier=barrier)
        if parts[:2] == ["tcgen05", "ld"]:
            return replace(plain, assignments=self._loaded(line))
        return plain

    def _loaded(self, line: Statement) -> tuple[Assignment, ...]:
        return tuple(Assignment(name, Form.LOADED) for name in _registers(line.operands[0]))

    def _address(self, text: str) -> tuple[Operand, ...]:
        inner = text.strip("[]").replace(" ", "")
        return tuple(self._operand(part) for part in re.findall(r"[+-]?[^+-]+", inner))

    def _operand(self, text: str) -> Operand:
        text = text.strip().lstrip("+")
        name = text.lstrip("!-")
        if _SPECIAL.match(name):
            return ThreadIndex() if name.startswith(_THREAD_NAMES) else Scalar()
        if name.startswith("%") or name in self._source.registers:
            return Register(name)
        if name in self._offsets:
            return ParameterArea(self._offsets[name])
        try:
            return Immediate(int(text, 0))
        except ValueError:
            pass
        if re.match(r"^(0[fd][0-9a-fA-F]+|[\d.]+(e[+-]?\d+)?|WARP_SZ)$", name):
            return Number()
        return SharedWindow(name) if name in self._source.shared else Symbol(name)

    def _operands(self, texts: Iterable[str]) -> tuple[Operand, ...]:
        """Operands; vectors in pieces, addresses left out."""
        pieces = [
            piece
            for text in texts
            if not text.startswith("[")
            for piece in text.strip("{}()").split(",")
        ]
        return tuple(self._operand(piece) for piece in pieces if piece.strip(" _"))

    def _arithmetic(self, line: Statement, parts: list[str]) -> tuple[Assignment, ...]:
        if not line.operands:
            return ()
        if parts[0] == "call":
            return tuple(Assignment(r, Form.MIX) for r in _registers(line.operands[0]))
        results = _registers(line.operands[0])
        sources = self._operands(line.operands[1:])
        if parts[0] == "elect":
            sources = (ThreadIndex(),)
        first, *others = results or [""]
        made = [] if not first else [self._result(first, parts, sources)]
        if parts[0] == "mov" and others:
            # An unpacked value: each piece begins with what the whole begins with.
            made += [self._result(name, parts, sources) for name in others]
        else:
            made += [Assignment(name, Form.MIX, sources) for name in others]
        return tuple(made)

    def _result(self, name: str, parts: list[str], sources: tuple[Operand, ...]) -> Assignment:
        """The first result of arithmetic."""
        family = parts[0] if "pred" not in parts or parts[0] == "mov" else "predicate"
        integer = _INTEGER.match(parts[-1]) is not None
        made = Assignment(name, Form.MIX, sources)
        match family:
            case "mov" if len(sources) == 1:
                made = Assignment(name, Form.SUM, sources)
            case "cvta" | "shfl":
                made = Assignment(name, Form.SUM, sources[:1])
            case "cvt" if integer and _INTEGER.match(parts[-2]):
                made = Assignment(name, Form.SUM, sources[:1])
            case "add" | "addc" if integer:
                made = Assignment(name, Form.SUM, sources)
            case "sub" | "subc" if integer:
                made = Assignment(name, Form.SUM, (sources[0], *map(_minus, sources[1:])))
            case "mul" | "mad" | "madc" if integer:
                more = (Number(),) if "hi" in parts else ()
                made = Assignment(name, Form.SUM, sources[2:], (*sources[:2], *more))
            case "shl" if isinstance(sources[1], Immediate):
                factor = Immediate(1 << (sources[1].value % 64))
                made = Assignment(name, Form.SUM, (), (sources[0], factor))
            case "selp" | "slct":
                made = Assignment(name, Form.CHOICE, sources[:2], sources[2:])
            case "min" | "max" if integer:
                made = Assignment(name, Form.CHOICE, sources)
            case "and" | "or" | "xor" | "not" | "lop3" | "prmt" | "bfi" | "mov" | "mapa":
                # Masks, byte shuffles and packing keep an address where it is.
                made = Assignment(name, Form.SUM, (*sources, Number()))
        return made


def _minus(operand: Operand) -> Operand:
    if isinstance(operand, Register):
        return Negated(operand)
    return Immediate(-operand.value) if isinstance(operand, Immediate) else operand


def _registers(text: str) -> list[str]:
    """Names in a result: one, a vector, or a value and a predicate."""
    return [name for name in re.findall(r"[%\w$]+", text) if name != "_"]
