"""Verdicts as a verifier could derive them, one for each status, with invented numbers."""

from typing import Final, Literal

from k3bundle.subject import ArmName
from k3bundle.verdict import (
    BootMeasurement,
    CellCoverage,
    CellFail,
    CellInvalid,
    CellPass,
    CellResult,
    CellSkipped,
    Claim,
    ClaimName,
    FeatureEvidence,
    GreedyEvidence,
    HeadlineNumber,
    RatioInterval,
    ServingEvidence,
    Verdict,
)

__all__ = ["Status", "example_verdict"]

Status = Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID", "INCOMPLETE"]

_ORDER: Final[tuple[tuple[int, ArmName, int], ...]] = (
    (0, "baseline", 0),
    (1, "candidate", 0),
    (2, "candidate", 1),
    (3, "baseline", 1),
)
_SENTENCES: Final[dict[Status, str]] = {
    "PASS": "The change is isolated, bounded and correct on this node; speed is not claimed.",
    "FAIL": "The candidate's greedy outputs differ from the baseline's at 3 decided positions.",
    "INCONCLUSIVE": "The speed interval holds the threshold: more pairs are needed.",
    "INVALID": "measures stock: the stock path served 100 % of the candidate's decode steps.",
    "INCOMPLETE": "One of four planned boots has no finished cell; resume the run.",
}


def example_verdict(status: Status = "PASS", *, resumed: bool = False) -> Verdict:
    """A verdict of this status over six cells."""
    return Verdict(
        status=status,
        sentence=_SENTENCES[status],
        claims=_claims(status),
        cells=(
            _serving(status, "serving-isl16-osl8-c2", 41.0),
            _serving(status, "serving-chat-osl32-c4", 88.0),
            _greedy(status),
            _feature("feature-structured-output", 8),
            _feature("feature-streaming", 4),
            CellSkipped(
                cell_id="graph-capture",
                reason="The node has no GPU, so there is no graph to capture.",
            ),
        ),
        headline=(
            HeadlineNumber(
                name="decode_coverage_share",
                value=1.0 if status != "INVALID" else 0.0,
                label="Candidate decode steps that the candidate path served",
                cell_id=None,
            ),
            HeadlineNumber(
                name="greedy_identical_share",
                value=1.0 if status != "FAIL" else 0.875,
                label="Greedy request pairs with equal tokens",
                cell_id="greedy-c2",
            ),
            HeadlineNumber(
                name="output_tokens_per_s_ratio",
                value=1.0312,
                label="Candidate / baseline throughput, not claimed",
                cell_id="serving-isl16-osl8-c2",
            ),
            HeadlineNumber(
                name="largest_logprob_difference_nats",
                value=3.1e-6,
                label="Largest log-probability difference",
                cell_id="greedy-c2",
            ),
        ),
        resumed=resumed,
        limits=(
            "A CPU run cannot show graph capture, device counters or GPU speed.",
            "Random weights: accuracy on tasks means nothing here.",
        ),
    )


def _claims(status: Status) -> tuple[Claim, ...]:
    greedy = ("greedy-c2",)
    serving = ("serving-isl16-osl8-c2", "serving-chat-osl32-c4")
    bounded = (*serving, "feature-structured-output", "feature-streaming")
    invalid = status == "INVALID"
    return (
        _claim("isolated", "PASS", "2,048 engine files equal their RECORD; one key differs.", ()),
        _claim(
            "bounded",
            "INVALID" if invalid else "PASS",
            "The candidate path served none of its decode steps."
            if invalid
            else "The expected path served 100 % of decode steps, and every feature passed.",
            bounded,
        ),
        _claim(
            "correct",
            "FAIL" if status == "FAIL" else "INVALID" if invalid else "PASS",
            "3 of 24 greedy pairs differ at a decided position."
            if status == "FAIL"
            else "24 of 24 greedy request pairs have equal tokens.",
            greedy,
        ),
        _claim("faster", "NOT_CLAIMED", "The smoke tier never claims speed.", serving),
    )


def _claim(
    name: ClaimName,
    status: Literal["PASS", "FAIL", "INVALID", "NOT_CLAIMED"],
    sentence: str,
    cells: tuple[str, ...],
) -> Claim:
    return Claim(name=name, status=status, sentence=sentence, cells=cells)


def _coverage(status: Status) -> tuple[CellCoverage, ...]:
    stock = status == "INVALID"
    return tuple(
        CellCoverage(
            slot=slot,
            arm=arm,
            source="host",
            decode_steps=1240,
            expected_path_steps=0 if stock and arm == "candidate" else 1238,
            share=0.0 if stock and arm == "candidate" else 1238 / 1240,
            fallback_reasons={"The step mixes prompts and decodes.": 2}
            if arm == "candidate"
            else {},
        )
        for slot, arm, _ in _ORDER
    )


def _serving(status: Status, cell_id: str, speed: float) -> CellResult:
    boots = tuple(
        BootMeasurement(
            slot=slot,
            arm=arm,
            pair=pair,
            completed=16,
            failed=0,
            ttft_ms_p50=112.4 + 3.1 * slot,
            tpot_ms_p50=24.2 - 0.4 * slot,
            tpot_undefined=0,
            output_tokens_per_s=speed + 1.3 * slot,
        )
        for slot, arm, pair in _ORDER
    )
    evidence = ServingEvidence(
        boots=boots,
        intervals=(
            _interval("output_tokens_per_s", 1.0312, 0.012),
            _interval("ttft_ms_p50", 0.984, 0.03),
            _interval("tpot_ms_p50", 0.971, 0.019),
        ),
        prefix_hit_rate=0.0,
    )
    if status == "INVALID":
        return CellInvalid(
            cell_id=cell_id,
            reason="measures stock: the stock path served 1,240 of 1,240 candidate steps.",
            cause="measures_stock",
            coverage=_coverage(status),
            evidence=evidence,
        )
    return CellPass(
        cell_id=cell_id,
        reason="All 64 requests completed, and the expected path served 99.8 % of steps.",
        coverage=_coverage(status),
        evidence=evidence,
    )


def _interval(
    metric: Literal["output_tokens_per_s", "ttft_ms_p50", "tpot_ms_p50"],
    ratio: float,
    half: float,
) -> RatioInterval:
    return RatioInterval(
        metric=metric,
        pairs=2,
        ratio=ratio,
        lower=ratio - half,
        upper=ratio + half,
        confidence=0.95,
        minimum_detectable_effect=0.06,
    )


def _greedy(status: Status) -> CellResult:
    failed = status == "FAIL"
    evidence = GreedyEvidence(
        compared_requests=24,
        compared_positions=1536,
        decided_share=0.9971,
        identical_requests=21 if failed else 24,
        ties=0,
        differences=3 if failed else 0,
        largest_logprob_difference_nats=3.1e-6,
        baseline_self_differences=0,
    )
    if failed:
        return CellFail(
            cell_id="greedy-c2",
            reason="3 of 24 request pairs differ at a position that the baseline had decided.",
            coverage=_coverage(status),
            evidence=evidence,
        )
    return CellPass(
        cell_id="greedy-c2",
        reason="24 of 24 request pairs have equal tokens.",
        coverage=_coverage(status),
        evidence=evidence,
    )


def _feature(cell_id: str, total: int) -> CellResult:
    return CellPass(
        cell_id=cell_id,
        reason=f"All {total} checks passed in both arms.",
        coverage=_coverage("PASS"),
        evidence=FeatureEvidence(
            baseline_passed=total,
            baseline_total=total,
            candidate_passed=total,
            candidate_total=total,
            first_failure=None,
        ),
    )
