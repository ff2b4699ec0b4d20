"""Speculative decoding during a cell, from the engine's counters.

    mean acceptance length = 1 + accepted tokens / drafts
    acceptance rate        = accepted tokens / draft tokens

each as the growth between two snapshots. Without a draft there is no length: speculation did not
run, which is no length of 1. With drafts of which no token was ever accepted the length is exactly
1: the drafts come from something that does not know the model, and cost time for nothing.
"""

from dataclasses import dataclass
from typing import Final

from k3bundle.coverage import EngineCounters
from k3bundle.derive.selection import Bracket

__all__ = ["ACCEPTED", "DRAFTS", "DRAFT_TOKENS", "SpeculationReading", "read_speculation"]

DRAFTS: Final = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS: Final = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED: Final = "vllm:spec_decode_num_accepted_tokens_total"


@dataclass(frozen=True)
class SpeculationReading:
    """What one boot says about its drafts during a cell."""

    drafts: int | None
    """Drafts that were verified; None where the engine does not count them."""
    mean_acceptance_length: float | None
    """Tokens per verify step; None without a draft."""
    acceptance_rate: float | None
    """Share of draft tokens that were accepted; None without a draft token."""
    problem: str | None
    """Why the counters cannot be right, or show that drafts are useless; None when all is well."""


def read_speculation(counters: Bracket[EngineCounters], draft_tokens: int) -> SpeculationReading:
    """Read the speculation counters of one cell in one boot.

    Args:
        counters: Snapshots before and after the cell.
        draft_tokens: Draft tokens per request and step by the plan; 0: no speculation.
    """
    before = counters.before.counters if counters.before else {}
    after = counters.after.counters if counters.after else {}
    if DRAFTS not in after:
        missing = "speculation was planned, and the engine counts no drafts"
        return SpeculationReading(None, None, None, missing if draft_tokens else None)
    names = (DRAFTS, DRAFT_TOKENS, ACCEPTED)
    growth = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in names}
    backwards = next((name for name in names if growth[name] < 0), None)
    if backwards is not None:
        problem = f"the counter {backwards} went backwards during the cell"
        return SpeculationReading(None, None, None, problem)
    drafts, proposed, accepted = (growth[name] for name in names)
    if accepted > proposed:
        problem = "more draft tokens were accepted than proposed"
        return SpeculationReading(round(drafts), None, None, problem)
    if drafts == 0:
        missing = "speculation was planned and did not run: no draft was verified"
        return SpeculationReading(0, None, None, missing if draft_tokens else None)
    return SpeculationReading(
        drafts=round(drafts),
        mean_acceptance_length=1 + accepted / drafts,
        acceptance_rate=accepted / proposed if proposed else None,
        problem=None
        if accepted
        else f"none of {round(proposed)} draft tokens was accepted: the drafts are useless",
    )
