"""What holds for every run: total, blind to line order, and never better for failing more."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from k3bundle.bundle import RunRecords
from k3bundle.canonical import canonical_json, parse_strict
from k3bundle.derive import derive
from k3bundle.plan import BootSlot, CellPlan, Plan
from k3bundle.request import RequestRecord, StreamEvent
from k3bundle.speed_role import Excused, NonInferiority
from k3bundle.subject import ArmName
from k3bundle.verdict import Verdict

from .changes import (
    change_requests,
    fail,
    update,
)
from .records import (
    CELLS,
    GATES,
    SERVING,
    SKIPPED,
    a_plan,
    a_run,
    arm_spec,
    boot_slots,
    completed,
    logprobs,
)

SPEED_CELLS: Final = (
    SERVING.model_copy(update={"cell_id": "other", "speed": NonInferiority()}),
    SERVING.model_copy(update={"cell_id": "excused", "speed": Excused(reason="Because.")}),
    SERVING.model_copy(
        update={"cell_id": "aside", "speed": NonInferiority(margin=0.5), "expects_fallback": True}
    ),
    SERVING.model_copy(update={"cell_id": "wide", "deployment": "wide"}),
)
HUGE: Final = 2**53 - 1
RANK: Final = {"PASS": 0, "INCONCLUSIVE": 1, "INCOMPLETE": 2, "INVALID": 3, "FAIL": 4}
QUICK: Final = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
OTHER: Final = (*range(7), 99)

counts = st.one_of(st.integers(0, 12), st.sampled_from([HUGE, HUGE - 1, 10**9]))
events = st.lists(
    st.builds(
        StreamEvent,
        at_ns=counts,
        tokens=counts,
        channel=st.sampled_from(["content", "reasoning"]),
    ),
    max_size=3,
).map(tuple)
tokens = st.lists(st.integers(0, 4), max_size=4).map(tuple)
texts = st.one_of(st.none(), st.text(max_size=20), st.just('{"answer": 7}'))
changes = st.one_of(
    st.just(fail),
    st.builds(lambda e: update(events=e), events),
    st.builds(lambda t: update(token_ids=t, logprobs=logprobs(t)), tokens),
    st.builds(lambda t: update(token_ids=t), st.one_of(st.none(), tokens)),
    st.builds(lambda t: update(logprobs=logprobs(t, gap=None)), tokens),
    st.builds(lambda g: update(logprobs=logprobs(range(8), gap=g)), st.floats(0, 1e300)),
    st.builds(lambda n, p: update(outcome=completed(n, prompt=p, cached=n)), counts, counts),
    st.builds(lambda a, b: update(sent_at_ns=a, ended_at_ns=b), counts, counts),
    st.builds(lambda i: update(index=i), counts),
    st.builds(lambda t: update(text=t), texts),
    st.builds(lambda t: update(temperature=t), st.floats(0, 1e300)),
    st.just(update(prompt_sha256="00" * 32)),
    st.just(update(boot_id="boot-9.9")),
    st.just(update(variant="warmup")),
)
"""Changes that turn a request into another one that parses."""


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    chosen: list[CellPlan] = draw(
        st.lists(st.sampled_from([*CELLS, *SPEED_CELLS, SKIPPED]), min_size=1, max_size=4)
    )
    order: list[ArmName] = draw(
        st.lists(st.sampled_from(["baseline", "candidate"]), min_size=1, max_size=5)
    )
    gates = GATES.model_copy(
        update={
            "claims_speed": draw(st.booleans()),
            "minimum_decode_coverage": draw(st.sampled_from([0.0, 0.95, 1.0])),
            "minimum_decided_share": draw(st.sampled_from([0.0, 0.5, 1.0])),
            "maximum_error_rate": draw(st.sampled_from([0.0, 0.01, 1.0])),
            "confidence": draw(st.sampled_from([0.5 + 2**-53, 0.95, 1 - 2**-53])),
            "drift_adjusted": draw(st.booleans()),
            "require_telemetry": draw(st.booleans()),
            "maximum_client_lag_ms": draw(st.sampled_from([None, 0.0, 1e300])),
            "maximum_concurrency_shortfall": draw(st.sampled_from([None, 0.0, 1.0])),
            "maximum_telemetry_gap_ms": draw(st.sampled_from([None, 0.0, 1e300])),
            "maximum_throttled_share": draw(st.sampled_from([None, 0.0, 1.0])),
        }
    )
    plan = a_plan(
        tuple(chosen),
        boots=boot_slots(order),
        gates=gates,
        pairing=draw(st.sampled_from(["paired", "single"])),
    )
    plan = plan.model_copy(update={"boots": draw(roles(plan.boots))})
    numbers = draw(st.sampled_from([None, 0]))
    if numbers is not None:
        same = tuple(slot.model_copy(update={"slot": numbers}) for slot in plan.boots)
        plan = plan.model_copy(update={"boots": same})
    arms = draw(st.sampled_from([plan.arms, (arm_spec("candidate"),)]))
    return plan.model_copy(update={"arms": arms})


@st.composite
def roles(draw: st.DrawFn, boots: tuple[BootSlot, ...]) -> tuple[BootSlot, ...]:
    """Boots of any role and deployment, in whole null pairs and in none."""
    changed: list[BootSlot] = []
    for boot in boots:
        role = draw(st.sampled_from(["compare", "compare", "null"]))
        deployment = draw(st.sampled_from(["default", "default", "wide"]))
        changed.append(boot.model_copy(update={"role": role, "deployment": deployment}))
    if draw(st.booleans()):
        null = (boots[0].model_copy(update={"role": "null", "arm": "baseline", "pair": 70}),) * 2
        first = len(boots)
        changed += [b.model_copy(update={"slot": first + i}) for i, b in enumerate(null)]
    return tuple(changed)


@st.composite
def runs(draw: st.DrawFn) -> RunRecords:
    """Runs with parts missing, doubled, shuffled and broken."""
    records = a_run(draw(plans()))
    chance = random.Random(draw(st.integers(0, 2**32)))  # noqa: S311
    requests = list(records.requests)
    for change in draw(st.lists(changes, max_size=6)):
        if requests:
            position = chance.randrange(len(requests))
            requests[position] = change(requests[position])
    keep = draw(st.sampled_from([0.0, 0.7, 0.95, 1.0]))

    def thinned(lines: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(line for line in lines if chance.random() < keep or keep == 1.0)

    parts: dict[str, Any] = {"requests": tuple(requests)}
    for name in ("attempts", "boots", "cells", "coverage", "counters"):
        if draw(st.booleans()):
            parts[name] = thinned(getattr(records, name))
        elif draw(st.booleans()):
            parts[name] = getattr(records, name) * 2
    return replace(records, **parts)


@QUICK
@given(runs())
def test_derive_never_raises_and_its_record_survives_the_wire(records: RunRecords) -> None:
    verdict = derive(records)
    written = canonical_json(verdict)
    assert Verdict.model_validate_json(written) == verdict
    assert parse_strict(written) is not None
    assert len(verdict.cells) == len(records.plan.cells)


@QUICK
@given(runs(), st.randoms(use_true_random=False))
def test_derive_does_not_see_the_order_of_request_lines(
    records: RunRecords, chance: random.Random
) -> None:
    shuffled = list(records.requests)
    chance.shuffle(shuffled)
    assert derive(replace(records, requests=tuple(shuffled))) == derive(records)


mutations = st.sampled_from(
    [
        update(token_ids=OTHER, logprobs=logprobs(OTHER)),
        update(logprobs=logprobs(range(8), gap=0.001)),
        update(text="not JSON", text_sha256="00" * 32),
        update(outcome=completed(8, prompt=16, cached=16)),
        update(events=()),
        fail,
    ]
)


@QUICK
@given(
    st.lists(st.tuples(mutations, st.sampled_from(CELLS), st.integers(0, 3)), max_size=3),
    st.lists(
        st.tuples(st.sampled_from(CELLS), st.integers(1, 2), st.integers(0, 3)),
        min_size=1,
        max_size=4,
    ),
)
def test_a_candidate_that_fails_more_never_gets_a_better_verdict(
    before: list[tuple[Callable[[RequestRecord], RequestRecord], CellPlan, int]],
    failures: list[tuple[CellPlan, int, int]],
) -> None:
    records = a_run()
    for change, cell, slot in before:
        records = change_requests(records, change, cell=cell.cell_id, slots=[slot], index=0)
    rank = RANK[derive(records).status]
    for cell, slot, index in failures:
        records = change_requests(records, fail, cell=cell.cell_id, slots=[slot], index=index)
        now = RANK[derive(records).status]
        assert now >= rank
        rank = now


@QUICK
@given(st.integers(0, 2), st.integers(0, 7), st.floats(0.03, 5.0))
def test_a_planted_decided_difference_always_fails(index: int, position: int, gap: float) -> None:
    other = (*range(position), 99, *range(position + 1, 8))
    records = change_requests(a_run(), update(logprobs=logprobs(range(8), gap=gap)), cell="greedy")
    planted = update(token_ids=other, logprobs=logprobs(other, gap=gap))
    verdict = derive(change_requests(records, planted, cell="greedy", slots=[2], index=index))
    assert verdict.status == "FAIL"
    assert f"prompt {index} in boot 2, at position {position}" in verdict.sentence


def test_times_at_zero_and_huge_counts_are_taken() -> None:
    still = update(
        events=(StreamEvent(at_ns=0, tokens=HUGE, channel="content"),) * 2, ended_at_ns=0
    )
    records = change_requests(a_run(), still)
    assert derive(records).status == "PASS"
    late = update(sent_at_ns=HUGE, ended_at_ns=HUGE, outcome=completed(HUGE))
    assert derive(change_requests(records, late, cell="serving")).status == "INVALID"
