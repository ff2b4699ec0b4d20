"""What may be in a register: the addresses it can be built of, and what influenced it.

A value is a set of sums. A sum has roots (a pointer parameter, what a load returned, ...) and
a number that was added. Sums of one value are alternatives: two after a select, one after an
addition. Parts that were multiplied or mixed are no address any more; they are kept apart, so that
a pointer that was hidden that way still counts.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

__all__ = [
    "Origin",
    "Root",
    "RootKind",
    "Sum",
    "Value",
    "add",
    "choose",
    "join",
    "mix",
    "negate",
]

_MAX_SUMS = 12
_MAX_CONSTANTS = 4


class RootKind(Enum):
    """What an address can begin with."""

    PARAMETER = "parameter"
    """Key: ordinal and byte offset inside the parameter, in steps of 8."""
    AREA = "parameters' own address"
    LOADED = "loaded"
    """Key: index of the load, or the name of a constant of the module."""
    SYMBOL = "symbol"
    SHARED = "shared memory"
    OUTCOME = "outcome"
    """Key: index of the instruction whose success a predicate says."""


_ADDRESSES = frozenset({RootKind.PARAMETER, RootKind.AREA, RootKind.SYMBOL, RootKind.LOADED})
"""What may be an address in global memory."""


@dataclass(frozen=True, slots=True)
class Root:
    """One thing an address can begin with."""

    kind: RootKind
    key: tuple[int, int] | int | str = 0
    negated: bool = False


class Origin(Enum):
    """What a value depends on, for what only tells threads apart."""

    THREAD = "thread"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Sum:
    """Roots that are added, plus a constant; None: plus something unknown that is no address."""

    roots: frozenset[Root] = frozenset()
    constant: int | None = None
    merged: bool = False
    """It stands for sums of any of its roots: there were too many to tell apart."""
    opaque: bool = False
    """No root is known, and something that may be an address was mixed into it."""


@dataclass(frozen=True, slots=True)
class Value:
    """One register at one point."""

    sums: frozenset[Sum] = frozenset({Sum()})
    scaled: frozenset[Root] = frozenset()
    """Roots that went in through a product or a mix."""
    tokens: frozenset[int] = frozenset()
    """Indices of the loads and waits whose results influenced it."""
    origins: frozenset[Origin] = frozenset()

    @property
    def constant(self) -> int | None:
        """The number it must be, if it can be only one."""
        if len(self.sums) != 1:
            return None
        (only,) = self.sums
        return None if only.roots else only.constant

    @property
    def roots(self) -> frozenset[Root]:
        """All roots of all alternatives."""
        return frozenset(root for one in self.sums for root in one.roots)


def add(addends: Iterable[Value], factors: Sequence[Value] = ()) -> Value:
    """The sum of addends and of the product of the factors."""
    addends = list(addends)
    unknown = [factor for factor in factors if factor.constant is None]
    product = math.prod(factor.constant or 0 for factor in factors if factor.constant is not None)
    start: int | None = product if factors else 0
    if factors and product == 0:
        unknown = []
    elif len(unknown) == 1 and (product == 1 or _is_window(unknown[0])):
        addends.append(unknown.pop())
        start = 0
    elif unknown:
        start = None
    sums = [Sum(frozenset(), start)]
    for value in addends:
        sums = [_plus(one, other) for one in sums for other in value.sums]
        if len(sums) > _MAX_SUMS:
            sums = [_merge_all(sums)]
    parts = [*addends, *unknown]
    return Value(
        _limited(sums),
        _pointers(unknown).union(*(v.scaled for v in parts)),
        frozenset().union(*(v.tokens for v in parts)),
        frozenset().union(*(v.origins for v in parts)),
    )


def negate(value: Value) -> Value:
    """Minus a value."""
    sums = frozenset(
        Sum(
            frozenset(Root(r.kind, r.key, not r.negated) for r in one.roots),
            None if one.constant is None else -one.constant,
            one.merged,
            one.opaque,
        )
        for one in value.sums
    )
    return Value(sums, value.scaled, value.tokens, value.origins)


def mix(values: Iterable[Value]) -> Value:
    """Something that depends on all values and is no address."""
    values = list(values)
    opaque = any(
        one.opaque or any(root.kind in _ADDRESSES for root in one.roots)
        for value in values
        for one in value.sums
    )
    return Value(
        frozenset({Sum(opaque=opaque)}),
        _pointers(values).union(*(v.scaled for v in values)),
        frozenset().union(*(v.tokens for v in values)),
        frozenset().union(*(v.origins for v in values)),
    )


def join(one: Value, other: Value) -> Value:
    """Either value, by the path that was taken; paths need not depend on the thread alone."""
    if one == other:
        return one
    origins = one.origins | other.origins
    return Value(
        _limited([*one.sums, *other.sums]),
        one.scaled | other.scaled,
        one.tokens | other.tokens,
        origins if one.sums == other.sums else origins | {Origin.OTHER},
    )


def choose(alternatives: Sequence[Value], conditions: Sequence[Value]) -> Value:
    """One of the alternatives, by the conditions."""
    everything = [*alternatives, *conditions]
    return Value(
        _limited(one for value in alternatives for one in value.sums),
        frozenset().union(*(v.scaled for v in everything)),
        frozenset().union(*(v.tokens for v in everything)),
        frozenset().union(*(v.origins for v in everything)),
    )


def _plus(one: Sum, other: Sum) -> Sum:
    known = one.constant is not None and other.constant is not None
    constant = (one.constant or 0) + (other.constant or 0) if known else None
    merged, roots = one.merged or other.merged, one.roots | other.roots
    opaque = (one.opaque or other.opaque) and (merged or not roots)
    return Sum(roots, constant, merged, opaque)


def _limited(sums: Iterable[Sum]) -> frozenset[Sum]:
    """A few constants for each set of roots, more of them become unknown.

    Only grows from one pass to the next: what a merged sum covers stays covered.
    """
    kept: dict[tuple[frozenset[Root], bool], set[int | None]] = {}
    merged: list[Sum] = []
    for one in sums:
        if one.merged:
            merged.append(one)
        else:
            kept.setdefault((one.roots, one.opaque), set()).add(one.constant)
    whole = _merge_all(merged)
    result = {whole} if merged else set()
    for (roots, opaque), constants in kept.items():
        if roots and roots <= whole.roots:
            continue
        unknown = None in constants or len(constants) > _MAX_CONSTANTS
        distinct: set[int | None] = {None} if unknown else constants
        result.update(Sum(roots, constant, opaque=opaque) for constant in distinct)
    if len(result) > _MAX_SUMS:
        return frozenset({_merge_all(result)})
    return frozenset(result)


def _merge_all(sums: Iterable[Sum]) -> Sum:
    sums = list(sums)
    roots = frozenset(root for one in sums for root in one.roots)
    return Sum(roots, None, True, any(one.opaque for one in sums))


def _is_window(value: Value) -> bool:
    """Whether it says only where shared memory begins, which is so in any unit."""
    return bool(value.roots) and all(root.kind is RootKind.SHARED for root in value.roots)


def _pointers(values: Iterable[Value]) -> frozenset[Root]:
    return frozenset(
        root for value in values for root in value.roots if root.kind is RootKind.PARAMETER
    )
