"""Derived records: measurements, cell results, claims and the verdict.

Nothing here is trusted: a verifier derives all of it again from the raw records.
"""

from typing import Annotated, Literal

from pydantic import Field

from k3bundle.record import (
    CellId,
    Count,
    Fraction,
    Milliseconds,
    Nats,
    Record,
    ShortText,
    TokensPerSecond,
)
from k3bundle.subject import ArmName

__all__ = [
    "BootMeasurement",
    "CellCoverage",
    "CellFail",
    "CellInconclusive",
    "CellInvalid",
    "CellPass",
    "CellResult",
    "CellSkipped",
    "Claim",
    "ClaimName",
    "FeatureEvidence",
    "GreedyEvidence",
    "HeadlineNumber",
    "InvalidCause",
    "RatioInterval",
    "ServingEvidence",
    "Verdict",
]


class CellCoverage(Record):
    """Which share of a cell's decode steps the expected path served, in one boot."""

    slot: Count
    """Boot slot."""
    arm: ArmName
    """Arm of the boot."""
    source: Literal["host", "device", "unavailable"]
    """Where the counts come from."""
    decode_steps: Count
    """Decode and verify steps during the cell."""
    expected_path_steps: Count
    """Of those, steps that the arm's expected path served."""
    share: Fraction | None
    """expected_path_steps / decode_steps; None when there was no decode step."""
    fallback_reasons: dict[str, int]
    """Reason -> steps of any kind that fell back for it."""


class BootMeasurement(Record):
    """Serving numbers of one cell in one boot; medians over its measured requests."""

    slot: Count
    """Boot slot."""
    arm: ArmName
    """Arm of the boot."""
    pair: Count
    """Pair of the boot."""
    completed: Count
    """Requests that completed."""
    failed: Count
    """Requests that failed."""
    ttft_ms_p50: Milliseconds | None
    """Median time to first token; None when nothing completed."""
    tpot_ms_p50: Milliseconds | None
    """Median time per output token after the first event; None when undefined everywhere."""
    tpot_undefined: Count
    """Completed requests whose tokens all came in one event, so that TPOT is undefined."""
    output_tokens_per_s: TokensPerSecond | None
    """Completion tokens of completed requests / wall time of the cell."""


class RatioInterval(Record):
    """Candidate / baseline over pairs of boots: geometric mean with bounds from a t interval."""

    metric: Literal["output_tokens_per_s", "ttft_ms_p50", "tpot_ms_p50"]
    """Which number is compared."""
    pairs: Count
    """Number of pairs."""
    ratio: float = Field(gt=0)
    """exp(mean of the log ratios)."""
    lower: float | None = Field(default=None, gt=0)
    """One-sided lower bound; None with fewer than two pairs."""
    upper: float | None = Field(default=None, gt=0)
    """One-sided upper bound; None with fewer than two pairs."""
    confidence: float
    """One-sided confidence of each bound."""
    minimum_detectable_effect: float | None
    """Smallest true relative gain that this many pairs with this spread would find with power
    0.8; None with fewer than two pairs."""


class ServingEvidence(Record):
    """Evidence of a serving cell."""

    kind: Literal["serving"] = "serving"
    """Tag."""
    boots: tuple[BootMeasurement, ...]
    """One entry per boot that finished the cell, by slot."""
    intervals: tuple[RatioInterval, ...]
    """Ratios over pairs; empty for a single-arm run."""
    prefix_hit_rate: Fraction | None
    """Largest share over boots of prompt tokens found in the prefix cache; None: not reported."""


class GreedyEvidence(Record):
    """Evidence of a greedy cell."""

    kind: Literal["greedy"] = "greedy"
    """Tag."""
    compared_requests: Count
    """Request pairs compared between arms."""
    compared_positions: Count
    """Token positions compared, up to the first difference of each request."""
    decided_share: Fraction
    """Share of those positions whose baseline gap exceeds the tie margin."""
    identical_requests: Count
    """Request pairs whose tokens are all equal."""
    ties: Count
    """Request pairs whose first difference is at a baseline tie."""
    differences: Count
    """Request pairs whose first difference is at a decided position."""
    largest_logprob_difference_nats: Nats
    """Largest difference of a chosen token's log-probability at equal positions."""
    baseline_self_differences: Count
    """Decided differences between the baseline's own boots: the noise floor, which must be 0."""


class FeatureEvidence(Record):
    """Evidence of a feature cell."""

    kind: Literal["feature"] = "feature"
    """Tag."""
    baseline_passed: Count
    """Checks that the baseline passed, over all its boots."""
    baseline_total: Count
    """Checks on the baseline."""
    candidate_passed: Count
    """Checks that the candidate passed."""
    candidate_total: Count
    """Checks on the candidate."""
    first_failure: ShortText | None
    """The first failed check in words; None when all passed."""


Evidence = Annotated[
    ServingEvidence | GreedyEvidence | FeatureEvidence, Field(discriminator="kind")
]


class _CellBase(Record):
    cell_id: CellId
    """The cell."""
    reason: ShortText
    """The result in one sentence."""


class _JudgedCell(_CellBase):
    coverage: tuple[CellCoverage, ...]
    """Path coverage in each boot, by slot."""
    evidence: Evidence
    """What was measured."""


class CellPass(_JudgedCell):
    """Everything that the cell gates on held."""

    status: Literal["PASS"] = "PASS"
    """Tag."""


class CellFail(_JudgedCell):
    """Judged, and fell short."""

    status: Literal["FAIL"] = "FAIL"
    """Tag."""


class CellInconclusive(_JudgedCell):
    """Judged; the interval holds the threshold."""

    status: Literal["INCONCLUSIVE"] = "INCONCLUSIVE"
    """Tag."""


InvalidCause = Literal[
    "measures_stock",
    "missing_boots",
    "missing_requests",
    "failed_requests",
    "warm_prefix_cache",
    "baseline_unstable",
    "synthetic_acceptance",
    "undecided",
    "no_coverage",
    "wrong_length",
]
"""Stable names of the causes for which a cell cannot be judged."""


class CellInvalid(_CellBase):
    """Cannot be judged: what ran is not what was to be measured, or the records are not whole."""

    status: Literal["INVALID"] = "INVALID"
    """Tag."""
    cause: InvalidCause
    """Stable name of the cause. `measures_stock`: the candidate arm was served by stock.
    `missing_requests`: planned requests have no record, several, or another prompt."""
    coverage: tuple[CellCoverage, ...]
    """Path coverage in each boot that finished the cell."""
    evidence: Evidence | None
    """What was measured, where it could be."""


class CellSkipped(_CellBase):
    """Planned as skipped."""

    status: Literal["SKIPPED"] = "SKIPPED"
    """Tag."""


CellResult = Annotated[
    CellPass | CellFail | CellInconclusive | CellInvalid | CellSkipped,
    Field(discriminator="status"),
]
"""Result of one cell; `status` decides which fields exist."""

ClaimName = Literal["isolated", "bounded", "correct", "faster"]
"""The four claims of an evaluation."""


class Claim(Record):
    """One of the four claims, with the evidence it stands on."""

    name: ClaimName
    """Which claim."""
    status: Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID", "NOT_CLAIMED"]
    """`NOT_CLAIMED`: this tier does not make the claim."""
    sentence: ShortText
    """The finding in one sentence."""
    cells: tuple[CellId, ...]
    """Cells it rests on."""


class HeadlineNumber(Record):
    """A number that is shown first."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,79}$")
    """Name with its unit, for example `decode_coverage_share`."""
    value: float
    """The value."""
    label: ShortText
    """What it is, in words."""
    cell_id: CellId | None
    """Cell it comes from; None when it is over the whole run."""


class Verdict(Record):
    """The verdict of a run."""

    status: Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID", "INCOMPLETE"]
    """FAIL before INVALID before INCOMPLETE before INCONCLUSIVE before PASS."""
    sentence: ShortText
    """The verdict in one sentence."""
    claims: tuple[Claim, ...] = Field(min_length=4, max_length=4)
    """The four claims in the order isolated, bounded, correct, faster."""
    cells: tuple[CellResult, ...]
    """Every planned cell, in plan order."""
    headline: tuple[HeadlineNumber, ...]
    """Numbers shown first."""
    resumed: bool
    """True when the run was interrupted and resumed."""
    limits: tuple[ShortText, ...]
    """What this run cannot show."""
