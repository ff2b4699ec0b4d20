"""Derived records: measurements, cell results, claims and the verdict.

Nothing here is trusted: a verifier derives all of it again from the raw records.
"""

from typing import Annotated, Literal

from pydantic import Field

from k3bundle.kernel_evidence import (
    KernelAuditEvidence,
    KernelCheckEvidence,
    KernelTimingEvidence,
)
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
    "NullComparison",
    "RatioInterval",
    "Regression",
    "ServingEvidence",
    "Verdict",
]


class CellCoverage(Record):
    """Which share of a cell's decode steps the expected path served, in one boot."""

    slot: Count
    """Boot slot."""
    arm: ArmName
    """Arm of the boot."""
    source: Literal["host", "device", "graphs", "unavailable"]
    """Where the counts come from; `graphs`: the engine's table of replayed graphs and the kernels
    that a profile found in them."""
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
    ttft_ms_p99: Milliseconds | None = None
    """99th percentile of the time to first token."""
    first_answer_ms_p50: Milliseconds | None = None
    """Median time to the first token that is no reasoning; None when none came."""
    tpot_ms_p50: Milliseconds | None
    """Median time per output token after the first event; None when undefined everywhere."""
    tpot_undefined: Count
    """Completed requests whose tokens all came in one event, so that TPOT is undefined."""
    estimated_requests: Count = 0
    """Requests of which nothing says how many tokens each event carried; their times per token are
    estimates."""
    itl_ms_p50: Milliseconds | None = None
    """Median inter-token latency over all tokens; None where it is withheld or there is none."""
    itl_ms_p90: Milliseconds | None = None
    """90th percentile of the inter-token latency."""
    itl_ms_p99: Milliseconds | None = None
    """99th percentile of the inter-token latency."""
    burst_share: Fraction | None = None
    """Share of gaps between events under 0.2 ms. Above 0.2 the streams came in bursts, and
    percentiles of the inter-token latency are withheld."""
    e2e_ms_p50: Milliseconds | None = None
    """Median time from sent to the last token."""
    e2e_ms_p99: Milliseconds | None = None
    """99th percentile of that time."""
    output_tokens_per_s: TokensPerSecond | None
    """Completion tokens of completed requests / wall time of the cell."""
    tokens_per_s_per_user: TokensPerSecond | None = None
    """Median rate of one stream, 1 / TPOT."""
    p90_interactivity_tokens_per_s: TokensPerSecond | None = None
    """Rate that nine of ten tokens reach: 1 / 90th percentile of the inter-token latency."""
    tokens_per_s_per_gpu: TokensPerSecond | None = None
    """Output throughput / accelerators of the deployment; None without one."""
    goodput_per_s: float | None = Field(default=None, ge=0)
    """Requests per second that keep the cell's objective; None without an objective."""
    mean_acceptance_length: float | None = Field(default=None, ge=1)
    """Tokens per verify step with speculation; None where no draft was verified."""
    text_share: float | None = Field(default=None, ge=0)
    """Tokens that the server's tokenizer finds in the texts / tokens by usage; None where token ids
    made the check needless."""
    role: Literal["compare", "null"] = "compare"
    """Role of the boot; a boot of a null pair is in no ratio of the arms."""
    achieved_concurrency: float | None = Field(default=None, ge=0)
    """Mean requests in flight between filling up and the last one sent; None without requests."""
    client_lag_p99_ms: Milliseconds | None = None
    """99th percentile of the load client's delay; None when it says nothing about itself."""
    client_cpu_share: float | None = Field(default=None, ge=0)
    """Share of one core that its busiest process used."""
    telemetry_gap_ms: Milliseconds | None = None
    """Longest time without a telemetry sample while requests ran; None without telemetry."""
    throttled_share: Fraction | None = None
    """Share of telemetry samples in which an accelerator throttled."""
    telemetry_missing: ShortText | None = None
    """Why nothing is known of the accelerators; None when it is."""


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
    degrees_of_freedom: Count | None = None
    """Degrees of freedom of the spread; None with fewer than two pairs."""
    drift_per_boot: float | None = None
    """Relative drift for one boot, where the plan estimates it; it is taken out of the ratio."""
    slower_p_value: Fraction | None = None
    """Probability of a ratio this low where the arms are equal; None with fewer than two pairs."""
    minimum_detectable_effect: float | None
    """Smallest true relative gain that this many pairs with this spread would find with power
    0.8; None with fewer than two pairs."""


class NullComparison(Record):
    """Output throughput of the A-A pairs of a cell: the second boot / the first."""

    pairs: Count
    """Number of null pairs."""
    farthest_ratio: float = Field(gt=0)
    """The ratio that is farthest from 1."""
    lower: float = Field(gt=0)
    """Lower end of the interval in which all null pairs of a run lie, with the plan's confidence,
    by the spread between its pairs of arms."""
    upper: float = Field(gt=0)
    """Upper end of that interval."""


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
    null: NullComparison | None = None
    """The null pairs; None without any, or with fewer than two pairs of arms to compare with."""


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
    ServingEvidence
    | GreedyEvidence
    | FeatureEvidence
    | KernelCheckEvidence
    | KernelAuditEvidence
    | KernelTimingEvidence,
    Field(discriminator="kind"),
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
    "unexpected_path",
    "wrong_length",
    "client_bound",
    "concurrency_not_reached",
    "not_steady",
    "engine_restarted",
    "speculation",
    "no_telemetry",
    "telemetry_gap",
    "throttled",
    "memory_error",
    "noisy_null_pair",
    "missing_cases",
    "contradicts_itself",
    "implausible_time",
    "wrong_answers",
    "other_accelerator",
    "other_commit",
    "unreadable_answer",
]
"""Stable names of the causes for which a cell cannot be judged."""


class CellInvalid(_CellBase):
    """Cannot be judged: what ran is not what was to be measured, or the records are not whole."""

    status: Literal["INVALID"] = "INVALID"
    """Tag."""
    cause: InvalidCause
    """Stable name of the cause. `measures_stock`: the candidate arm was served by stock.
    `missing_requests`: planned requests have no record, several, or another prompt.
    `unexpected_path`: the candidate served steps that the plan says it leaves to stock.
    `client_bound`: the load client could not keep up. `not_steady`: the warm-up ended before its
    rounds took equally long. `speculation`: drafts were planned and did not run, or were useless.
    `noisy_null_pair`: the baseline differs from itself by more than the spread between pairs
    explains, or two equal arms do. `missing_cases`: a kernel package left out a declared op or
    group. `contradicts_itself`: its command ended otherwise than its lines say.
    `implausible_time`: a time below that of moving the bytes. `wrong_answers`: times of an op that
    is not right. `other_commit`: the package says that it is another commit's.
    `unreadable_answer`: a line of its answers could not be read."""
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


class Regression(Record):
    """A serving cell in which the candidate is slower than the baseline."""

    cell_id: CellId
    """The cell."""
    ratio: float = Field(gt=0)
    """Candidate / baseline output throughput."""
    adjusted_p_value: Fraction
    """p-value after Holm's adjustment for the number of serving cells."""


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
    regressions: tuple[Regression, ...] = ()
    """Serving cells that got slower, the surest first; the probability that any of them did not is
    at most 1 - confidence of the plan."""
    resumed: bool
    """True when the run was interrupted and resumed."""
    limits: tuple[ShortText, ...]
    """What this run cannot show."""
