"""Where the time of a step goes: when each kernel of a replay starts and ends."""

import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from k3decode.decode.executor import CapturedStep

__all__ = ["KernelSpan", "named_spans", "profile_replays", "shares"]


@dataclass(frozen=True)
class KernelSpan:
    """One kernel of a replay."""

    launch: str
    """Launch that it belongs to."""
    kernel: int
    """Which of the launch's kernels, from 0."""
    start_us: float
    end_us: float


def profile_replays(captured: CapturedStep, replays: int) -> list[list[KernelSpan]]:
    """Replay under the profiler, which slows kernels down a little; spans of each replay.

    Raises:
        RuntimeError: the profiler did not report every kernel.
    """
    captured.graph.replay()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(replays):
            captured.graph.replay()
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    # Stand-ins of peers bring their words beside the step, by copies that are torch's own.
    kernels = [
        event
        for event in events
        if event.get("cat") == "kernel" and "at::native" not in event.get("name", "")
    ]
    names = [(one.name, part) for one in captured.launches for part in range(one.kernels)]
    if len(kernels) != replays * len(names):
        raise RuntimeError(
            f"expected {replays} times {len(names)} kernels in the profile, found {len(kernels)}"
        )
    return named_spans(kernels, names)


def named_spans(
    events: Sequence[dict[str, Any]], names: Sequence[tuple[str, int]]
) -> list[list[KernelSpan]]:
    """Give the profiler's kernels, in the order of their starts, the names of the launches."""
    ordered = sorted(events, key=lambda event: float(event["ts"]))
    spans = [
        KernelSpan(*names[i % len(names)], float(e["ts"]), float(e["ts"]) + float(e["dur"]))
        for i, e in enumerate(ordered)
    ]
    return [spans[i : i + len(names)] for i in range(0, len(spans), len(names))]


def shares(replays: Sequence[Sequence[KernelSpan]]) -> dict[str, tuple[float, float, float]]:
    """By launch and kernel, medians in microseconds.

    From start to end; from the end of all before to the end; how long before that it started.
    The second is what the kernel adds to the step: these add up to the step's time.
    """
    found: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for spans in replays:
        ended = spans[0].start_us
        for span in spans:
            end = max(span.end_us, ended)
            early = max(ended - span.start_us, 0.0)
            key = f"{span.launch}.{span.kernel}"
            found[key].append((span.end_us - span.start_us, end - ended, early))
            ended = end
    return {
        name: (
            statistics.median(v[0] for v in values),
            statistics.median(v[1] for v in values),
            statistics.median(v[2] for v in values),
        )
        for name, values in found.items()
    }
