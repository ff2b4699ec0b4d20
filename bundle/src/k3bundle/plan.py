"""A plan: cells, boots in order, gates. Its digest is what two runs must share to be compared.

The nonce is not part of a plan: two contributors who run one plan get different prompts and the
same plan digest.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from k3bundle.record import CellId, Count, Fraction, Nats, Record, ShortText
from k3bundle.subject import ArmName, ArmSpec

__all__ = [
    "BootSlot",
    "CellPlan",
    "FeatureCell",
    "FeatureName",
    "Gates",
    "GreedyCell",
    "Plan",
    "ServingCell",
    "SkippedCell",
    "TierName",
]

TierName = Literal["smoke", "kernels", "quick", "standard", "full"]
"""The tiers of the standard evaluation, by cost."""

FeatureName = Literal["structured_output", "sampling", "streaming", "chat"]
"""Serving features that a feature cell can exercise."""


class ServingCell(Record):
    """Timed streams at a fixed concurrency."""

    kind: Literal["serving"] = "serving"
    """Tag."""
    cell_id: CellId
    """Name, unique in the plan."""
    endpoint: Literal["completions", "chat"]
    """Which OpenAI endpoint is streamed."""
    concurrency: int = Field(ge=1, le=65536)
    """Requests in flight, closed loop."""
    prompt_tokens: int = Field(ge=1)
    """Exact length of each prompt in tokens (completions), or a target for chat."""
    output_tokens: int = Field(ge=1)
    """Exact number of tokens asked for; end-of-sequence is ignored."""
    warmup_requests: Count
    """Requests sent first and not measured."""
    request_count: int = Field(ge=1)
    """Measured requests."""


class GreedyCell(Record):
    """Greedy outputs of the arms, compared token by token."""

    kind: Literal["greedy"] = "greedy"
    """Tag."""
    cell_id: CellId
    """Name, unique in the plan."""
    concurrency: int = Field(ge=1, le=65536)
    """Requests in flight."""
    prompt_tokens: tuple[int, ...] = Field(min_length=1)
    """Length of each prompt in tokens; one request per entry."""
    output_tokens: int = Field(ge=1)
    """Tokens generated for each prompt."""


class FeatureCell(Record):
    """One serving feature, exercised the same way in both arms."""

    kind: Literal["feature"] = "feature"
    """Tag."""
    cell_id: CellId
    """Name, unique in the plan."""
    feature: FeatureName
    """Which feature."""
    request_count: int = Field(ge=1)
    """Distinct prompts; a feature may send several requests for each."""
    output_tokens: int = Field(ge=1)
    """Token limit of each request."""
    json_schema: dict[str, Any] | None = None
    """Schema that a structured output must satisfy; only for `structured_output`."""


class SkippedCell(Record):
    """A cell the tier names but this node or subject cannot run."""

    kind: Literal["skipped"] = "skipped"
    """Tag."""
    cell_id: CellId
    """Name, unique in the plan."""
    reason: ShortText
    """Why it is skipped, in one sentence."""


CellPlan = Annotated[
    ServingCell | GreedyCell | FeatureCell | SkippedCell, Field(discriminator="kind")
]
"""One planned cell; `kind` says which."""


class BootSlot(Record):
    """One planned start of the engine. Slots are run in order."""

    slot: Count
    """Position in boot order, from 0."""
    arm: ArmName
    """Which arm is started."""
    pair: Count
    """Which pair it belongs to; a pair is one baseline and one candidate boot."""


class Gates(Record):
    """Thresholds. They are part of the plan, so they cannot change after a result is seen."""

    minimum_decode_coverage: Fraction
    """Least share of decode steps that the arm's expected path must serve in every cell."""
    logprob_tolerance_nats: Nats
    """Largest allowed difference of a chosen token's log-probability between arms."""
    tie_margin_nats: Nats
    """Baseline gap between the best two tokens at or under which a differing token is a tie."""
    minimum_decided_share: Fraction
    """Least share of compared positions whose baseline gap exceeds the tie margin."""
    maximum_error_rate: Fraction
    """Largest share of failed requests in a serving cell that still counts."""
    maximum_prefix_hit_rate: Fraction
    """Largest share of prompt tokens served from the prefix cache in a serving cell."""
    claims_speed: bool
    """Whether this tier may claim that the candidate is faster. Never true for `smoke`."""
    minimum_speed_ratio: float = Field(gt=0)
    """Ratio candidate/baseline throughput that the lower bound must exceed for PASS."""
    confidence: float = Field(gt=0.5, lt=1)
    """One-sided confidence of the bounds, for example 0.95."""


class Plan(Record):
    """Everything decided before the first boot."""

    schema_version: Literal["1"] = "1"
    """Record format version."""
    tier: TierName
    """Tier that was asked for."""
    subject: str = Field(max_length=80)
    """Name of the subject definition."""
    pairing: Literal["paired", "single"]
    """`paired`: both arms in ABBA order. `single`: one existing server, nothing to compare."""
    arms: tuple[ArmSpec, ...] = Field(min_length=1, max_length=2)
    """The arms; the baseline first."""
    allowed_config_differences: tuple[str, ...]
    """Keys of the effective engine configuration in which the arms may differ."""
    cells: tuple[CellPlan, ...] = Field(min_length=1)
    """All cells; each one that is not skipped runs in every boot."""
    boots: tuple[BootSlot, ...] = Field(min_length=1)
    """Boots in order, for example A-B-B-A."""
    gates: Gates
    """Thresholds."""
    limits: tuple[ShortText, ...]
    """What a run of this plan cannot show, in sentences for the report."""
