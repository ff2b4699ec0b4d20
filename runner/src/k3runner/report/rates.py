"""Throughput against interactivity, from the verdict. Pure.

Each point is one serving cell of one arm: what a stream gets on the one axis, what an accelerator
gives on the other. More requests in flight move a point to the left and up, so a path is better
where its line lies above and to the right.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from k3bundle.plan import Plan, ServingCell
from k3bundle.verdict import BootMeasurement, CellSkipped, ServingEvidence, Verdict

__all__ = ["RateChart", "RateLine", "RatePoint", "rate_charts"]


@dataclass(frozen=True)
class RatePoint:
    """One cell of one arm; both values are middle ones over its boots."""

    cell_id: str
    concurrency: int
    user_tokens_per_s: float
    throughput_tokens_per_s: float


@dataclass(frozen=True)
class RateLine:
    """The points of one arm, by requests in flight."""

    arm: str
    points: tuple[RatePoint, ...]


@dataclass(frozen=True)
class RateChart:
    """Cells of one deployment with equal prompts and answers."""

    deployment: str
    load: str
    """For example `1024 tokens in, 512 out`."""
    per_gpu: bool
    """Whether throughput is that of one accelerator; else that of the whole deployment."""
    lines: tuple[RateLine, ...]


def rate_charts(plan: Plan, verdict: Verdict) -> tuple[RateChart, ...]:
    """Return a chart for each deployment and load; none where no cell has both numbers."""
    results = {
        cell.cell_id: cell.evidence for cell in verdict.cells if not isinstance(cell, CellSkipped)
    }
    groups: dict[tuple[str, str], list[tuple[ServingCell, ServingEvidence]]] = {}
    for cell in plan.cells:
        if not isinstance(cell, ServingCell) or cell.traffic.kind == "trace":
            continue
        evidence = results.get(cell.cell_id)
        if isinstance(evidence, ServingEvidence):
            load = f"{cell.prompt_tokens} tokens in, {cell.output_tokens} out"
            if cell.endpoint == "chat":
                load += ", chat"
            groups.setdefault((cell.deployment, load), []).append((cell, evidence))
    charts = (_chart(*key, cells) for key, cells in groups.items())
    return tuple(chart for chart in charts if chart.lines)


def _chart(
    deployment: str, load: str, cells: Sequence[tuple[ServingCell, ServingEvidence]]
) -> RateChart:
    boots = [boot for _, evidence in cells for boot in evidence.boots]
    per_gpu = bool(boots) and all(boot.tokens_per_s_per_gpu is not None for boot in boots)
    lines = []
    for arm in ("baseline", "candidate"):
        points = tuple(_points(arm, cells, per_gpu=per_gpu))
        if points:
            lines.append(RateLine(arm, points))
    return RateChart(deployment, load, per_gpu, tuple(lines))


def _points(
    arm: str, cells: Sequence[tuple[ServingCell, ServingEvidence]], *, per_gpu: bool
) -> Iterator[RatePoint]:
    for cell, evidence in sorted(cells, key=lambda one: one[0].concurrency):
        boots = [boot for boot in evidence.boots if boot.arm == arm and boot.role == "compare"]
        user = _middle([boot.tokens_per_s_per_user for boot in boots])
        throughput = _middle([_throughput(boot, per_gpu=per_gpu) for boot in boots])
        if user is not None and throughput is not None:
            yield RatePoint(cell.cell_id, cell.concurrency, user, throughput)


def _throughput(boot: BootMeasurement, *, per_gpu: bool) -> float | None:
    return boot.tokens_per_s_per_gpu if per_gpu else boot.output_tokens_per_s


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
