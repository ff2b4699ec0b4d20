"""Counts of steps kept on the device, so that a replayed graph counts itself.

One element for each path, kind of step and number of rows. A step adds one to its element by a
kernel that is captured with it.
"""

from collections import Counter
from dataclasses import dataclass
from typing import get_args

import torch

from k3decode.decode.coverage import PathName, coverage_text
from k3decode.host.inputs import MAX_ROWS
from k3decode.vllm_plugin.gpu.step_path import StepClass

__all__ = ["PathCounts", "StepCounts", "coverage_json", "decode_coverage"]

_PATHS: tuple[PathName, ...] = get_args(PathName)
_KINDS: tuple[StepClass, ...] = get_args(StepClass)


@dataclass(frozen=True)
class PathCounts:
    """Steps of one path, kind and number of rows."""

    path: PathName
    kind: StepClass
    rows: int
    """Rows of the step with its padding; 0 for more than the kernels serve."""
    count: int


class StepCounts:
    """Cumulative counts of one engine process."""

    def __init__(self, device: torch.device) -> None:
        """Take the memory, zeroed."""
        self._counts = torch.zeros(
            len(_PATHS), len(_KINDS), MAX_ROWS + 1, dtype=torch.int64, device=device
        )

    def add(self, path: PathName, kind: StepClass, rows: int) -> None:
        """Count one step; inside a capture this is one more kernel of the graph."""
        place = rows if rows <= MAX_ROWS else 0
        self._counts[_PATHS.index(path), _KINDS.index(kind), place].add_(1)

    def reset(self) -> None:
        """Begin anew."""
        # The engine may have made this memory where only such a block may change it.
        with torch.inference_mode():
            self._counts.zero_()

    def read(self) -> tuple[PathCounts, ...]:
        """All counts that are not zero; waits for the device."""
        found = self._counts.cpu()
        return tuple(
            PathCounts(_PATHS[path], _KINDS[kind], rows, int(found[path, kind, rows]))
            for path, kind, rows in found.nonzero().tolist()
        )


def decode_coverage(counts: tuple[PathCounts, ...]) -> float | None:
    """Share of pure decode steps that the candidate served; None without any."""
    decode = [one for one in counts if one.kind == "decode"]
    total = sum(one.count for one in decode)
    served = sum(one.count for one in decode if one.path == "candidate")
    return served / total if total else None


def coverage_json(
    counts: tuple[PathCounts, ...], reasons: dict[tuple[StepClass, int], str], backend: PathName
) -> str:
    """The counts as JSON text with schema `k3decode.coverage/1`, counted on the device.

    Args:
        counts: as read.
        reasons: why stock serves a kind of step of so many rows, by kind and rows. Steps that only
            measure memory are left out.
        backend: path asked for.
    """
    rows: Counter[tuple[str, PathName, str | None]] = Counter()
    for one in counts:
        if one.kind == "dummy":
            continue
        asked = one.path == "stock" and backend == "candidate"
        reason = reasons.get((one.kind, one.rows)) if asked else None
        rows[one.kind, one.path, reason] += one.count
    return coverage_text(rows, "device", backend)
