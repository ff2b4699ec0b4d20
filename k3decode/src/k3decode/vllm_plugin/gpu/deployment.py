"""What a GPU deployment must be for the decode path: one table, asked once, before weights load.

Pure: conditions over facts. Everything that was never run is refused, so that nobody measures it.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

from k3decode.decode.eligibility import applying
from k3decode.decode.shard import shard_dims
from k3decode.dims import K3Dims

__all__ = ["RULES", "DeploymentFacts", "Rule", "ranks_of", "refusals"]

_RANKS = (8,)
_FREE = frozenset({"num_hidden_layers", "max_position_embeddings"})


@dataclass(frozen=True)
class DeploymentFacts:
    """What the engine was started with."""

    vllm: str
    """Version, for example `0.33.0`."""
    capability: tuple[int, int]
    """Compute capability of the GPU; (0, 0) without one."""
    dims: K3Dims
    """Widths of the model that the engine loads."""
    weight_type: str
    """Number format of weights and activations, for example `bfloat16`."""
    cache_type: str
    """Number format of the attention cache as configured, for example `auto`."""
    state_types: tuple[str, ...]
    """Number formats of KDA's taps and memory."""
    state_channels_first: bool
    """Whether the taps lie channel by channel instead of token by token."""
    expert_format: str
    """Quantisation of the routed experts, for example `mxfp4`."""
    graphs: str
    """Which steps are captured, by the engine's name for it, for example `FULL_DECODE_ONLY`."""
    second_runner: bool
    """Whether the engine's second model runner is used."""
    tensor_parallel: int
    pipeline_parallel: int
    decode_context_parallel: int
    expert_parallel: bool
    data_parallel: int
    two_batches: bool
    """Whether a step is split in two batches that overlap."""
    draft_tokens: int
    prefix_caching: bool
    lora: bool
    sleep: bool
    """Whether weights may leave the GPU while the engine runs."""


Rule = tuple[Callable[[DeploymentFacts], bool], str]

RULES: tuple[Rule, ...] = (
    (
        lambda facts: facts.vllm != "0.33.0",
        "layers and metadata are read as vLLM 0.33.0 has them: install that version",
    ),
    (
        lambda facts: facts.capability != (9, 0),
        "inside vLLM the kernels ran on Hopper only: use a GPU of compute capability 9.0",
    ),
    (
        lambda facts: ranks_of(facts.dims) is None,
        "inside vLLM only the widths of one rank of 8 of Kimi K3 ran: serve a model of such widths",
    ),
    (
        lambda facts: facts.weight_type != "bfloat16",
        "activations between kernels are BF16: pass --dtype bfloat16",
    ),
    (
        lambda facts: facts.cache_type not in ("auto", "bfloat16"),
        "the launches of a step write a BF16 attention cache: leave --kv-cache-dtype at auto",
    ),
    (
        lambda facts: facts.state_types != ("bfloat16", "float32"),
        "KDA keeps BF16 taps and an FP32 memory: leave --mamba-cache-dtype and "
        "--mamba-ssm-cache-dtype at auto",
    ),
    (
        lambda facts: facts.state_channels_first,
        "KDA's taps are read token by token: unset VLLM_SSM_CONV_STATE_LAYOUT",
    ),
    (
        lambda facts: facts.expert_format != "mxfp4",
        "routed experts are packed from MXFP4 bytes: serve a checkpoint that has them",
    ),
    (
        lambda facts: facts.graphs not in ("FULL_DECODE_ONLY", "NONE"),
        "it never ran beside captured pieces of prompts: set cudagraph_mode to FULL_DECODE_ONLY",
    ),
    (
        lambda facts: not facts.second_runner,
        "state is bound by hooks of the second model runner: set VLLM_USE_V2_MODEL_RUNNER=1",
    ),
    (
        lambda facts: facts.tensor_parallel != 1,
        "ranks do not exchange inside vLLM yet: pass --tensor-parallel-size 1",
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
        lambda facts: facts.expert_parallel,
        "every rank has a part of each expert: start without --enable-expert-parallel",
    ),
    (
        lambda facts: facts.data_parallel != 1,
        "it never ran beside other replicas: pass --data-parallel-size 1",
    ),
    (
        lambda facts: facts.two_batches,
        "steps share one set of activations: start without --enable-dbo",
    ),
    (
        lambda facts: facts.draft_tokens > 0,
        "drafts were not verified inside vLLM yet: start without --speculative-config",
    ),
    (
        lambda facts: facts.prefix_caching,
        "aligned state pages of prefix caching never ran: pass --no-enable-prefix-caching",
    ),
    (
        lambda facts: facts.lora,
        "adapters are not applied: start without --enable-lora",
    ),
    (
        lambda facts: facts.sleep,
        "graphs hold the addresses of packed weights: start without --enable-sleep-mode",
    ),
)
"""Condition that refuses, and reason."""


def refusals(facts: DeploymentFacts) -> tuple[str, ...]:
    """Every reason not to start; empty when the deployment is eligible."""
    return applying(RULES, facts)


def ranks_of(dims: K3Dims) -> int | None:
    """Of how many ranks of K3 these are the widths of one; None of none."""
    for ranks in _RANKS:
        whole = shard_dims(K3Dims(), ranks)
        names = (field.name for field in fields(K3Dims) if field.name not in _FREE)
        if all(getattr(dims, name) == getattr(whole, name) for name in names):
            return ranks
    return None
