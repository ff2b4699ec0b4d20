"""Which path served each step: counts kept on the host, one per step and never per layer."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from k3decode.decode.facts import StepKind

__all__ = ["CountSource", "Coverage", "PathName", "coverage_text"]

PathName = Literal["stock", "candidate"]
CountSource = Literal["host", "device"]


class Coverage:
    """Cumulative step counts of one engine process."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, PathName, str | None]] = Counter()

    def record(self, kind: StepKind, path: PathName, reason: str | None) -> None:
        """Count one served step; a reason is given when the asked-for path stepped aside."""
        self._counts[kind, path, reason] += 1

    def to_json(self, configured_backend: PathName) -> str:
        """The counts as a JSON text with schema `k3decode.coverage/1`; rows in a fixed order."""
        return coverage_text(self._counts, "host", configured_backend)


def coverage_text(
    counts: Mapping[tuple[str, PathName, str | None], int],
    source: CountSource,
    configured_backend: PathName,
) -> str:
    """Counts as a JSON text with schema `k3decode.coverage/1`; rows in a fixed order.

    Args:
        counts: steps by kind, path and the reason why the asked-for path stepped aside.
        source: where they were counted.
        configured_backend: path asked for.
    """
    rows = sorted(counts.items(), key=lambda item: (*item[0][:2], item[0][2] or ""))
    return json.dumps(
        {
            "schema": "k3decode.coverage/1",
            "source": source,
            "configured_backend": configured_backend,
            "counts": [
                {"kind": kind, "path": path, "reason": reason, "count": count}
                for (kind, path, reason), count in rows
            ],
        },
        allow_nan=False,
    )
