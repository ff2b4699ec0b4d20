"""Whether two submissions can be compared, and whether one reproduces the other. Pure.

Two runs are compared only where a difference would say something: the same plan, model and engine
on the same kind of machine. One reproduces the other when both pass and an equivalence test holds.
"""

import math
from collections.abc import Iterator
from typing import Final

from k3bundle.canonical import canonical_json, sha256_hex
from k3bundle.verdict import CellSkipped, RatioInterval, ServingEvidence
from k3server.document import SubmissionDocument, summarise
from k3server.submission import Submission
from k3server.workflow_identity import owner_of

__all__ = ["EQUIVALENCE_MARGIN", "differences_of_results", "independent", "reasons_against"]

EQUIVALENCE_MARGIN: Final = 0.05
"""Two ratios are equivalent when they are shown to differ by less than this share."""


def reasons_against(one: SubmissionDocument, other: SubmissionDocument) -> tuple[str, ...]:
    """Why the numbers of two submissions cannot be compared; empty when they can.

    Returns:
        Sentences for a person.
    """
    found = []
    plans = one.manifest.run.plan_sha256, other.manifest.run.plan_sha256
    if plans[0] != plans[1]:
        found.append(_plans_differ(one, other))
    machines = summarise(one).processor, summarise(other).processor
    if machines[0] != machines[1]:
        found.append(f"The machines differ: {machines[0]}, and {machines[1]}.")
    models = _model(one), _model(other)
    if models[0] != models[1]:
        found.append(f"The models differ: {_model_words(one)}, and {_model_words(other)}.")
    engines = summarise(one).engine, summarise(other).engine
    if engines[0] != engines[1]:
        found.append(f"The engines differ: {engines[0]}, and {engines[1]}.")
    return tuple(found)


def _plans_differ(one: SubmissionDocument, other: SubmissionDocument) -> str:
    tiers = f"{one.plan.tier} of {one.plan.subject}, and {other.plan.tier} of {other.plan.subject}"
    if one.plan.tier != other.plan.tier or one.plan.subject != other.plan.subject:
        return f"The plans differ: {tiers}."
    names = [
        name
        for name in type(one.plan).model_fields
        if getattr(one.plan, name) != getattr(other.plan, name)
    ]
    return f"The plans are both {one.plan.tier} of {one.plan.subject}, but differ in " + (
        ", ".join(name.replace("_", " ") for name in names) + "."
    )


def _model(document: SubmissionDocument) -> str:
    return sha256_hex(canonical_json(document.subject.model))


def _model_words(document: SubmissionDocument) -> str:
    model = document.subject.model
    # A kernel package is asked without a model, and its record says so in the name.
    return model.name if document.plan.pairing == "package" else f"{model.name} {model.revision}"


def independent(one: Submission, other: Submission) -> bool:
    """Whether two submissions share no key, name, organisation or accelerator.

    Somebody must be known to stand behind each. Accelerators are known by the digests of their
    serial identities; where a bundle has none, as on a machine without a GPU, two contributors on
    one machine cannot be told from two on two.
    """
    names = one.row.identity, other.row.identity
    organisations = one.row.organisation, other.row.organisation
    return (
        None not in names
        and names[0] != names[1]
        and not _same_owner(*names)
        and one.document.signer_fingerprint != other.document.signer_fingerprint
        and (organisations[0] is None or organisations[0] != organisations[1])
        and not _hardware(one) & _hardware(other)
    )


def _hardware(submission: Submission) -> frozenset[str]:
    gpus = submission.document.environment.gpus
    return frozenset(gpu.hardware for gpu in gpus if gpu.hardware is not None)


def _same_owner(one: str | None, other: str | None) -> bool:
    """Whether an account and a workflow, or two workflows, belong to one GitHub account."""
    owners = [None if name is None else owner_of(name) for name in (one, other)]
    return owners[0] is not None and owners[0] == owners[1]


def differences_of_results(one: SubmissionDocument, other: SubmissionDocument) -> tuple[str, ...]:
    """Why one run does not reproduce the other; empty when it does.

    Both are a PASS of the same plan on the same commit, every cell has the same status, and each
    ratio of each serving cell is equivalent: with d the difference of the logarithms and h1, h2 the
    half-widths of both intervals, |d| + sqrt(h1^2 + h2^2) <= ln(1 + `EQUIVALENCE_MARGIN`). Where
    the plan claims speed, a ratio without an interval shows nothing and is equivalent to none.

    Returns:
        Sentences for a person.
    """
    found = list(reasons_against(one, other))
    if one.manifest.change.commit_sha != other.manifest.change.commit_sha:
        found.append("The commits differ.")
    statuses = one.verdict.status, other.verdict.status
    if statuses != ("PASS", "PASS"):
        found.append(f"The verdicts are {statuses[0]} and {statuses[1]}, not both PASS.")
    if found:
        return tuple(found)
    for mine, theirs in zip(one.verdict.cells, other.verdict.cells, strict=True):
        if mine.status != theirs.status:
            found.append(f"{mine.cell_id} is {mine.status} and {theirs.status}.")
        elif not isinstance(mine, CellSkipped) and not isinstance(theirs, CellSkipped):
            pair = mine.evidence, theirs.evidence
            if isinstance(pair[0], ServingEvidence) and isinstance(pair[1], ServingEvidence):
                found += [
                    f"{mine.cell_id}: {why}"
                    for why in _ratios_differ(
                        *pair,  # type: ignore[arg-type]
                        judged=one.plan.gates.claims_speed,
                    )
                ]
    return tuple(found)


def _ratios_differ(one: ServingEvidence, other: ServingEvidence, *, judged: bool) -> Iterator[str]:
    theirs = {interval.metric: interval for interval in other.intervals}
    for mine in one.intervals:
        match = theirs.get(mine.metric)
        if match is None:
            yield f"only one run has the ratio of {mine.metric}."
            continue
        widths = _half_width(mine), _half_width(match)
        if widths[0] is None or widths[1] is None:
            if judged:
                yield f"the ratio of {mine.metric} has no interval in one of the runs."
            continue
        apart = abs(math.log(mine.ratio) - math.log(match.ratio))
        if apart + math.hypot(widths[0], widths[1]) > math.log1p(EQUIVALENCE_MARGIN):
            yield (
                f"the ratios of {mine.metric}, {mine.ratio:.3f} and {match.ratio:.3f}, are not "
                f"shown to be within {100 * EQUIVALENCE_MARGIN:g} % of each other."
            )


def _half_width(interval: RatioInterval) -> float | None:
    if interval.lower is None or interval.upper is None:
        return None
    low, high = math.log(interval.lower), math.log(interval.upper)
    return max(math.log(interval.ratio) - low, high - math.log(interval.ratio))
