"""From the engine's configuration to start-up facts, and the candidate's prepared scope."""

from typing import Any

from k3decode.decode.coverage import PathName
from k3decode.decode.eligibility import StartupFacts, refusals, stop_start_up
from k3decode.decode.facts import PreparedScope

__all__ = ["CPU_SCOPE", "refuse_if_not_eligible", "startup_facts"]

CPU_SCOPE = PreparedScope(
    max_decode_rows=64, max_draft_tokens=7, max_prompt_rows=512, uniform_verify_only=False
)
"""What the candidate serves on the CPU reference backend; larger steps run the stock KDA form."""


def startup_facts(vllm_config: Any) -> StartupFacts:
    """Read what eligibility asks about."""
    parallel = vllm_config.parallel_config
    speculative = vllm_config.speculative_config
    mode = vllm_config.compilation_config.cudagraph_mode
    return StartupFacts(
        device=str(vllm_config.device_config.device_type),
        weight_type=str(vllm_config.model_config.dtype).removeprefix("torch."),
        cache_type=str(vllm_config.cache_config.cache_dtype),
        tensor_parallel=parallel.tensor_parallel_size,
        pipeline_parallel=parallel.pipeline_parallel_size,
        decode_context_parallel=parallel.decode_context_parallel_size,
        lora=vllm_config.lora_config is not None,
        graph_replay=mode is not None and mode.name != "NONE",
        second_runner=bool(vllm_config.use_v2_model_runner),
        prefix_caching=bool(vllm_config.cache_config.enable_prefix_caching),
        draft_tokens=0 if speculative is None else speculative.num_speculative_tokens,
    )


def refuse_if_not_eligible(vllm_config: Any, backend: PathName) -> None:
    """Stop the start-up of a deployment that could not be served rightly.

    Raises:
        ValueError: every reason found, in sentences.
    """
    scope = CPU_SCOPE if backend == "candidate" else None
    stop_start_up(refusals(startup_facts(vllm_config), scope))
