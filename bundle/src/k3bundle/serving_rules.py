"""Rules for the serving cells and gates of a plan: what is asked can be done and judged."""

from collections.abc import Iterator

from k3bundle.gates import Gates
from k3bundle.plan import Plan, ServingCell
from k3bundle.traffic import TraceReplay

__all__ = ["serving_problems"]


def serving_problems(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield (path in the plan, what was expected and found) for each broken rule."""
    for index, cell in enumerate(plan.cells):
        if isinstance(cell, ServingCell):
            for problem in _cell_problems(cell):
                yield f"$.cells[{index}]", problem
    if plan.gates.claims_speed:
        for name in _open_gates(plan.gates):
            yield f"$.gates.{name}", "Expected a limit in a plan that claims speed, found none."


def _cell_problems(cell: ServingCell) -> Iterator[str]:
    if cell.expects_fallback and cell.speed.kind == "superiority":
        yield "Expected no superiority where the candidate's path steps aside, found it declared."
    if cell.shared_prefix_tokens >= cell.prompt_tokens:
        yield (
            f"Expected a shared prefix shorter than the {cell.prompt_tokens} prompt tokens, found "
            f"{cell.shared_prefix_tokens}."
        )
    if not isinstance(cell.traffic, TraceReplay):
        return
    entries = cell.traffic.entries
    if len(entries) != cell.request_count:
        yield f"Expected {cell.request_count} entries in the trace, found {len(entries)}."
    times = [entry.at_ns for entry in entries]
    if times != sorted(times):
        yield "Expected the entries of the trace in order of time, found one that goes back."


def _open_gates(gates: Gates) -> Iterator[str]:
    """Gates of the load client that are open although its speed is to be believed."""
    if gates.maximum_client_lag_ms is None:
        yield "maximum_client_lag_ms"
    if gates.maximum_client_cpu_share is None:
        yield "maximum_client_cpu_share"
    if gates.maximum_concurrency_shortfall is None:
        yield "maximum_concurrency_shortfall"
    if gates.require_telemetry and gates.maximum_telemetry_gap_ms is None:
        yield "maximum_telemetry_gap_ms"
    if gates.require_telemetry and gates.maximum_throttled_share is None:
        yield "maximum_throttled_share"
