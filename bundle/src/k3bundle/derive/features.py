"""Checks of serving features, the same in both arms.

- `structured_output`: each answer is JSON that satisfies the plan's schema.
- `sampling`: a seeded request repeated gives the same tokens; another seed gives others for at
  least one prompt of the cell.
- `streaming`: streamed and whole answers have the same tokens and text.
- `chat`: streamed and whole chat answers have the same text, and usage is there.

A failed request fails every check that needs it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from k3bundle.derive.json_check import checking_cost, mismatch, schema_refusal
from k3bundle.derive.selection import CellBoot
from k3bundle.derive.sentences import quote
from k3bundle.plan import FeatureCell, FeatureName
from k3bundle.request import RequestRecord

__all__ = ["VARIANTS", "FeatureChecks", "check_feature", "feature_refusal"]

VARIANTS: Final[Mapping[FeatureName, tuple[str, ...]]] = {
    "structured_output": ("stream",),
    "sampling": ("seeded", "seeded_repeat", "other_seed"),
    "streaming": ("stream", "block"),
    "chat": ("stream", "block"),
}
"""The requests that each feature sends for one prompt."""

_MOST_WORK_PER_BOOT: Final = 2_000_000
"""Cost of checking all structured outputs of a cell in one boot."""

_Prompt = Mapping[str, RequestRecord]
"""Variant -> request, for one prompt."""


@dataclass(frozen=True)
class FeatureChecks:
    """The checks of one feature cell in one boot."""

    passed: int
    total: int
    failures: tuple[str, ...]
    """The failed checks in words, by prompt."""
    failed_requests: tuple[str, ...]
    """The requests among them that failed outright."""


def feature_refusal(cell: FeatureCell) -> str | None:
    """Say why a feature cell cannot be checked at all; None when it can."""
    if cell.feature != "structured_output":
        return None
    refusal = schema_refusal(cell.json_schema)
    return None if refusal is None else f"The schema of the plan cannot be checked: {refusal}."


def check_feature(cell: FeatureCell, boot: CellBoot) -> FeatureChecks:
    """Check one feature in one boot.

    Args:
        cell: A cell that `feature_refusal` does not refuse.
        boot: A boot that holds every variant of every prompt exactly once.
    """
    prompts: dict[int, dict[str, RequestRecord]] = {}
    for request in boot.requests:
        if request.variant in VARIANTS[cell.feature]:
            prompts.setdefault(request.index, {})[request.variant] = request
    failed_requests: list[str] = []
    failures: list[str] = []
    work = 0
    for index in sorted(prompts):
        prompt = prompts[index]
        where = f"prompt {index} in boot {boot.slot.slot} ({boot.slot.arm})"
        broken = [_failure(r) for r in prompt.values() if r.outcome.status == "failed"]
        if broken:
            failed_requests.append(f"{where}: {broken[0]}")
            failures.append(failed_requests[-1])
            continue
        if cell.feature == "structured_output" and cell.json_schema is not None:
            work += checking_cost(prompt["stream"].text or "", cell.json_schema)
        finding = (
            "was not checked, because the answers of this boot are too large together"
            if work > _MOST_WORK_PER_BOOT
            else _CHECKS[cell.feature](prompt, cell.json_schema or {})
        )
        if finding is not None:
            failures.append(f"{where}: {finding}")
    total = len(prompts)
    if cell.feature == "sampling":
        total += 1
        if not any(_seeds_differ(prompt) for prompt in prompts.values()):
            failures.append(
                f"boot {boot.slot.slot} ({boot.slot.arm}): another seed gave the same tokens for "
                "every prompt"
            )
    return FeatureChecks(
        passed=total - len(failures),
        total=total,
        failures=tuple(failures),
        failed_requests=tuple(failed_requests),
    )


def _failure(request: RequestRecord) -> str:
    if request.outcome.status != "failed":
        return ""
    return f"the {request.variant} request failed ({request.outcome.error})"


def _check_structured_output(prompt: _Prompt, schema: dict[str, Any]) -> str | None:
    text = prompt["stream"].text
    if text is None:
        return "no text was recorded"
    finding = mismatch(text, schema)
    return None if finding is None else f"the answer {finding}"


def _check_sampling(prompt: _Prompt, _schema: dict[str, Any]) -> str | None:
    if _same_answer(prompt["seeded"], prompt["seeded_repeat"]):
        return None
    return "the same seed gave other tokens when repeated"


def _check_streaming(prompt: _Prompt, _schema: dict[str, Any]) -> str | None:
    stream, block = prompt["stream"], prompt["block"]
    nothing = _without_tokens((stream, block))
    if nothing is not None:
        return nothing
    if stream.text_sha256 != block.text_sha256:
        return "the streamed text differs from the whole answer"
    return None if _same_answer(stream, block) else "the streamed tokens differ"


def _check_chat(prompt: _Prompt, _schema: dict[str, Any]) -> str | None:
    stream, block = prompt["stream"], prompt["block"]
    nothing = _without_tokens((stream, block))
    if nothing is not None:
        return nothing
    if stream.text_sha256 != block.text_sha256:
        return "the streamed chat text differs from the whole answer"
    return None


_CHECKS: Final[Mapping[FeatureName, Callable[[_Prompt, dict[str, Any]], str | None]]] = {
    "structured_output": _check_structured_output,
    "sampling": _check_sampling,
    "streaming": _check_streaming,
    "chat": _check_chat,
}


def _without_tokens(requests: Sequence[RequestRecord]) -> str | None:
    """Two empty answers are equal and show nothing."""
    for request in requests:
        outcome = request.outcome
        if outcome.status == "completed" and not (
            outcome.completion_tokens and outcome.prompt_tokens
        ):
            return f"the {quote(request.variant)} answer reports no tokens in its usage"
    return None


def _seeds_differ(prompt: _Prompt) -> bool:
    seeded, other = prompt["seeded"], prompt["other_seed"]
    if "failed" in (seeded.outcome.status, other.outcome.status):
        return False
    return not _same_answer(seeded, other)


def _same_answer(first: RequestRecord, second: RequestRecord) -> bool:
    if first.token_ids is not None and second.token_ids is not None:
        return first.token_ids == second.token_ids
    return first.text_sha256 == second.text_sha256
