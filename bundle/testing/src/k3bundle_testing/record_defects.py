"""Bundles that are sealed rightly and whose records tell no possible story."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from k3bundle import layout
from k3bundle.coverage import StepCount
from k3bundle.finding import FindingCode
from k3bundle.request import Completed, RequestRecord
from k3bundle.run import BootStarted, CellFinished
from k3bundle_testing.defect import Defect, Files, changed, resealed_records
from k3bundle_testing.example_plan import GREEDY_CELL_ID
from k3bundle_testing.example_run import good_records

__all__ = ["RECORD_DEFECTS"]

_WARMUPS: Final = 1


def _request(position: int, **fields: Any) -> Callable[[], Files]:
    """Change the request at a position of the good run."""

    def make() -> Files:
        requests = list(good_records().requests)
        requests[position] = changed(requests[position], **fields)
        return resealed_records(replace(good_records(), requests=tuple(requests)))

    return make


def _first_of(cell_id: str) -> int:
    requests = good_records().requests
    return next(i for i, request in enumerate(requests) if request.cell_id == cell_id)


def _greedy(change: Callable[[RequestRecord], RequestRecord]) -> Callable[[], Files]:
    def make() -> Files:
        requests = list(good_records().requests)
        at = _first_of(GREEDY_CELL_ID)
        requests[at] = change(requests[at])
        return resealed_records(replace(good_records(), requests=tuple(requests)))

    return make


def _outcome(**fields: Any) -> Callable[[], Files]:
    outcome = good_records().requests[_WARMUPS].outcome
    assert isinstance(outcome, Completed)  # noqa: S101
    return _request(_WARMUPS, outcome=changed(outcome, **fields))


def _shorter_logprobs(request: RequestRecord) -> RequestRecord:
    return changed(request, logprobs=(request.logprobs or ())[:-1])


def _other_logprobs(request: RequestRecord) -> RequestRecord:
    first, *rest = request.logprobs or ()
    return changed(request, logprobs=(changed(first, token_id=first.token_id + 1), *rest))


def _warm(request: RequestRecord) -> RequestRecord:
    return changed(request, temperature=0.7)


def _dropped_request(*, count_fixed: bool) -> Callable[[], Files]:
    def make() -> Files:
        good = good_records()
        requests = (*good.requests[:_WARMUPS], *good.requests[_WARMUPS + 1 :])
        first, *rest = good.cells
        assert isinstance(first, CellFinished)  # noqa: S101
        if count_fixed:
            first = changed(first, request_count=first.request_count - 1)
        return resealed_records(replace(good, requests=requests, cells=(first, *rest)))

    return make


def _repeated_request() -> Files:
    good = good_records()
    return resealed_records(replace(good, requests=(*good.requests, good.requests[-1])))


def _cell(**fields: Any) -> Callable[[], Files]:
    """Change the first cell event of the good run."""

    def make() -> Files:
        first, *rest = good_records().cells
        return resealed_records(replace(good_records(), cells=(changed(first, **fields), *rest)))

    return make


def _boot(**fields: Any) -> Callable[[], Files]:
    """Change the first boot event of the good run."""

    def make() -> Files:
        first, *rest = good_records().boots
        assert isinstance(first, BootStarted)  # noqa: S101
        return resealed_records(replace(good_records(), boots=(changed(first, **fields), *rest)))

    return make


def _boots_reordered() -> Files:
    good = good_records()
    return resealed_records(replace(good, boots=(*good.boots[3:], *good.boots[:3])))


def _boot_never_ready() -> Files:
    good = good_records()
    return resealed_records(replace(good, boots=(good.boots[0], *good.boots[2:])))


def _cell_twice() -> Files:
    good = good_records()
    return resealed_records(replace(good, cells=(*good.cells, good.cells[0])))


def _cell_measured_again() -> Files:
    """A cell that finished is measured again in a later attempt, where it may please more."""
    good = good_records(resumed=True)
    last = good.boots[-3]
    assert isinstance(last, BootStarted)  # noqa: S101
    early = next(e for e in good.cells if isinstance(e, CellFinished) and e.slot == 0)
    started = changed(last, boot_id="boot-0.1", slot=0, arm="baseline")
    ready = changed(good.boots[-2], boot_id="boot-0.1")
    again = changed(early, boot_id="boot-0.1")
    requests = tuple(
        changed(r, boot_id="boot-0.1")
        for r in good.requests
        if (r.boot_id, r.cell_id) == (early.boot_id, early.cell_id)
    )
    boots = (*good.boots[:-3], started, ready, *good.boots[-3:])
    return resealed_records(
        replace(
            good,
            boots=boots,
            cells=(*good.cells, again),
            requests=(*good.requests, *requests),
        )
    )


def _coverage(change: Callable[[StepCount], StepCount]) -> Callable[[], Files]:
    def make() -> Files:
        good = good_records()
        coverage = list(good.coverage)
        first, *rest = coverage[3].counts
        coverage[3] = changed(coverage[3], counts=(change(first), *rest))
        return resealed_records(replace(good, coverage=tuple(coverage)))

    return make


def _coverage_twice() -> Files:
    good = good_records()
    return resealed_records(replace(good, coverage=(*good.coverage, good.coverage[0])))


def _counters_backwards() -> Files:
    good = good_records()
    first, second, *rest = good.counters
    lower = dict.fromkeys(second.counters, 1.0)
    higher = dict.fromkeys(first.counters, 5.0)
    counters = (changed(first, counters=higher), changed(second, counters=lower), *rest)
    return resealed_records(replace(good, counters=counters))


def _attempt(**fields: Any) -> Callable[[], Files]:
    def make() -> Files:
        good = good_records()
        return resealed_records(replace(good, attempts=(changed(good.attempts[0], **fields),)))

    return make


def _bad(
    name: str, where: str, make: Callable[[], Files], code: FindingCode = "records-inconsistent"
) -> Defect:
    return Defect(name, code, where, make)


def _subject_of_another() -> Files:
    good = good_records()
    return resealed_records(replace(good, subject=changed(good.subject, subject="k3-large")))


RECORD_DEFECTS: Final = (
    _bad("request_dropped", layout.CELLS, _dropped_request(count_fixed=False)),
    _bad("request_dropped_and_count_fixed", layout.CELLS, _dropped_request(count_fixed=True)),
    _bad("request_repeated", layout.REQUESTS, _repeated_request),
    _bad(
        "request_events_go_back",
        layout.REQUESTS,
        _request(1, events=tuple(reversed(good_records().requests[1].events))),
    ),
    _bad("request_ends_before_its_last_event", layout.REQUESTS, _request(1, ended_at_ns=1)),
    _bad("request_tokens_inflated", layout.REQUESTS, _outcome(completion_tokens=800)),
    _bad("request_prompt_shorter_than_planned", layout.REQUESTS, _outcome(prompt_tokens=2)),
    _bad("request_asks_for_less", layout.REQUESTS, _request(1, requested_tokens=4)),
    _bad("request_may_end_early", layout.REQUESTS, _request(1, exact_length=False)),
    _bad("request_to_another_endpoint", layout.REQUESTS, _request(1, endpoint="chat")),
    _bad("request_index_out_of_plan", layout.REQUESTS, _request(1, index=99)),
    _bad("request_variant_of_another_kind", layout.REQUESTS, _request(1, variant="seeded")),
    _bad("prompt_differs_between_boots", layout.REQUESTS, _request(1, prompt_sha256="8" * 64)),
    _bad("text_is_not_that_of_its_digest", layout.REQUESTS, _request(1, text="other")),
    _bad("greedy_logprobs_cut", layout.REQUESTS, _greedy(_shorter_logprobs)),
    _bad("greedy_logprobs_of_other_tokens", layout.REQUESTS, _greedy(_other_logprobs)),
    _bad("greedy_at_a_temperature", layout.REQUESTS, _greedy(_warm)),
    _bad(
        "request_of_unknown_boot",
        layout.REQUESTS,
        _request(1, boot_id="boot-9.0"),
        "boot-out-of-plan",
    ),
    _bad(
        "request_of_unknown_cell", layout.REQUESTS, _request(1, cell_id="extra"), "cell-out-of-plan"
    ),
    _bad("boot_slot_out_of_plan", layout.BOOTS, _boot(slot=9), "boot-out-of-plan"),
    _bad("boot_of_the_other_arm", layout.BOOTS, _boot(arm="candidate"), "boot-out-of-plan"),
    _bad("boot_id_of_another_slot", layout.BOOTS, _boot(boot_id="boot-7.0")),
    _bad("boot_of_unknown_attempt", layout.BOOTS, _boot(attempt=4)),
    _bad("boots_out_of_order", layout.BOOTS, _boots_reordered),
    _bad("boot_never_ready_and_cells_finished", layout.CELLS, _boot_never_ready),
    _bad("cell_out_of_plan", layout.CELLS, _cell(cell_id="extra"), "cell-out-of-plan"),
    _bad("cell_slot_of_another_boot", layout.CELLS, _cell(slot=1)),
    _bad("cell_finished_twice", layout.CELLS, _cell_twice),
    _bad("cell_measured_again_in_its_slot", layout.CELLS, _cell_measured_again),
    _bad("cell_wall_time_too_short", layout.CELLS, _cell(wall_ns=1000)),
    _bad("cell_wall_time_too_long", layout.CELLS, _cell(wall_ns=60_000_000_000)),
    _bad(
        "coverage_runs_backwards", layout.COVERAGE, _coverage(lambda step: changed(step, count=1))
    ),
    _bad("coverage_snapshot_repeated", layout.COVERAGE, _coverage_twice),
    _bad("counters_run_backwards", layout.COUNTERS, _counters_backwards),
    _bad("attempt_resumed_from_nothing", layout.ATTEMPTS, _attempt(resumed=True)),
    _bad("attempt_on_another_subject", layout.ATTEMPTS, _attempt(subject_sha256="6" * 64)),
    _bad("attempt_number_missing", layout.ATTEMPTS, _attempt(attempt=1)),
    _bad("subject_of_another_plan", layout.SUBJECT, _subject_of_another),
)
