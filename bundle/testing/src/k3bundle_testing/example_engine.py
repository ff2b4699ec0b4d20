"""What the engine of an example run says about itself: steps by path, graphs, counters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from k3bundle.coverage import CoverageSnapshot, EngineCounters, StepCount
from k3bundle.graph_record import GraphEvent, GraphMode, GraphRow, GraphTable, KernelProfile
from k3bundle.plan import BootSlot, FeatureCell, Plan, ServingCell
from k3bundle.request import Completed, RequestRecord
from k3bundle.schedule import RunnableCell, cells_in
from k3bundle.step_tokens import step_tokens
from k3bundle.subject import ArmSpec

__all__ = ["ServedSteps", "arm_of", "example_counters", "example_coverage", "example_graphs"]

_STEPS_PER_CELL: Final = 40
_PROMPT_STEPS: Final = 4
_CAPTURE_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_PROMPT_TOKENS: Final = 8192
"""Tokens of a step that holds prompts: more than any decode step."""
_COUNTED_BEFORE: Final = 1e7
"""Prompt tokens that the engine counts before each cell, times the cell's number: more than a cell
brings."""
_STOCK_KERNELS: Final = ("stock_attention", "stock_gemm")
_ACCEPTED_TOKENS: Final = 2
"""Draft tokens accepted of each verified draft."""
_Moment = Literal["before", "after"]
_MOMENTS: Final[tuple[_Moment, _Moment]] = ("before", "after")


@dataclass(frozen=True)
class ServedSteps:
    """Which path served the steps of one boot."""

    plan: Plan
    slot: BootSlot
    boot_id: str
    candidate_path: str | None
    """Path of the candidate's decode steps; None: as the plan says."""

    @property
    def arm(self) -> ArmSpec:
        """The arm of the boot."""
        return arm_of(self.plan, self.slot)

    def path(self, cell: RunnableCell) -> str:
        """Path of the decode steps of a cell."""
        if self.slot.arm == "baseline":
            return self.arm.expected_path
        if isinstance(cell, ServingCell) and cell.expects_fallback:
            return self.plan.arms[0].expected_path
        return self.candidate_path or self.arm.expected_path


def arm_of(plan: Plan, slot: BootSlot) -> ArmSpec:
    """The arm that a slot starts."""
    return next(arm for arm in plan.arms if arm.name == slot.arm)


def example_coverage(steps: ServedSteps, *, available: bool = True) -> tuple[CoverageSnapshot, ...]:
    """Step counts before and after each cell of a boot; without counts where there are none."""
    found: list[CoverageSnapshot] = []
    counted: dict[tuple[Literal["decode", "prefill"], str, str | None], int] = {}
    for cell in cells_in(steps.plan, steps.slot):
        for moment in _MOMENTS:
            if moment == "after":
                path = steps.path(cell)
                aside = path != steps.arm.expected_path
                reason = "The batch is larger than the plan allows." if aside else None
                decode = counted.get(("decode", path, reason), 0)
                counted["decode", path, reason] = decode + _STEPS_PER_CELL
                prefill = counted.get(("prefill", "stock", None), 0)
                counted["prefill", "stock", None] = prefill + _PROMPT_STEPS
            counts = tuple(
                StepCount(kind=kind, path=path, reason=reason, count=count)
                for (kind, path, reason), count in counted.items()
            )
            found.append(
                CoverageSnapshot(
                    boot_id=steps.boot_id,
                    cell_id=cell.cell_id,
                    moment=moment,
                    source="host" if available else "unavailable",
                    configured_backend=steps.arm.decode_backend if available else None,
                    counts=counts if available else (),
                )
            )
    return tuple(found)


def example_graphs(steps: ServedSteps) -> tuple[GraphEvent, ...]:
    """Tables of replayed graphs around each cell of a boot, and the kernels of every size."""
    found: list[GraphEvent] = []
    counted: dict[tuple[int, int, GraphMode], int] = {}
    profiles: dict[int, KernelProfile] = {}
    for cell in cells_in(steps.plan, steps.slot):
        tokens = _tokens(steps.plan, cell)
        size = next(one for one in _CAPTURE_SIZES if one >= tokens)
        found.append(_table(steps, cell, "before", counted))
        rows: tuple[tuple[int, int, GraphMode, int], ...] = (
            (tokens, size, "FULL", _STEPS_PER_CELL),
            (_PROMPT_TOKENS, _PROMPT_TOKENS, "NONE", _PROMPT_STEPS),
        )
        for unpadded, padded, mode, count in rows:
            key = (unpadded, padded, mode)
            counted[key] = counted.get(key, 0) + count
        found.append(_table(steps, cell, "after", counted))
        profiles[size] = _profile(steps, cell, size)
    return (*found, *profiles.values())


def _tokens(plan: Plan, cell: RunnableCell) -> int:
    """Tokens of a decode step of the cell. Feature cells send one request at a time."""
    requests = 1 if isinstance(cell, FeatureCell) else cell.concurrency
    return step_tokens(requests, _drafts(plan, cell.deployment))


def _drafts(plan: Plan, deployment: str) -> int:
    return next(one.draft_tokens for one in plan.deployments if one.name == deployment)


def _table(
    steps: ServedSteps,
    cell: RunnableCell,
    moment: _Moment,
    counted: dict[tuple[int, int, GraphMode], int],
) -> GraphTable:
    return GraphTable(
        boot_id=steps.boot_id,
        cell_id=cell.cell_id,
        moment=moment,
        capture_sizes=_CAPTURE_SIZES,
        rows=tuple(
            GraphRow(unpadded_tokens=unpadded, padded_tokens=padded, mode=mode, count=count)
            for (unpadded, padded, mode), count in counted.items()
        ),
    )


def _profile(steps: ServedSteps, cell: RunnableCell, size: int) -> KernelProfile:
    own = steps.arm.kernel_patterns if steps.path(cell) == steps.arm.expected_path else ()
    kernels = (*_STOCK_KERNELS, *(pattern.replace("*", "_example_") for pattern in own))
    return KernelProfile(
        boot_id=steps.boot_id,
        unpadded_tokens=size,
        steps=8,
        graph_steps=8,
        kernels=tuple(sorted(kernels)),
    )


def example_counters(
    plan: Plan, cell: RunnableCell, boot_id: str, number: int, records: Sequence[RequestRecord]
) -> tuple[EngineCounters, ...]:
    """Counters of the engine before and after the cell with this number in its boot."""
    completed = [r.outcome for r in records if isinstance(r.outcome, Completed)]
    drafts = _drafts(plan, cell.deployment)
    verified = float(max(1, sum(one.completion_tokens for one in completed) // 3))
    before = {
        "vllm:generation_tokens_total": _COUNTED_BEFORE * number,
        "vllm:prefix_cache_hits_total": 0.0,
        "vllm:prefix_cache_queries_total": _COUNTED_BEFORE * number,
        "vllm:prompt_tokens_total": _COUNTED_BEFORE * number,
    }
    prompts = float(sum(one.prompt_tokens for one in completed))
    growth = {
        "vllm:generation_tokens_total": float(sum(one.completion_tokens for one in completed)),
        "vllm:prefix_cache_hits_total": 0.0,
        "vllm:prefix_cache_queries_total": prompts,
        "vllm:prompt_tokens_total": prompts,
    }
    if drafts:
        growth |= {
            "vllm:spec_decode_num_drafts_total": verified,
            "vllm:spec_decode_num_draft_tokens_total": verified * drafts,
            "vllm:spec_decode_num_accepted_tokens_total": verified * _ACCEPTED_TOKENS,
        }
        before |= {name: _COUNTED_BEFORE * number for name in growth if "spec_decode" in name}
    after = {name: before[name] + grown for name, grown in growth.items()}
    values: tuple[tuple[_Moment, dict[str, float]], ...] = (("before", before), ("after", after))
    return tuple(
        EngineCounters(boot_id=boot_id, cell_id=cell.cell_id, moment=moment, counters=counters)
        for moment, counters in values
    )
