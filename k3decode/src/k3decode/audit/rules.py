"""The findings: which reads of global memory can come too early, or past the coherent path."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from k3decode.audit.dataflow import Facts, trace
from k3decode.audit.declaration import KernelFacts, Memory
from k3decode.audit.flow import Flow, build_flow
from k3decode.audit.paths import Paths, Polled, Waits, reach
from k3decode.audit.program import Access, Coherence, Event, Instruction, Kernel
from k3decode.audit.value import Root, RootKind, Sum
from k3decode.audit.waits import find_waits

__all__ = ["Audit", "Finding", "Load", "audit_kernel"]

BEFORE_WAIT = "before-wait"
NON_COHERENT = "non-coherent"
MAILBOX_UNPOLLED = "mailbox-before-poll"
UNKNOWN_PROVENANCE = "unknown-provenance"
UNDECIDED = "undecided"

_UNWRITTEN = frozenset({Memory.STATIC, Memory.STATIC_TABLE})


@dataclass(frozen=True)
class Load:
    """One read of global memory and what is known of it."""

    index: int
    """Of the instruction."""
    instruction: Instruction
    access: Access
    parameters: tuple[str, ...]
    """Parameters that its address can begin with."""
    memories: frozenset[Memory]
    unknown: str | None
    """Why its address cannot be followed to a parameter."""
    early: bool
    """Whether it can execute before a wait."""
    unpolled: bool
    """Whether it can execute before a wait that is not `griddepcontrol.wait`."""
    polls: bool
    """Whether it is a wait itself."""
    path: tuple[int, ...]
    """Places of the blocks of a path to it without a wait."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or that cannot be told."""

    code: str
    at: int
    """Byte offset in SASS, line in PTX."""
    text: str
    """The instruction."""
    parameters: tuple[str, ...]
    why: str
    path: tuple[int, ...] = ()


@dataclass(frozen=True)
class Audit:
    """What was found in one kernel."""

    kernel: Kernel
    facts: KernelFacts
    loads: tuple[Load, ...]
    waits: Waits
    starts_early: bool
    """Whether it lets dependents start before it has waited itself."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class _Provenance:
    parameters: frozenset[tuple[int, int]]
    memories: frozenset[Memory]
    unknown: str | None


def audit_kernel(kernel: Kernel, facts: KernelFacts) -> Audit:
    """Judge one kernel by what was declared about it."""
    flow = build_flow(kernel)
    values = trace(flow)
    entry = not facts.dependent_launch
    source = _Sources(kernel, values, facts)
    declared = source.polled()
    waits = find_waits(flow, values, declared, dependency=True, at_entry=entry)
    polled = find_waits(flow, values, declared, dependency=False, at_entry=False)
    early, unpolled = reach(flow, waits), reach(flow, polled)
    polls = waits.polls | polled.polls
    loads = tuple(_loads(flow, values, source, (early, unpolled), polls))
    findings = [
        Finding(UNDECIDED, 0, "", (), f"the kernel's paths cannot be followed: {problem}")
        for problem in flow.problems
    ]
    findings += [finding for load in loads for finding in _judge(load)]
    return Audit(kernel, facts, loads, waits, _starts_early(flow, facts), tuple(findings))


def _starts_early(flow: Flow, facts: KernelFacts) -> bool:
    """Whether dependents may start before this kernel's own predecessors have ended."""
    if not facts.dependent_launch:
        return False
    instructions = flow.kernel.instructions
    whole = [(b, i) for b in range(len(flow.blocks)) for i, _ in flow.instructions(b)]
    ended = {
        place
        for place in whole
        if instructions[place[1]].event is Event.DEPENDENCY_WAIT
        and instructions[place[1]].guard is None
    }
    before = reach(flow, Waits(places=ended)).reached
    return any(instructions[index].event is Event.LAUNCH_DEPENDENTS for _, index in before)


def _loads(
    flow: Flow, values: Facts, source: "_Sources", paths: tuple[Paths, Paths], polls: set[int]
) -> Iterator[Load]:
    """Reads of global memory, one for each instruction, in order."""
    early, unpolled = paths
    places: dict[int, list[tuple[int, int]]] = {}
    for block, index in sorted(values.addresses):
        places.setdefault(index, []).append((block, index))
    for index, copies in sorted(places.items()):
        instruction = flow.kernel.instructions[index]
        access = instruction.access
        found = [source.of(copy) for copy in copies]
        known = [one for one in found if one is not None]
        if access is None or not known:
            # It reads shared memory, or the parameters themselves.
            continue
        first = next((copy for copy in copies if copy in early.reached), None)
        memories = frozenset[Memory]().union(*(one.memories for one in known))
        yield Load(
            index=index,
            instruction=instruction,
            access=access,
            parameters=tuple(
                source.name(place) for place in sorted({p for one in known for p in one.parameters})
            ),
            memories=memories,
            unknown=next((one.unknown for one in known if one.unknown), None),
            early=first is not None,
            unpolled=any(copy in unpolled.reached for copy in copies),
            polls=index in polls,
            path=() if first is None else _path(flow, early, first[0]),
        )


def _path(flow: Flow, paths: Paths, block: int) -> tuple[int, ...]:
    instructions = flow.kernel.instructions
    return tuple(instructions[flow.blocks[one].first].at for one in paths.to(block))


class _Sources:
    """What the addresses of one kernel begin with."""

    def __init__(self, kernel: Kernel, values: Facts, facts: KernelFacts) -> None:
        self._kernel = kernel
        self._facts = facts
        self._values = values
        self._addresses = {index: value for (_, index), value in values.addresses.items()}
        self._pointers = frozenset(
            root
            for value in values.addresses.values()
            for one in value.sums
            if len(found := self._strong(one)) == 1
            for root in found
        )

    def name(self, place: tuple[int, int]) -> str:
        """A parameter, with a byte offset where it is not its first word."""
        ordinal, offset = place
        return self._facts.name_of(ordinal) + (f"+{offset}" if offset else "")

    def polled(self) -> Polled:
        """Loads of memory that nobody writes, or that other GPUs write."""
        still: set[int] = set()
        moving: set[int] = set()
        mailboxes: set[int] = set()
        for place in self._values.addresses:
            found, index = self.of(place), place[1]
            if found is not None:
                fixed = found.unknown is None and found.memories <= _UNWRITTEN
                (still if fixed else moving).add(index)
                mailboxes.update({index} if Memory.MAILBOX in found.memories else ())
        return Polled(frozenset(still - moving), frozenset(mailboxes))

    def of(self, place: tuple[int, int]) -> _Provenance | None:
        """Provenance of the address of an access; None: it is not in global memory."""
        value, wide = self._values.addresses[place], self._values.wide[place]
        access = self._kernel.instructions[place[1]].access
        parameters: set[tuple[int, int]] = set()
        memories: set[Memory] = set()
        unknown: str | None = None
        kinds = {root.kind for root in value.roots}
        elsewhere = access is not None and access.generic and not value.scaled & self._pointers
        if kinds and kinds <= {RootKind.SHARED} and elsewhere:
            return None
        for one in value.sums:
            strong = self._strong(one)
            known = [root for root in strong if root.kind is RootKind.PARAMETER]
            hidden = [root for root in value.scaled & self._pointers if root not in strong]
            for root in (*known, *hidden):
                parameters.add(_place(root))
                memories.add(self._facts.memory_of(*_place(root)))
            for reason, memory in self._others(one, strong, wide):
                unknown = unknown or reason
                memories.update({memory} if memory else ())
            # A number without any root is what a register held before it got an address; whoever
            # reads there faults, so the other alternatives, or pointers mixed into it, decide.
            only_numbers = not one.roots and not hidden
            if only_numbers and len(value.sums) == 1:
                unknown = unknown or "no parameter is a part of its address"
            elif one.opaque and not hidden:
                unknown = unknown or "an address was mixed into what it may begin with"
        if not memories:
            unknown = unknown or "nothing is known of its parts"
        return _Provenance(frozenset(parameters), frozenset(memories), unknown)

    def _strong(self, one: Sum) -> list[Root]:
        """Roots that an address can begin with; a number that was loaded is only an offset then."""
        found = []
        for root in one.roots:
            if root.kind is RootKind.PARAMETER:
                if self._facts.memory_of(*_place(root)) is not Memory.SCALAR:
                    found.append(Root(root.kind, root.key))
            elif root.kind is RootKind.AREA:
                found += self._tensor_maps(one)
            elif root.kind is not RootKind.LOADED:
                found.append(root)
        return list(dict.fromkeys(found))

    def _tensor_maps(self, one: Sum) -> list[Root]:
        """Parameters that lie at an address among the parameters: one, or any."""
        if one.constant is not None:
            parameter = self._kernel.parameter_at(one.constant)
            return [] if parameter is None else [_whole(parameter.ordinal)]
        return [_whole(parameter.ordinal) for parameter in self._kernel.parameters]

    def _others(
        self, one: Sum, strong: list[Root], wide: frozenset[Root]
    ) -> Iterator[tuple[str | None, Memory | None]]:
        """What an address begins with beside parameters.

        A number that was loaded is an offset where it is added to a pointer, unless it may be the
        distance to other memory.
        """
        for root in one.roots:
            if root.kind is RootKind.SYMBOL:
                yield f"it begins with a variable of the module ({root.key})", None
            elif root.kind is RootKind.LOADED:
                far = Root(root.kind, root.key) in wide or _has_difference(one)
                if far or one.merged or not strong:
                    yield self._loaded(root)
            elif root.kind is RootKind.PARAMETER and not strong and root.key:
                yield "it begins with a number that was declared scalar", None

    def _loaded(self, root: Root) -> tuple[str | None, Memory | None]:
        """A pointer that was loaded: from a declared table, or from anywhere."""
        if not isinstance(root.key, int):
            return f"it begins with a constant of the module ({root.key})", None
        index = root.key
        at = self._kernel.instructions[index].at
        table = self._addresses.get(index)
        kinds: set[Memory] = set()
        if table is not None:
            places = [_place(r) for one in table.sums for r in self._strong(one) if _is_word(r)]
            kinds = {self._facts.memory_of(*place) for place in places}
        if kinds == {Memory.STATIC_TABLE}:
            return None, Memory.STATIC
        if kinds and kinds <= {Memory.STATIC_TABLE, Memory.ACTIVATION_TABLE}:
            return None, Memory.ACTIVATION
        return f"it begins with what the instruction at {at:#x} loaded", None


def _is_word(root: Root) -> bool:
    return root.kind is RootKind.PARAMETER


def _whole(ordinal: int) -> Root:
    return Root(RootKind.PARAMETER, (ordinal, 0))


def _place(root: Root) -> tuple[int, int]:
    if not isinstance(root.key, tuple):
        raise TypeError(f"expected a parameter, found {root}")
    return root.key


def _has_difference(one: Sum) -> bool:
    """Whether a pointer was subtracted, so that another part may be the address."""
    return any(root.negated for root in one.roots)


def _judge(load: Load) -> Iterable[Finding]:
    """Everything that is wrong with one read."""
    instruction = load.instruction
    unsafe = load.memories - _UNWRITTEN
    what = ", ".join(load.parameters) or "memory of unknown origin"

    def finding(code: str, why: str, path: tuple[int, ...] = ()) -> Finding:
        return Finding(code, instruction.at, instruction.text, load.parameters, why, path)

    if load.unknown is not None and not load.polls:
        yield finding(UNKNOWN_PROVENANCE, f"its address cannot be followed: {load.unknown}")
    if load.access.coherence is Coherence.NONCOHERENT and (unsafe or load.unknown):
        yield finding(
            NON_COHERENT,
            f"it reads {what} through the non-coherent path, which may hold old bytes",
        )
    if load.polls:
        return
    if load.early and unsafe - {Memory.SETTLED}:
        yield finding(
            BEFORE_WAIT, f"it can read {what} before the kernel has waited for it", load.path
        )
    elif load.unpolled and Memory.MAILBOX in load.memories:
        yield finding(
            MAILBOX_UNPOLLED,
            f"it reads the mailbox {what} without a poll, and no other wait says that it is full",
        )
