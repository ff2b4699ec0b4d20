"""Where values come from: one pass over the flow until nothing changes.

The state maps each register to a `Value`. A register that was never assigned on a path does not
count where paths meet.
"""

import re
from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from k3decode.audit.dominance import postorder
from k3decode.audit.flow import Flow
from k3decode.audit.guarded import GuardedValues
from k3decode.audit.program import (
    Assignment,
    Coherence,
    Form,
    Guard,
    Immediate,
    Instruction,
    Kernel,
    ModuleConstant,
    Negated,
    Operand,
    Parameter,
    ParameterArea,
    ParameterWord,
    Register,
    Scalar,
    SharedWindow,
    Symbol,
    ThreadIndex,
)
from k3decode.audit.value import Origin, Root, RootKind, Sum, Value, add, choose, join, mix, negate

__all__ = ["Facts", "may_poll", "trace"]

_POINTER_BYTES = 8
_WIDE_TYPE = re.compile(r"\.[bsu]64\b")
_State = dict[str, Value]
_View = Mapping[str, Value]
_UNASSIGNED = Value()
_OTHER = Value(origins=frozenset({Origin.OTHER}))


@dataclass
class Facts:
    """Values at the places that the rules ask about, by block and instruction index."""

    addresses: dict[tuple[int, int], Value] = field(default_factory=dict)
    """Of what an access reads."""
    wide: dict[tuple[int, int], frozenset[Root]] = field(default_factory=dict)
    """What was loaded with 64 bits and is a part of the address of an access."""
    targets: dict[tuple[int, int], Value] = field(default_factory=dict)
    """Of what is written."""
    barriers: dict[tuple[int, int], Value] = field(default_factory=dict)
    """Addresses of mbarriers."""
    conditions: dict[int, Value] = field(default_factory=dict)
    """Block -> everything that its jump tests."""


def trace(flow: Flow) -> Facts:
    """Follow values through the whole flow."""
    tracer = _Tracer(flow.kernel)
    order = list(reversed(postorder(flow.graph)))
    rank = {block: number for number, block in enumerate(order)}
    entry = {0: _Point({}, GuardedValues())}
    pending = {0}
    while pending:
        block = min(pending, key=rank.__getitem__)
        pending.remove(block)
        point = tracer.run(flow, block, entry[block].copy())
        for edge in flow.blocks[block].edges:
            before = entry.get(edge.target)
            after = point.copy() if before is None else before.merged(point)
            if before is None or after != before:
                entry[edge.target] = after
                pending.add(edge.target)
    facts = Facts()
    for block in order:
        tracer.run(flow, block, entry[block].copy(), facts)
    return facts


@dataclass
class _Point:
    """What is known at one place."""

    state: _State
    guarded: GuardedValues

    def copy(self) -> "_Point":
        return _Point(dict(self.state), self.guarded.copy())

    def merged(self, other: "_Point") -> "_Point":
        """Either of two paths; a register that one of them never assigned is the other's."""
        state = dict(self.state)
        for register, value in other.state.items():
            known = state.get(register)
            state[register] = value if known is None else join(known, value)
        return _Point(state, self.guarded.merged(other.guarded))


class _Tracer:
    """Runs blocks of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def run(self, flow: Flow, block: int, point: _Point, facts: Facts | None = None) -> _Point:
        """What is known after a block; notes facts where they are wanted."""
        state, guarded = point.state, point.guarded
        for index, instruction in flow.instructions(block):
            guard = instruction.guard
            view: _View = state
            if guard is not None:
                view = ChainMap(dict(guarded.under(guard, block)), state)
            if facts is not None:
                self._note(facts, (block, index), instruction, view)
            made = [
                (assignment, self._assigned(assignment, instruction, index, view))
                for assignment in instruction.assignments
            ]
            if self._always(flow, (block, index), guarded):
                guard = None
            for assignment, value in made:
                before = state.get(assignment.register)
                state[assignment.register] = self._guarded(guard, before, value, view)
            guarded.assign(made, index, guard, block)
        if facts is not None:
            guards = flow.conditions(block)
            if len(guards) == 1:
                facts.conditions[block] = self._register(guards[0].register, state)
            elif guards:
                facts.conditions[block] = mix(self._register(g.register, state) for g in guards)
        return point

    def _always(self, flow: Flow, at: tuple[int, int], guarded: GuardedValues) -> bool:
        """Whether a guarded instruction writes its uniform register in any case.

        Of the threads that meet an election one wins, and its value is the warp's.
        """
        block, index = at
        instruction = self._kernel.instructions[index]
        guard = instruction.guard
        if guard is None or guard.negated or "R2UR" not in instruction.text:
            return False
        place = guarded.computed_at(guard.register)
        if place is None or not flow.blocks[block].first <= place < index:
            return False
        return "ELECT" in self._kernel.instructions[place].text

    def _note(
        self, facts: Facts, place: tuple[int, int], instruction: Instruction, state: _View
    ) -> None:
        if instruction.access is not None:
            facts.addresses[place] = self._address(instruction.access.address, state)
            facts.wide[place] = self._wide(instruction.access.address, state)
        if instruction.target:
            facts.targets[place] = self._address(instruction.target, state)
        if instruction.barrier:
            facts.barriers[place] = self._sum(instruction.barrier, state)

    def _address(self, halves: Iterable[tuple[Operand, ...]], state: _View) -> Value:
        """An address of two registers: both halves begin with the same pointer."""
        values = [self._sum(half, state) for half in halves]
        if not values:
            return _UNASSIGNED
        rooted = [value for value in values if value.roots]
        return choose(rooted or values[:1], ())

    def _wide(self, halves: Iterable[tuple[Operand, ...]], state: _View) -> frozenset[Root]:
        """Loaded roots of all of an address; an index of 32 bits is only in its lower half."""
        values = [self._sum(half, state) for half in halves]
        loaded = [
            {Root(r.kind, r.key) for r in value.roots if r.kind is RootKind.LOADED}
            for value in values
        ]
        if len(loaded) > 1:
            return frozenset(set.intersection(*loaded))
        if self._kernel.dialect == "SASS":
            return frozenset()
        return frozenset(root for one in loaded for root in one if self._loads_64_bits(root))

    def _loads_64_bits(self, root: Root) -> bool:
        """Whether an instruction of PTX loads numbers of 64 bits."""
        text = self._kernel.instructions[root.key].text if isinstance(root.key, int) else ""
        return _WIDE_TYPE.search(text.split(" [")[0]) is not None

    def _guarded(self, guard: Guard | None, old: Value | None, new: Value, state: _View) -> Value:
        if guard is None:
            return new
        condition = self._register(guard.register, state)
        return choose([new] if old is None else [old, new], [condition])

    def _assigned(
        self, assignment: Assignment, instruction: Instruction, index: int, state: _View
    ) -> Value:
        sources = [self._value(source, state) for source in assignment.sources]
        factors = [self._value(factor, state) for factor in assignment.factors]
        match assignment.form:
            case Form.SUM:
                value = add(sources, factors)
            case Form.CHOICE:
                value = choose(sources, factors)
            case Form.MIX:
                value = mix(sources)
            case Form.FLAG:
                value = _flag(sources[0])
            case Form.PARAMETER:
                value = self._parameter_at(add(sources))
            case Form.LOADED:
                value = _result(RootKind.LOADED, index, is_poll=may_poll(instruction))
            case Form.OUTCOME:
                value = _result(RootKind.OUTCOME, index, is_poll=True)
        return value

    def _sum(self, sources: Iterable[Operand], state: _View) -> Value:
        return add([self._value(source, state) for source in sources])

    def _register(self, name: str, state: _View) -> Value:
        return state.get(name, _UNASSIGNED)

    def _value(self, operand: Operand, state: _View) -> Value:
        if isinstance(operand, Register):
            return self._register(operand.name, state)
        if isinstance(operand, Negated):
            return negate(self._register(operand.operand.name, state))
        if isinstance(operand, ParameterWord):
            return self._parameter(operand.offset)
        return _fixed(operand)

    def _parameter(self, offset: int | None) -> Value:
        """What the parameters hold at a byte, or anywhere."""
        if offset is None:
            every = [self._slots(p, 0, p.size) for p in self._kernel.parameters]
            return choose(every, [_OTHER])
        parameter = self._kernel.parameter_at(offset)
        if parameter is None:
            return _OTHER
        inside = offset - parameter.offset
        return self._slots(parameter, inside, inside + 1)

    def _slots(self, parameter: Parameter, first: int, end: int) -> Value:
        """The addresses that bytes of a parameter may be of."""
        if parameter.size < _POINTER_BYTES:
            return _OTHER
        slots = range(first // _POINTER_BYTES, -(-end // _POINTER_BYTES))
        roots = [
            Root(RootKind.PARAMETER, (parameter.ordinal, slot * _POINTER_BYTES)) for slot in slots
        ]
        return choose([_rooted(root, 0) for root in roots], ())

    def _parameter_at(self, address: Value) -> Value:
        """The parameter at an address; any where it is not known."""
        offsets = [one.constant if one.roots else None for one in address.sums]
        return choose([self._parameter(offset) for offset in offsets], [address])


def _fixed(operand: Operand) -> Value:
    """What does not depend on the state."""
    value = _UNASSIGNED
    match operand:
        case Immediate(number):
            value = Value(frozenset({Sum(frozenset(), number)}))
        case ParameterArea(offset):
            value = _rooted(Root(RootKind.AREA), offset)
        case Symbol(name):
            value = _rooted(Root(RootKind.SYMBOL, name), 0)
        case ModuleConstant(name):
            value = _rooted(Root(RootKind.LOADED, name), 0)
        case SharedWindow(name):
            value = _rooted(Root(RootKind.SHARED, name), 0)
        case ThreadIndex():
            value = Value(origins=frozenset({Origin.THREAD}))
        case Scalar():
            value = _OTHER
    return value


def _rooted(root: Root, constant: int) -> Value:
    return Value(frozenset({Sum(frozenset({root}), constant)}), origins=frozenset({Origin.OTHER}))


def may_poll(instruction: Instruction) -> bool:
    """Whether it reads memory anew each time, so that a loop around it can wait."""
    access = instruction.access
    return access is not None and access.coherence in {Coherence.STRONG, Coherence.ACQUIRE}


def _flag(value: Value) -> Value:
    """Whether a value is true: the success of a wait stays what it is."""
    kinds = {root.kind for root in value.roots}
    return value if kinds == {RootKind.OUTCOME} else mix([value])


def _result(kind: RootKind, index: int, *, is_poll: bool) -> Value:
    return Value(
        frozenset({Sum(frozenset({Root(kind, index)}), 0)}),
        tokens=frozenset({index} if is_poll else ()),
        origins=frozenset({Origin.OTHER}),
    )
