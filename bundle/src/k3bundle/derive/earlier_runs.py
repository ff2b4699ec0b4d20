"""What follows from the runs of a plan that were started before this one.

A PASS at confidence c is wrong at most 1 - c of the time; among n runs of which the best is shown,
up to n times as often. Nothing is judged differently for it: how often a plan was tried is said,
with the level that is left, and the reader decides.
"""

from collections import Counter
from typing import Final

from k3bundle.bundle import RunRecords
from k3bundle.derive.sentences import counted, percent
from k3bundle.earlier_record import EarlierRuns

__all__ = ["earlier_limits", "run_number", "run_words"]

_NOT_SEALED: Final = "never sealed"


def run_number(records: RunRecords) -> int | None:
    """Which run of its plan this is, from 1; None where nothing was remembered."""
    earlier = records.earlier
    if earlier is None or earlier.why_unknown is not None:
        return None
    return len(earlier.runs) + earlier.left_out + 1


def run_words(records: RunRecords) -> str:
    """The end of a verdict's sentence on speed, where this is not the first run of the plan."""
    number = run_number(records)
    if number is None or number == 1 or not records.plan.gates.claims_speed:
        return ""
    return f" This is run {number} of its plan for this commit here."


def earlier_limits(records: RunRecords) -> tuple[str, ...]:
    """Sentences for the verdict's limits."""
    earlier = records.earlier
    if earlier is None:
        return ()
    if earlier.why_unknown is not None:
        why = earlier.why_unknown.rstrip(".")
        return (f"Whether the plan was run before is not known: {why}.",)
    said = []
    number = run_number(records) or 1
    if number > 1:
        said.append(_before(records, earlier, number))
    if earlier.other_plans:
        plans = counted(earlier.other_plans, "run of another plan", "runs of other plans")
        said.append(f"{plans} for this commit were started here before.")
    return tuple(said)


def _before(records: RunRecords, earlier: EarlierRuns, number: int) -> str:
    outcomes = Counter(run.verdict or _NOT_SEALED for run in earlier.runs)
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    more = f", {earlier.left_out} not listed" if earlier.left_out else ""
    words = f"This plan was started {counted(number - 1, 'time')} here before: {told}{more}."
    if not records.plan.gates.claims_speed:
        return words
    level = min(1.0, number * (1 - records.plan.gates.confidence))
    return (
        f"{words} That one of {number} runs passes by chance has a probability of up to "
        f"{percent(level)} where a single run has {percent(1 - records.plan.gates.confidence)}."
    )
