"""A whole plausible run, with the variations that tests ask for."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from k3bundle import layout
from k3bundle.bundle import RunRecords
from k3bundle.canonical import canonical_json, plan_sha256, sha256_hex
from k3bundle.coverage import CoverageSnapshot, EngineCounters
from k3bundle.earlier_record import EarlierRuns
from k3bundle.environment import NodeFacts
from k3bundle.graph_record import GraphEvent
from k3bundle.plan import BootSlot, CellPlan, Plan, ServingCell, TierName
from k3bundle.record import Record
from k3bundle.request import RequestRecord
from k3bundle.run import (
    AttemptRecord,
    BootEvent,
    BootReady,
    BootStarted,
    BootStopped,
    CellAborted,
    CellEvent,
    CellFinished,
    RunIdentity,
)
from k3bundle.schedule import cells_in
from k3bundle.subject import ChangeUnderTest
from k3bundle_testing.example_client import example_client
from k3bundle_testing.example_engine import (
    ServedSteps,
    arm_of,
    example_counters,
    example_coverage,
    example_graphs,
)
from k3bundle_testing.example_machine import (
    example_isolation,
    example_separation,
    example_telemetry,
)
from k3bundle_testing.example_plan import (
    EXAMPLE_CHANGE,
    example_environment,
    example_plan,
    example_scrub,
    example_subject,
)
from k3bundle_testing.example_requests import RequestContext, requests_of_cell

__all__ = ["Variation", "files_of", "good_records", "good_run_files"]

_LONG_ANSWER: Final = 8
"""Tokens up to which a plan's answers take less time than two samples are apart."""


@dataclass(frozen=True)
class Variation:
    """How a run departs from the plain good one. Every field has a harmless default."""

    change: ChangeUnderTest = EXAMPLE_CHANGE
    tier: TierName = "smoke"
    nonce: str = sha256_hex(b"example nonce")
    nonce_source: Literal["registry", "local"] = "local"
    run_id: str = "0123456789abcdef" * 2
    pairing: Literal["paired", "single"] = "paired"
    skipped_only: bool = False
    """The plan holds nothing but a skipped cell."""
    plan: Plan | None = None
    """The plan that was run; None: the example's, made from the three fields above. How coverage
    is recorded follows from its arms: graphs and kernels where they name kernels, else counts."""
    environment: NodeFacts | None = None
    """The machine; None: the example's."""
    candidate_path: str | None = None
    """Path that served the candidate's decode steps; None: the one that its arm expects. `stock`
    makes the run measure stock."""
    coverage_available: bool = True
    candidate_speed: float = 1.0
    """Speed of candidate boots relative to baseline boots, but where the path steps aside."""
    failed_serving_requests: int = 0
    """Failed requests of the serving cell in each candidate boot."""
    structured_output_broken: bool = False
    """The candidate's first structured output is cut short."""
    greedy_differs: bool = False
    """The candidate's first greedy answer differs at position 4, and stays different there."""
    greedy_gap_nats: float = 0.5
    """Gap between the best two tokens at position 4."""
    missing_slots: tuple[int, ...] = ()
    """Slots whose boot crashed before its first cell and was not repeated."""
    resumed: bool = False
    """The last slot crashed in the first attempt and was repeated in a second one."""


def good_records(**changes: Any) -> RunRecords:
    """Records of a complete plausible run.

    Args:
        **changes: Fields of `Variation`.

    Returns:
        The records; the same for the same changes.
    """
    variation = Variation(**changes)
    plan = variation.plan or example_plan(
        tier=variation.tier, pairing=variation.pairing, skipped_only=variation.skipped_only
    )
    environment = variation.environment or example_environment(variation.tier)
    served = [_serve(plan, slot, variation, attempt=0) for slot in plan.boots]
    if variation.resumed:
        last = plan.boots[-1]
        served[-1] = _crash(plan, last, attempt=0)
        served.append(_serve(plan, last, variation, attempt=1))
    boots = tuple(event for one in served for event in one.boots)
    cells = tuple(event for one in served for event in one.cells)
    return RunRecords(
        plan=plan,
        run=RunIdentity(
            run_id=variation.run_id,
            nonce=variation.nonce,
            nonce_source=variation.nonce_source,
            plan_sha256=plan_sha256(plan),
            created_at_utc="2026-01-02T03:00:00Z",
        ),
        subject=example_subject(variation.change).model_copy(update={"subject": plan.subject}),
        environment=environment,
        attempts=tuple(_attempt(number) for number in range(2 if variation.resumed else 1)),
        boots=boots,
        cells=cells,
        requests=tuple(record for one in served for record in one.requests),
        coverage=tuple(snapshot for one in served for snapshot in one.coverage),
        counters=tuple(snapshot for one in served for snapshot in one.counters),
        scrub=example_scrub(),
        telemetry=example_telemetry(
            boots,
            cells,
            gpus=len(environment.gpus) if plan.gates.require_telemetry else 0,
            interval_ms=500 if _longest_answer(plan) <= _LONG_ANSWER else 1500,
        ),
        graphs=tuple(event for one in served for event in one.graphs),
        separation=example_separation(boots),
        isolation=example_isolation(variation.change),
        earlier=EarlierRuns(why_unknown=None, runs=(), left_out=0, other_plans=0),
    )


def good_run_files(**changes: Any) -> dict[str, bytes]:
    """Files of a complete plausible run folder, before sealing.

    Args:
        **changes: Fields of `Variation`.

    Returns:
        Path inside the run folder -> content; the same bytes for the same changes.
    """
    return files_of(good_records(**changes))


def files_of(records: RunRecords) -> dict[str, bytes]:
    """Write records the way a run folder holds them."""
    audit, earlier = records.isolation, records.earlier
    return {
        **({} if audit is None else {layout.ISOLATION: canonical_json(audit)}),
        **({} if earlier is None else {layout.EARLIER: canonical_json(earlier)}),
        layout.ATTEMPTS: _lines(records.attempts),
        layout.BOOTS: _lines(records.boots),
        layout.CELLS: _lines(records.cells),
        layout.COUNTERS: _lines(records.counters),
        layout.COVERAGE: _lines(records.coverage),
        layout.ENVIRONMENT: canonical_json(records.environment),
        layout.PLAN: canonical_json(records.plan),
        layout.REQUESTS: _lines(records.requests),
        layout.RUN: canonical_json(records.run),
        layout.SCRUB_REPORT: canonical_json(records.scrub),
        layout.SEPARATION: _lines(records.separation),
        layout.SUBJECT: canonical_json(records.subject),
        layout.TELEMETRY: _lines(records.telemetry),
        **({layout.GRAPHS: _lines(records.graphs)} if records.graphs else {}),
        **({layout.KERNELS: _lines(records.kernels)} if records.kernels else {}),
        layout.LOG_PREFIX + "boot-0.0.log": b"INFO engine ready\n",
    }


def _lines(records: Iterable[Record]) -> bytes:
    return b"".join(canonical_json(record) + b"\n" for record in records)


@dataclass(frozen=True)
class _Served:
    """Everything recorded about one boot."""

    boots: tuple[BootEvent, ...]
    cells: tuple[CellEvent, ...]
    requests: tuple[RequestRecord, ...] = ()
    coverage: tuple[CoverageSnapshot, ...] = ()
    counters: tuple[EngineCounters, ...] = ()
    graphs: tuple[GraphEvent, ...] = ()


def _attempt(number: int) -> AttemptRecord:
    return AttemptRecord(
        attempt=number,
        started_at_utc=f"2026-01-02T03:{30 * number:02d}:00Z",
        resumed=number > 0,
        torn_lines_dropped=0,
    )


def _clock(slot: int, attempt: int, second: int) -> str:
    return f"2026-01-02T03:{30 * attempt + slot:02d}:{second:02d}Z"


def _started(slot: BootSlot, attempt: int) -> BootStarted:
    return BootStarted(
        boot_id=f"boot-{slot.slot}.{attempt}",
        slot=slot.slot,
        arm=slot.arm,
        attempt=attempt,
        at_utc=_clock(slot.slot, attempt, 1),
        command=("<python>", "-m", "vllm.entrypoints.openai.api_server", "--model", "<model>"),
    )


def _crash(plan: Plan, slot: BootSlot, *, attempt: int) -> _Served:
    started = _started(slot, attempt)
    stopped = BootStopped(
        boot_id=started.boot_id, how="crashed", detail="RuntimeError: the engine core died."
    )
    first = cells_in(plan, slot)[0]
    aborted = CellAborted(
        boot_id=started.boot_id,
        slot=slot.slot,
        cell_id=first.cell_id,
        at_utc=_clock(slot.slot, attempt, 2),
        cause="engine_ended",
        reason="The engine ended while the cell ran.",
    )
    return _Served(boots=(started, stopped), cells=(aborted,))


def _serve(plan: Plan, slot: BootSlot, variation: Variation, *, attempt: int) -> _Served:
    if slot.slot in variation.missing_slots:
        return _crash(plan, slot, attempt=attempt)
    started = _started(slot, attempt)
    steps = ServedSteps(plan, slot, started.boot_id, variation.candidate_path)
    cells: list[CellEvent] = []
    requests: list[RequestRecord] = []
    counters: list[EngineCounters] = []
    for number, cell in enumerate(cells_in(plan, slot)):
        context = _context(plan, slot, cell, variation, started.boot_id)
        records = tuple(requests_of_cell(cell, context))
        requests += records
        cells.append(_finished(cell, started, number, records))
        counters += example_counters(plan, cell, started.boot_id, number, records)
    graphs = any(arm.kernel_patterns for arm in plan.arms)
    ready = BootReady(
        boot_id=started.boot_id,
        ready_after_ms=1500.0,
        engine_version="0.32.0",
        effective_config={
            **dict.fromkeys(plan.allowed_config_differences, arm_of(plan, slot).decode_backend),
            "model_config.dtype": "torch.float32",
            "scheduler_config.max_num_seqs": "8",
        },
    )
    stopped = BootStopped(boot_id=started.boot_id, how="clean", detail="Stopped by the runner.")
    return _Served(
        boots=(started, ready, stopped),
        cells=tuple(cells),
        requests=tuple(requests),
        coverage=example_coverage(steps, available=variation.coverage_available and not graphs),
        counters=tuple(counters),
        graphs=example_graphs(steps) if graphs else (),
    )


def _context(
    plan: Plan, slot: BootSlot, cell: CellPlan, variation: Variation, boot_id: str
) -> RequestContext:
    candidate = slot.arm == "candidate"
    aside = isinstance(cell, ServingCell) and cell.expects_fallback
    speed = variation.candidate_speed if candidate and not aside else 1.0
    return RequestContext(
        nonce=variation.nonce,
        boot_id=boot_id,
        arm=slot.arm,
        speed=speed * _noise(plan, slot),
        greedy_gap_nats=variation.greedy_gap_nats,
        greedy_differs=variation.greedy_differs,
        failed_serving_requests=variation.failed_serving_requests if candidate else 0,
        structured_output_broken=variation.structured_output_broken,
    )


def _longest_answer(plan: Plan) -> int:
    """Tokens of the longest timed answer of a plan; 0 without one."""
    return max((c.output_tokens for c in plan.cells if isinstance(c, ServingCell)), default=0)


def _noise(plan: Plan, slot: BootSlot) -> float:
    """Pairs differ; where speed is judged, so do the boots of one arm, by less."""
    own = 0.001 * (slot.slot * 7 % 5 - 2) if plan.gates.claims_speed else 0.0
    return (1 + 0.01 * slot.pair) * (1 + own)


def _finished(
    cell: CellPlan, started: BootStarted, number: int, records: tuple[RequestRecord, ...]
) -> CellFinished:
    measured = [record for record in records if record.variant != "warmup"]
    return CellFinished(
        boot_id=started.boot_id,
        slot=started.slot,
        cell_id=cell.cell_id,
        at_utc=_clock(started.slot, started.attempt, 10 + number),
        wall_ns=(
            max(record.sent_at_ns + record.ended_at_ns for record in measured)
            - min(record.sent_at_ns for record in measured)
        ),
        request_count=len(records),
        client=example_client(len(measured)),
    )
