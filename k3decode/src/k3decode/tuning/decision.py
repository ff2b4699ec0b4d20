"""From measurements to a GPU's table. Pure.

A candidate takes the place of the rule's where it was faster in the mean of all cases of a launch
by a hundredth at least, in one of them by more than its interval, and in none slower by more than
that. Without such a one the table says that the rule was confirmed.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from k3decode.tuning.measurement import measurement_id
from k3decode.tuning.table import TunedRow

__all__ = ["MeasurementError", "decided", "merged"]

# Intervals of many candidates: some lie above one by chance.
_LEAST_GAIN = 1.01

_Record = Mapping[str, Any]


class MeasurementError(ValueError):
    """Measurements do not belong together, or are not what was written."""


def decided(records: Iterable[_Record]) -> list[TunedRow]:
    """A row for each launch that was measured.

    Args:
        records: lines of `k3decode.tune`, of any GPUs.

    Raises:
        MeasurementError: a line was changed, or lines of one launch differ in what could be chosen.
    """
    groups: dict[tuple[str, str, str, int], list[_Record]] = {}
    for record in records:
        if measurement_id(record) != record["id"]:
            raise MeasurementError(
                f"expected a line as it was measured, found {record['id']} changed: measure again"
            )
        # Where the rule's own results were wrong nothing was timed.
        if record["candidates"]:
            place = (record["gpu"], record["op"], record["shape"], record["rows"])
            groups.setdefault(place, []).append(record)
    return [_row(place, group) for place, group in groups.items()]


def merged(old: Iterable[TunedRow], new: Sequence[TunedRow]) -> list[TunedRow]:
    """Rows of which the new ones replace all old ones of their launch, at any number of rows."""
    launches = {(row.gpu, row.op, row.shape) for row in new}
    kept = [row for row in old if (row.gpu, row.op, row.shape) not in launches]
    return [*kept, *new]


def _row(place: tuple[str, str, str, int], group: Sequence[_Record]) -> TunedRow:
    gpu, op, shape, rows = place
    rule = group[0]["rule"]
    if any(
        record["rule"] != rule or record["commit"] != group[0]["commit"] for record in group
    ) or len({record["case"] for record in group}) != len(group):
        raise MeasurementError(
            f"{op} {shape}, {rows} rows: expected each case once, at one commit, found others: "
            "measure all of its cases again"
        )
    choice = max(_better(group), key=lambda one: one[1], default=(rule, 1.0))[0]
    return TunedRow(
        gpu=gpu,
        op=op,
        shape=shape,
        ranks=tuple(sorted({ranks for record in group for ranks in record["ranks"]})),
        rows=rows,
        choice=choice,
        rule=rule,
        latency_us={record["case"]: record["candidates"][choice]["us"] for record in group},
        rule_us={record["case"]: record["candidates"][rule]["us"] for record in group},
        measurements=tuple(record["id"] for record in group),
    )


def _better(group: Sequence[_Record]) -> Iterable[tuple[str, float]]:
    """Candidates that may take the rule's place, each with its gain."""
    for name in group[0]["candidates"]:
        found = [record["candidates"].get(name) for record in group]
        known = [one for one in found if one is not None]
        if len(known) < len(group):
            continue
        gain = math.exp(math.fsum(math.log(one["ratio"]) for one in known) / len(known))
        faster = any(one["ratio_low"] > 1 for one in known)
        slower = any(one["ratio_high"] < 1 for one in known)
        if gain >= _LEAST_GAIN and faster and not slower:
            yield name, gain
