"""Where values come from: one pass over the flow until nothing changes.

The state maps each register to a `Value`. A register that was never assigned on a path does not
count where paths meet.
"""

from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from k3decode.audit.dominance import postorder
from k3decode.audit.flow import Flow
from k3decode.audit.program import (
    Assignment,
    Coherence,
    Form,
    Guard,
    Immediate,
    Instruction,
    Kernel,
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
_State = dict[str, Value]
_View = Mapping[str, Value]
_UNASSIGNED = Value()
_OTHER = Value(origins=frozenset({Origin.OTHER}))


@dataclass
class Facts:
    """Values at the places that the rules ask about, by block and instruction index."""

    addresses: dict[tuple[int, int], Value] = field(default_factory=dict)
    """Of what an access reads."""
    barriers: dict[tuple[int, int], Value] = field(default_factory=dict)
    """Addresses of mbarriers."""
    conditions: dict[int, Value] = field(default_factory=dict)
    """Block -> everything that its jump tests."""


def trace(flow: Flow) -> Facts:
    """Follow values through the whole flow."""
    tracer = _Tracer(flow.kernel)
    order = list(reversed(postorder(flow.graph)))
    rank = {block: number for number, block in enumerate(order)}
    entry: dict[int, _State] = {0: {}}
    pending = {0}
    while pending:
        block = min(pending, key=rank.__getitem__)
        pending.remove(block)
        state = tracer.run(flow, block, dict(entry[block]))
        for edge in flow.blocks[block].edges:
            before = entry.get(edge.target)
            after = dict(state) if before is None else _merge(before, state)
            if before is None or after != before:
                entry[edge.target] = after
                pending.add(edge.target)
    facts = Facts()
    for block in order:
        tracer.run(flow, block, dict(entry[block]), facts)
    return facts


def _merge(one: _State, other: _State) -> _State:
    merged = dict(one)
    for register, value in other.items():
        known = merged.get(register)
        merged[register] = value if known is None else join(known, value)
    return merged


class _Tracer:
    """Runs blocks of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def run(self, flow: Flow, block: int, state: _State, facts: Facts | None = None) -> _State:
        """State after a block; notes facts where they are wanted."""
        # What a register is where a guard holds that it was assigned under.
        under: dict[Guard, _State] = {}
        for index, instruction in flow.instructions(block):
            guard = instruction.guard
            view: _View = state
            if guard is not None and guard in under:
                view = ChainMap(under[guard], state)
            if facts is not None:
                self._note(facts, (block, index), instruction, view)
            made = [
                (assignment.register, self._assigned(assignment, instruction, index, view))
                for assignment in instruction.assignments
            ]
            for register, value in made:
                state[register] = self._guarded(guard, state.get(register), value, state)
                _forget(under, register)
                if guard is not None and register != guard.register:
                    under.setdefault(guard, {})[register] = value
        if facts is not None:
            guards = flow.conditions(block)
            if len(guards) == 1:
                facts.conditions[block] = self._register(guards[0].register, state)
            elif guards:
                facts.conditions[block] = mix(self._register(g.register, state) for g in guards)
        return state

    def _note(
        self, facts: Facts, place: tuple[int, int], instruction: Instruction, state: _View
    ) -> None:
        if instruction.access is not None:
            facts.addresses[place] = self._address(instruction.access.address, state)
        if instruction.barrier:
            facts.barriers[place] = self._sum(instruction.barrier, (), state)

    def _address(self, halves: Iterable[tuple[Operand, ...]], state: _View) -> Value:
        """An address of two registers: both halves begin with the same pointer."""
        values = [self._sum(half, (), state) for half in halves]
        if not values:
            return _UNASSIGNED
        rooted = [value for value in values if value.roots]
        return choose(rooted or values[:1], ())

    def _guarded(self, guard: Guard | None, old: Value | None, new: Value, state: _View) -> Value:
        if guard is None:
            return new
        condition = self._register(guard.register, state)
        return choose([new] if old is None else [old, new], [condition])

    def _assigned(
        self, assignment: Assignment, instruction: Instruction, index: int, state: _View
    ) -> Value:
        match assignment.form:
            case Form.SUM:
                return self._sum(assignment.sources, assignment.factors, state)
            case Form.CHOICE:
                return choose(
                    [self._value(source, state) for source in assignment.sources],
                    [self._value(condition, state) for condition in assignment.factors],
                )
            case Form.MIX:
                return mix(self._value(source, state) for source in assignment.sources)
            case Form.PARAMETER:
                return self._parameter_at(self._sum(assignment.sources, (), state))
            case Form.LOADED:
                return _result(RootKind.LOADED, index, is_poll=may_poll(instruction))
            case Form.OUTCOME:
                return _result(RootKind.OUTCOME, index, is_poll=True)

    def _sum(self, sources: Iterable[Operand], factors: Iterable[Operand], state: _View) -> Value:
        return add(
            [self._value(source, state) for source in sources],
            [self._value(factor, state) for factor in factors],
        )

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


def _forget(under: dict[Guard, _State], register: str) -> None:
    """A register has a new value: as a guard, or under other guards."""
    for guard in [one for one in under if one.register == register]:
        del under[guard]
    for known in under.values():
        known.pop(register, None)


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


def _result(kind: RootKind, index: int, *, is_poll: bool) -> Value:
    return Value(
        frozenset({Sum(frozenset({Root(kind, index)}), 0)}),
        tokens=frozenset({index} if is_poll else ()),
        origins=frozenset({Origin.OTHER}),
    )
