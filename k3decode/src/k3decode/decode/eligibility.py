"""What a deployment must be for the plugin to start: refused at start-up, never silently served."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from k3decode.decode.facts import PreparedScope

__all__ = [
    "MODEL_RULES",
    "StartupFacts",
    "applying",
    "candidate_rules",
    "refusals",
    "stop_start_up",
]

Facts = TypeVar("Facts")


@dataclass(frozen=True)
class StartupFacts:
    """What the engine was started with."""

    device: str
    """Device type the engine runs on, for example `cpu`."""
    weight_type: str
    """Number format of weights and activations, for example `float32`."""
    cache_type: str
    """Number format of the attention cache as configured, for example `auto`."""
    tensor_parallel: int
    pipeline_parallel: int
    decode_context_parallel: int
    lora: bool
    graph_replay: bool
    """Whether steps may be replayed from captured graphs without running Python."""
    second_runner: bool
    """Whether the engine's second model runner is used instead of the first."""
    prefix_caching: bool
    """Whether prompts may start from cached state."""
    draft_tokens: int
    """Draft tokens of each request and step; 0 without speculation."""


Rule = tuple[Callable[[StartupFacts], bool], str]

MODEL_RULES: tuple[Rule, ...] = (
    (
        lambda facts: facts.device != "cpu",
        "the model is a CPU reference without kernels: start the engine on a CPU",
    ),
    (
        lambda facts: facts.weight_type != "float32",
        "the references are fp32: pass --dtype float32",
    ),
    (
        lambda facts: facts.cache_type not in ("auto", "float32"),
        "the attention cache is fp32: leave --kv-cache-dtype at auto",
    ),
    (
        lambda facts: facts.tensor_parallel != 1,
        "weights are not sharded: pass --tensor-parallel-size 1",
    ),
    (
        lambda facts: facts.pipeline_parallel != 1,
        "residual blocks do not cross pipeline stages: pass --pipeline-parallel-size 1",
    ),
    (
        lambda facts: facts.decode_context_parallel != 1,
        "attention is not split over contexts: pass --decode-context-parallel-size 1",
    ),
    (
        lambda facts: facts.lora,
        "adapters are not applied: start without --enable-lora",
    ),
    (
        lambda facts: facts.graph_replay,
        "steps are counted in Python, which a replayed graph skips: pass --enforce-eager",
    ),
    (
        lambda facts: facts.second_runner,
        "state pages are read as the first model runner lays them out: use that runner",
    ),
    (
        lambda facts: facts.prefix_caching and facts.draft_tokens > 0,
        "the engine copies cached state under speculation with GPU kernels: pass "
        "--no-enable-prefix-caching, or no --speculative-config",
    ),
)
"""What the model class needs under either backend: condition that refuses, and reason."""


def candidate_rules(scope: PreparedScope) -> tuple[Rule, ...]:
    """What the candidate needs beyond the model's rules, given its scope."""
    return (
        (
            lambda facts: facts.draft_tokens > scope.max_draft_tokens,
            f"the candidate verifies at most {scope.max_draft_tokens} draft tokens: lower "
            "num_speculative_tokens",
        ),
    )


def refusals(facts: StartupFacts, candidate_scope: PreparedScope | None) -> tuple[str, ...]:
    """Every reason not to start; empty when the deployment is eligible.

    Args:
        facts: what the engine was started with.
        candidate_scope: the candidate's scope when it was asked for, else None.
    """
    rules = MODEL_RULES
    if candidate_scope is not None:
        rules += candidate_rules(candidate_scope)
    return applying(rules, facts)


def applying(rules: Iterable[tuple[Callable[[Facts], bool], str]], facts: Facts) -> tuple[str, ...]:
    """Reasons of all rules whose condition holds of the facts, in the rules' order."""
    return tuple(reason for applies, reason in rules if applies(facts))


def stop_start_up(reasons: tuple[str, ...]) -> None:
    """Stop the start-up of a deployment that could not be served rightly; nothing without reasons.

    Raises:
        ValueError: every reason, in sentences.
    """
    if reasons:
        raise ValueError(f"k3decode cannot serve this deployment: {'; '.join(reasons)}")
