"""Which path served each step: counts kept on the host, one per step and never per layer."""

import json
from collections import Counter
from typing import Literal

from k3decode.decode.facts import StepKind

__all__ = ["Coverage", "PathName"]

PathName = Literal["stock", "candidate"]


class Coverage:
    """Cumulative step counts of one engine process."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[StepKind, PathName, str | None]] = Counter()

    def record(self, kind: StepKind, path: PathName, reason: str | None) -> None:
        """Count one served step; a reason is given when the asked-for path stepped aside."""
        self._counts[kind, path, reason] += 1

    def to_json(self, configured_backend: PathName) -> str:
        """The counts as a JSON text with schema `k3decode.coverage/1`; rows in a fixed order."""
        rows = sorted(self._counts.items(), key=lambda item: (*item[0][:2], item[0][2] or ""))
        return json.dumps(
            {
                "schema": "k3decode.coverage/1",
                "source": "host",
                "configured_backend": configured_backend,
                "counts": [
                    {"kind": kind, "path": path, "reason": reason, "count": count}
                    for (kind, path, reason), count in rows
                ],
            },
            allow_nan=False,
        )
