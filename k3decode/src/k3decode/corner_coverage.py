"""`python -m k3decode.corner_coverage PAGE`: which corner each op's cases really reach.

Names of cases prove nothing. Here every smoke and corner case is prepared on the CPU for a launch
that only looks at what it is given: a case counts for a corner when its arguments have it. PAGE is
written; with `--check` it is compared instead. An op that ought to have a corner and has no case
for it makes the exit code 1.
"""

import argparse
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from k3decode.op import Case, Op
from k3decode.ops.experts.packing import PackedExperts, unpack_down, unpack_gate_up
from k3decode.registry import OPS

__all__ = ["Corner", "corners_of", "coverage_page", "main", "missing_corners"]

_CPU = torch.device("cpu")
_E4M3_NAN = 0x7F
_E4M3_MANTISSA = 0x07
_E8M0_LARGEST = 254
_GATE_SATURATED = 1e3
_OLD_PAGE_WORDS = "run python -m k3decode.corner_coverage"


class Corner(Enum):
    """What a served step may bring; the value is the column's title."""

    ONE_ROW = "one row"
    PADDED_ROWS = "rows behind the last"
    STRIDED = "strided rows"
    NULL_SLOT = "slot 0 or less"
    WIDE_PAGES = "wide pages"
    UNUSED_NAN = "NaN in unused memory"
    WILD_TABLE = "wild table entries"
    NEGATIVE_ZERO = "-0.0"
    DENORMAL = "denormals"
    INFINITY = "infinities"
    EXTREME_SCALES = "scales 0 and 254"
    ONE_EXPERT = "all to one expert"
    MANY_EXPERTS = "all to different experts"
    EMPTY_CONTEXT = "empty context"
    ONE_PAGE = "one page"
    GATE_AT_BOUND = "gate at its bound"


_EVERY_OP = frozenset(op.name for op in OPS)

EXPECTED: Mapping[Corner, tuple[frozenset[str], str]] = {
    Corner.ONE_ROW: (_EVERY_OP, ""),
    Corner.PADDED_ROWS: (
        _EVERY_OP - {"mla_decode"},
        "`mla_decode` writes partials, and in all its cases places of none must stay as they were",
    ),
    Corner.STRIDED: (_EVERY_OP, ""),
    Corner.NULL_SLOT: (
        frozenset({"experts", "kda", "mla_prepare"}),
        "the other ops have no slots; of `experts` it is an id below 0",
    ),
    Corner.WIDE_PAGES: (
        frozenset({"kda", "mla_decode", "mla_prepare"}),
        "the other ops have no pages",
    ),
    Corner.UNUSED_NAN: (_EVERY_OP, ""),
    Corner.WILD_TABLE: (frozenset({"mla_decode"}), "the other ops have no block table"),
    Corner.NEGATIVE_ZERO: (_EVERY_OP, ""),
    Corner.DENORMAL: (_EVERY_OP, ""),
    Corner.INFINITY: (_EVERY_OP, ""),
    Corner.EXTREME_SCALES: (frozenset({"experts"}), "the other ops have no E8M0 scales"),
    Corner.ONE_EXPERT: (frozenset({"experts"}), "the other ops have no experts"),
    Corner.MANY_EXPERTS: (frozenset({"experts"}), "the other ops have no experts"),
    Corner.EMPTY_CONTEXT: (
        frozenset({"mla_combine", "mla_decode"}),
        "the other ops do not know the context",
    ),
    Corner.ONE_PAGE: (frozenset({"mla_decode"}), "the other ops do not read the cache by pages"),
    Corner.GATE_AT_BOUND: (frozenset({"kda"}), "the other ops have no decay gate"),
}
"""Ops that must have a case for a corner, and why the others need none."""


@dataclass(frozen=True)
class _Given:
    """What a launch got."""

    op: str
    values: Mapping[str, object]
    """By parameter, fields of a dataclass under `parameter.field`."""
    packed: PackedExperts | None
    """Weights of experts, where the launch got some."""

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {n: v for n, v in self.values.items() if isinstance(v, Tensor) and v.numel()}

    @property
    def floats(self) -> list[Tensor]:
        return [tensor for tensor in self.tensors.values() if tensor.dtype.is_floating_point]

    @property
    def rows(self) -> int:
        first = next(iter(self.tensors.values()))
        return int(self.tensors.get("out", first).shape[0])

    def ending(self, *names: str) -> list[Tensor]:
        """Tensors of some parameters or fields."""
        return [t for name, t in self.tensors.items() if name.split(".")[-1] in names]


def _wider_than_dense(tensor: Tensor) -> bool:
    wide = tensor.ndim > 1 and tensor.shape[0] > 1 and tensor.stride(0) > tensor[0].numel()
    return bool(wide)


def _goes_on(tensor: Tensor) -> bool:
    """Whether its allocation has room for a row behind the last one."""
    if tensor.ndim < 2:  # noqa: PLR2004
        return False
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    used = tensor.storage_offset() + extent + tensor[0].numel()
    return bool(tensor.untyped_storage().nbytes() >= used * tensor.element_size())


def _whole(tensor: Tensor) -> Tensor:
    """All of the allocation that a view lies in."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.as_strided((count,), (1,), 0)


def _has_nan(tensor: Tensor) -> bool:
    if tensor.dtype.is_floating_point:
        return bool(tensor.isnan().any())
    return tensor.dtype == torch.uint8 and bool((tensor == _E4M3_NAN).any())


def _has_denormal(tensor: Tensor) -> bool:
    if tensor.dtype.is_floating_point:
        size = tensor.abs()
        return bool(((size > 0) & (size < torch.finfo(tensor.dtype).smallest_normal)).any())
    small = tensor & _E4M3_NAN
    return bool(((small > 0) & (small <= _E4M3_MANTISSA)).any())


def _distinct(experts: Tensor) -> bool:
    return bool(experts.shape[0] > 1 and experts.unique().numel() == experts.numel())


def _shared(experts: Tensor) -> bool:
    return experts.shape[0] > 1 and any(
        bool((experts == expert).any(dim=1).all()) for expert in experts[0].tolist() if expert >= 0
    )


def _slots(given: _Given) -> list[Tensor]:
    return given.ending("experts") if given.op == "experts" else given.ending("slots")


def _pages(given: _Given) -> list[Tensor]:
    return given.ending("pages", "conv_state", "memory")


def _null(given: _Given) -> bool:
    least = 0 if given.op == "kda" else -1
    return any(bool((slots <= least).any()) for slots in _slots(given))


def _wild(given: _Given) -> bool:
    tables, pages = given.ending("table"), given.ending("pages")
    return any(
        bool((table < 0).any() and (table >= cache.shape[0]).any())
        for table, cache in zip(tables, pages, strict=False)
    )


def _one_page(given: _Given) -> bool:
    lengths, pages = given.ending("lengths"), given.ending("pages")
    return any(
        bool((length == cache.shape[1]).any())
        for length, cache in zip(lengths, pages, strict=False)
    )


def _empty(given: _Given) -> bool:
    nowhere = any(bool((one == 0).any()) for one in given.ending("lengths"))
    return nowhere or any(bool((one == -torch.inf).all()) for one in given.ending("lse"))


def _e4m3(given: _Given) -> list[Tensor]:
    """Bytes that are numbers: those of MLA's ops."""
    found = given.tensors.values() if given.op.startswith("mla_") else ()
    return [tensor for tensor in found if tensor.dtype == torch.uint8]


def _extreme_scales(given: _Given) -> bool:
    packed = given.packed
    if packed is None:
        return False
    seen = [
        unpack(packed, expert)[1]
        for unpack in (unpack_gate_up, unpack_down)
        for expert in range(packed.gate_up.shape[0])
    ]
    return {0, _E8M0_LARGEST} <= {int(s) for scales in seen for s in scales.unique()}


def _negative_zero(given: _Given) -> bool:
    return any(bool(((t == 0) & t.signbit()).any()) for t in given.floats)


_SEEN: Mapping[Corner, Callable[[_Given], bool]] = {
    Corner.ONE_ROW: lambda given: given.rows == 1,
    Corner.PADDED_ROWS: lambda given: any(map(_goes_on, given.floats)),
    Corner.STRIDED: lambda given: any(map(_wider_than_dense, given.floats + _e4m3(given))),
    Corner.NULL_SLOT: _null,
    Corner.WIDE_PAGES: lambda given: any(map(_wider_than_dense, _pages(given))),
    Corner.UNUSED_NAN: lambda given: any(
        _has_nan(_whole(t)) for t in (*given.floats, *_e4m3(given))
    ),
    Corner.WILD_TABLE: _wild,
    Corner.NEGATIVE_ZERO: _negative_zero,
    Corner.DENORMAL: lambda given: any(map(_has_denormal, given.floats + _e4m3(given))),
    Corner.INFINITY: lambda given: any(bool(t.isinf().any()) for t in given.floats),
    Corner.EXTREME_SCALES: _extreme_scales,
    Corner.ONE_EXPERT: lambda given: given.op == "experts" and any(map(_shared, _slots(given))),
    Corner.MANY_EXPERTS: lambda given: given.op == "experts" and any(map(_distinct, _slots(given))),
    Corner.EMPTY_CONTEXT: _empty,
    Corner.ONE_PAGE: _one_page,
    Corner.GATE_AT_BOUND: lambda given: any(
        bool((t > _GATE_SATURATED).any()) for t in given.ending("dt_bias")
    ),
}


def _flat(name: str, value: object) -> Iterator[tuple[str, object]]:
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _flat(f"{name}.{field.name}", getattr(value, field.name))
    else:
        yield name, value


def corners_of(op: Op, case: Case) -> frozenset[Corner]:
    """Corners that a case's launch gets to see."""
    seen: list[_Given] = []
    signature = inspect.signature(op.launch)

    @wraps(op.launch)
    def look(*positional: Any, **named: Any) -> None:
        arguments = signature.bind(*positional, **named).arguments
        flat = dict(pair for name, value in arguments.items() for pair in _flat(name, value))
        packed = arguments.get("packed")
        experts = packed if isinstance(packed, PackedExperts) else None
        seen.append(_Given(op.name, flat, experts))

    case.prepare(look, _CPU).run()
    return frozenset(c for c, is_seen in _SEEN.items() if any(map(is_seen, seen)))


def _counted(ops: Sequence[Op]) -> dict[str, dict[Corner, int]]:
    """How many smoke and corner cases of each op reach each corner; each op is said on stderr."""
    counts = {}
    for place, op in enumerate(ops, 1):
        cases = [case for case in op.cases if case.group in {"smoke", "corner"}]
        # Minutes in all on a busy machine, and silence would look like a process that hangs.
        where = f"{place} of {len(ops)}, {op.name}"
        print(f"{where}: preparing {len(cases)} cases", file=sys.stderr, flush=True)
        found = [corners_of(op, case) for case in cases]
        counts[op.name] = {corner: sum(corner in one for one in found) for corner in Corner}
    return counts


def missing_corners(counts: Mapping[str, Mapping[Corner, int]]) -> list[str]:
    """Sentences on corners that an op ought to have and has not."""
    return [
        f"{op}: expected a case with {corner.value}, found none: add one to ops/{op}/cases.py"
        for corner, (ops, _) in EXPECTED.items()
        for op in sorted(ops)
        if op in counts and not counts[op][corner]
    ]


def coverage_page(counts: Mapping[str, Mapping[Corner, int]]) -> str:
    """The table, and why cells may be empty."""
    lines = [
        "# Corners and who reaches them",
        "",
        "Made by `python -m k3decode.corner_coverage`; do not edit. Smoke and corner cases of an",
        "op whose launch is given what the row names, found by looking at the arguments and not at",
        "the names of the cases. A dash: the op cannot have it, for the reason below.",
        "",
        f"| Corner | {' | '.join(f'`{op}`' for op in counts)} |",
        "|---" * (1 + len(counts)) + "|",
    ]
    for corner, (ops, _) in EXPECTED.items():
        cells = [
            "yes" if found[corner] else "NO" if op in ops else "-" for op, found in counts.items()
        ]
        lines.append(f"| {corner.value} | {' | '.join(cells)} |")
    reasons = [f"- {corner.value}: {why}." for corner, (_, why) in EXPECTED.items() if why]
    return "\n".join([*lines, "", *reasons, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m k3decode.corner_coverage", description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args(arguments)
    counts = _counted(OPS)
    problems = missing_corners(counts)
    page = coverage_page(counts)
    if not options.check:
        options.page.write_text(page)
    elif not options.page.is_file() or options.page.read_text() != page:
        problems.append(f"{options.page} is not what the cases say: {_OLD_PAGE_WORDS}")
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
