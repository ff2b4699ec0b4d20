"""A small healthy run, built from records."""

from collections.abc import Iterable
from typing import Any, Final, Literal

from k3bundle.bundle import RunRecords
from k3bundle.coverage import CoverageSnapshot, EngineCounters, StepCount
from k3bundle.derive.features import VARIANTS
from k3bundle.plan import (
    BootSlot,
    CellPlan,
    FeatureCell,
    Gates,
    GreedyCell,
    Plan,
    ServingCell,
    SkippedCell,
)
from k3bundle.request import Completed, Failed, RequestRecord, StreamEvent, TokenLogprob
from k3bundle.run import (
    AttemptRecord,
    BootEvent,
    BootReady,
    BootStarted,
    CellFinished,
    RunIdentity,
)
from k3bundle.schedule import cells_in
from k3bundle.scrub import ScrubReport
from k3bundle.subject import ArmName, ArmSpec

from .client_records import a_client
from .subject_records import a_subject, an_environment

AT: Final = "2026-01-02T03:04:05Z"
MS: Final = 1_000_000
HITS: Final = "vllm:prefix_cache_hits_total"
QUERIES: Final = "vllm:prefix_cache_queries_total"
BACKEND_KEY: Final = "additional_config.k3decode.decode_backend"
ABBA: Final[tuple[ArmName, ...]] = ("baseline", "candidate", "candidate", "baseline")
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}
SERVING: Final = ServingCell(
    cell_id="serving",
    endpoint="completions",
    concurrency=2,
    prompt_tokens=16,
    output_tokens=8,
    warmup_requests=0,
    request_count=4,
)
GREEDY: Final = GreedyCell(
    cell_id="greedy", concurrency=1, prompt_tokens=(3, 5, 7), output_tokens=8
)
STRUCTURED: Final = FeatureCell(
    cell_id="structured",
    feature="structured_output",
    request_count=2,
    output_tokens=8,
    json_schema=SCHEMA,
)
SAMPLING: Final = FeatureCell(
    cell_id="sampling", feature="sampling", request_count=2, output_tokens=8
)
STREAMING: Final = FeatureCell(
    cell_id="streaming", feature="streaming", request_count=2, output_tokens=8
)
CHAT: Final = FeatureCell(cell_id="chat", feature="chat", request_count=2, output_tokens=8)
SKIPPED: Final = SkippedCell(cell_id="skipped", reason="The node has no GPU.")
CELLS: Final = (SERVING, GREEDY, STRUCTURED, SAMPLING, STREAMING, CHAT)
GATES: Final = Gates(
    minimum_decode_coverage=0.95,
    logprob_tolerance_nats=0.01,
    tie_margin_nats=0.02,
    minimum_decided_share=0.5,
    maximum_error_rate=0.01,
    maximum_prefix_hit_rate=0.01,
    claims_speed=False,
    minimum_speed_ratio=1.0,
    confidence=0.95,
)


def boot_slots(arms: Iterable[ArmName] = ABBA) -> tuple[BootSlot, ...]:
    """Slots in that order of arms; two neighbours make a pair."""
    return tuple(BootSlot(slot=i, arm=arm, pair=i // 2) for i, arm in enumerate(arms))


def arm_spec(name: ArmName) -> ArmSpec:
    backend = "stock" if name == "baseline" else "candidate"
    return ArmSpec(
        name=name,
        decode_backend=backend,
        expected_path=backend,
        engine_arguments=(),
        environment={},
        overlay_sha256=None,
    )


def a_plan(
    cells: tuple[CellPlan, ...] = CELLS,
    *,
    boots: tuple[BootSlot, ...] | None = None,
    gates: Gates = GATES,
    pairing: Literal["paired", "single"] = "paired",
) -> Plan:
    planned = boot_slots() if boots is None else boots
    names = sorted({slot.arm for slot in planned})
    return Plan(
        tier="smoke",
        subject="k3-tiny",
        pairing=pairing,
        arms=tuple(arm_spec(name) for name in names),
        allowed_config_differences=(BACKEND_KEY,),
        cells=cells,
        boots=planned,
        gates=gates,
        limits=("Random weights.",),
    )


def a_request(**changes: Any) -> RequestRecord:
    """A completed request of 8 tokens: the first after 20 ms, then one every 5 ms."""
    tokens = tuple(range(8))
    values: dict[str, Any] = {
        "boot_id": "boot-0.0",
        "cell_id": "serving",
        "index": 0,
        "variant": "measured",
        "endpoint": "completions",
        "prompt_sha256": "ab" * 32,
        "requested_tokens": 8,
        "exact_length": True,
        "temperature": 0.0,
        "seed": None,
        "due_at_ns": None,
        "sent_at_ns": 0,
        "ended_at_ns": 60 * MS,
        "events": events(*((20 + 5 * i, 1) for i in range(8))),
        "counted_by": "token_ids",
        "outcome": completed(8),
        "token_ids": tokens,
        "logprobs": None,
        "text": None,
        "text_sha256": "cd" * 32,
        "text_tokens": None,
    }
    return RequestRecord(**{**values, **changes})


def events(
    *at_ms_and_tokens: tuple[float, int], channel: Literal["content", "reasoning"] = "content"
) -> tuple[StreamEvent, ...]:
    return tuple(
        StreamEvent(at_ns=round(at * MS), tokens=tokens, channel=channel)
        for at, tokens in at_ms_and_tokens
    )


def completed(tokens: int, *, prompt: int = 16, cached: int | None = 0) -> Completed:
    return Completed(
        finish_reason="length",
        prompt_tokens=prompt,
        completion_tokens=tokens,
        cached_prompt_tokens=cached,
    )


def failed(
    error: Literal["http_status", "timeout", "no_usage"] = "http_status",
) -> Failed:
    return Failed(error=error, detail="Expected status 200, found 500.")


def logprobs(
    tokens: Iterable[int], *, gap: float | None = 0.5, logprob: float = -0.25
) -> tuple[TokenLogprob, ...]:
    return tuple(
        TokenLogprob(
            token_id=token,
            logprob=logprob,
            runner_up_logprob=None if gap is None else logprob - gap,
        )
        for token in tokens
    )


def requests_of(cell: CellPlan, boot_id: str) -> tuple[RequestRecord, ...]:
    """The requests of one healthy cell in one boot."""
    if isinstance(cell, ServingCell):
        return tuple(
            a_request(
                boot_id=boot_id,
                cell_id=cell.cell_id,
                index=i,
                sent_at_ns=60 * MS * i,
                requested_tokens=cell.output_tokens,
                outcome=completed(cell.output_tokens),
            )
            for i in range(cell.request_count)
        )
    if isinstance(cell, GreedyCell):
        tokens = tuple(range(cell.output_tokens))
        return tuple(
            a_request(
                boot_id=boot_id,
                cell_id=cell.cell_id,
                index=i,
                token_ids=tokens,
                requested_tokens=cell.output_tokens,
                outcome=completed(cell.output_tokens),
                logprobs=logprobs(tokens),
            )
            for i in range(len(cell.prompt_tokens))
        )
    if isinstance(cell, FeatureCell):
        return tuple(
            _feature_request(cell, boot_id, i, variant)
            for i in range(cell.request_count)
            for variant in VARIANTS[cell.feature]
        )
    return ()


def _feature_request(cell: FeatureCell, boot_id: str, index: int, variant: str) -> RequestRecord:
    other = variant == "other_seed"
    return a_request(
        boot_id=boot_id,
        cell_id=cell.cell_id,
        index=index,
        variant=variant,
        exact_length=False,
        temperature=1.0 if cell.feature == "sampling" else 0.0,
        token_ids=tuple(range(8, 16)) if other else tuple(range(8)),
        text='{"answer": 7}' if cell.feature == "structured_output" else None,
        text_sha256=("ef" if other else "cd") * 32,
    )


def coverage_of(
    cell_id: str, slot: BootSlot, *, path: str | None = None, steps: int = 40
) -> tuple[CoverageSnapshot, CoverageSnapshot]:
    """Snapshots around a cell of that many decode steps, all served by one path."""
    served = path or arm_spec(slot.arm).expected_path

    def snapshot(moment: Literal["before", "after"], count: int) -> CoverageSnapshot:
        return CoverageSnapshot(
            boot_id=f"boot-{slot.slot}.0",
            cell_id=cell_id,
            moment=moment,
            source="host",
            configured_backend=served,
            counts=(
                StepCount(kind="decode", path=served, reason=None, count=count),
                StepCount(kind="prefill", path="stock", reason=None, count=count),
            ),
        )

    return snapshot("before", 10), snapshot("after", 10 + steps)


def counters_of(
    boot_id: str,
    cell_id: str,
    *,
    hits: tuple[float, float] = (0, 0),
    queries: tuple[float, float] = (0, 64),
) -> tuple[EngineCounters, EngineCounters]:
    def snapshot(moment: Literal["before", "after"], which: int) -> EngineCounters:
        values = {HITS: float(hits[which]), QUERIES: float(queries[which])}
        return EngineCounters(boot_id=boot_id, cell_id=cell_id, moment=moment, counters=values)

    return snapshot("before", 0), snapshot("after", 1)


def a_run(plan: Plan | None = None) -> RunRecords:
    """Records of a complete, healthy run of a plan."""
    planned = a_plan() if plan is None else plan
    ran = [
        (cell, slot, f"boot-{slot.slot}.0")
        for slot in planned.boots
        for cell in cells_in(planned, slot)
    ]
    return RunRecords(
        plan=planned,
        run=RunIdentity(
            run_id="0" * 32,
            nonce="1" * 64,
            nonce_source="local",
            plan_sha256="2" * 64,
            created_at_utc=AT,
        ),
        subject=a_subject(),
        environment=an_environment(),
        attempts=(
            AttemptRecord(attempt=0, started_at_utc=AT, resumed=False, torn_lines_dropped=0),
        ),
        boots=tuple(event for slot in planned.boots for event in boot_events(slot)),
        cells=tuple(finished(slot.slot, cell.cell_id) for cell, slot, _ in ran),
        requests=tuple(r for cell, _, boot_id in ran for r in requests_of(cell, boot_id)),
        coverage=tuple(s for cell, slot, _ in ran for s in coverage_of(cell.cell_id, slot)),
        counters=tuple(s for cell, _, boot in ran for s in counters_of(boot, cell.cell_id)),
        scrub=ScrubReport(rules=()),
    )


def boot_events(slot: BootSlot, *, attempt: int = 0) -> tuple[BootEvent, ...]:
    boot_id = f"boot-{slot.slot}.{attempt}"
    config = {"model.dtype": "float32", BACKEND_KEY: arm_spec(slot.arm).decode_backend}
    return (
        BootStarted(
            boot_id=boot_id,
            slot=slot.slot,
            arm=slot.arm,
            attempt=attempt,
            at_utc=AT,
            command=("serve",),
        ),
        BootReady(
            boot_id=boot_id, ready_after_ms=1.0, engine_version="0.32.0", effective_config=config
        ),
    )


def finished(slot: int, cell_id: str, *, attempt: int = 0) -> CellFinished:
    return CellFinished(
        boot_id=f"boot-{slot}.{attempt}",
        slot=slot,
        cell_id=cell_id,
        at_utc=AT,
        wall_ns=240 * MS,
        request_count=4,
        client=a_client(),
    )
