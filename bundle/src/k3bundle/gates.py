"""Thresholds of a plan. They are fixed and hashed before the first boot."""

from pydantic import Field

from k3bundle.record import Fraction, Milliseconds, Nats, Record

__all__ = ["Gates"]


class Gates(Record):
    """Thresholds. They are part of the plan, so they cannot change after a result is seen.

    Gates that may be None are reported without being judged where they are; a plan that claims
    speed must set those of the load client.
    """

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
    """Largest share of prompt tokens served from the prefix cache in a serving cell, beyond the
    prefix that its prompts share by plan."""
    claims_speed: bool
    """Whether this tier may claim that the candidate is faster. Never true for `smoke`."""
    minimum_speed_ratio: float = Field(gt=0)
    """Ratio candidate/baseline throughput that the lower bound must exceed for PASS."""
    confidence: float = Field(gt=0.5, lt=1)
    """One-sided confidence of the bounds, for example 0.95."""
    non_inferiority_margin: float = Field(default=0.01, gt=0, lt=1)
    """Largest share of the baseline's throughput that a non-inferiority cell may lose, where the
    cell does not say otherwise."""
    drift_adjusted: bool = False
    """Whether a linear drift over boots is estimated with the ratio, at the price of one degree of
    freedom, where there are at least three pairs."""
    null_tolerance: float = Field(default=0.005, gt=0, lt=1)
    """Relative difference within a null pair that never counts as noise, however small the spread
    between pairs is."""
    maximum_client_lag_ms: Milliseconds | None = None
    """Largest 99th percentile of the delay of the load client's event loop in a serving cell."""
    maximum_client_cpu_share: Fraction | None = None
    """Largest share of one core that the busiest process of the load client may use."""
    maximum_concurrency_shortfall: Fraction | None = None
    """Largest share by which a closed loop may fall short of its planned concurrency."""
    require_telemetry: bool = False
    """Whether a serving cell without telemetry of its accelerators cannot be judged. Where this is
    False, such a cell says that it has none."""
    maximum_telemetry_gap_ms: Milliseconds | None = None
    """Largest time between two telemetry samples during a serving cell."""
    maximum_throttled_share: Fraction | None = None
    """Largest share of telemetry samples of a serving cell in which an accelerator throttled."""
