"""About how long a plan takes and how many GPU-hours that is. Pure; nothing is judged by it.

    boot = load of the weights + sum over its cells
    cell = rounds x (prompts' tokens / prefill rate + output tokens x step time)

A round is as many requests as are in flight; a step gets longer with each of them by a constant.
Warm-up is taken to be steady as soon as it can be.
"""

from dataclasses import dataclass

from k3bundle.plan import Deployment, KernelCell, Plan, ServingCell
from k3bundle.schedule import RunnableCell, cells_in, prompt_count
from k3runner.load.steady import AGREEING_ROUNDS
from k3runner.subjects.definition import DurationGuess

__all__ = ["PlanCost", "cell_seconds", "plan_cost"]

_FEATURE_PROMPT_TOKENS = 64
_FEATURE_ANSWERS = 3
"""A feature sends up to three requests for each prompt."""


@dataclass(frozen=True)
class PlanCost:
    """An estimate."""

    boots: int
    """Starts of the engine, each a load of the weights."""
    wall_s: float
    """From the first boot to the last answer."""
    gpu_hours: float
    """Wall time of each boot times the GPUs of its deployment; 0 without GPUs."""


def plan_cost(plan: Plan, guess: DurationGuess) -> PlanCost:
    """Estimate a plan.

    Args:
        plan: The plan.
        guess: Rates of the subject.
    """
    deployments: dict[str, Deployment] = {one.name: one for one in plan.deployments}
    wall_s = gpu_s = 0.0
    if plan.pairing == "package":
        # What a package takes is its own; its commands are ended at their limits.
        limits_s = sum(cell.limit_s for cell in plan.cells if isinstance(cell, KernelCell))
        return PlanCost(boots=1, wall_s=limits_s, gpu_hours=limits_s / 3600)
    for slot in plan.boots:
        boot_s = guess.load_s + sum(cell_seconds(cell, guess) for cell in cells_in(plan, slot))
        wall_s += boot_s
        gpu_s += boot_s * deployments[slot.deployment].gpu_count
    return PlanCost(boots=len(plan.boots), wall_s=wall_s, gpu_hours=gpu_s / 3600)


def cell_seconds(cell: RunnableCell, guess: DurationGuess) -> float:
    """Estimate one cell in one boot, in seconds."""
    if isinstance(cell, ServingCell):
        warmup = cell.warmup_requests * min(cell.warmup_rounds, AGREEING_ROUNDS + 1)
        requests, streams = warmup + cell.request_count, cell.concurrency
        prompt = float(cell.prompt_tokens)
    elif cell.kind == "greedy":
        requests, streams = prompt_count(cell), cell.concurrency
        prompt = sum(cell.prompt_tokens) / requests
    else:
        requests, streams, prompt = _FEATURE_ANSWERS * cell.request_count, 1, _FEATURE_PROMPT_TOKENS
    together = min(streams, requests)
    rounds = requests / together
    step_s = (guess.step_ms + guess.step_ms_per_request * (together - 1)) / 1e3
    return rounds * (together * prompt / guess.prefill_tokens_per_s + cell.output_tokens * step_s)
