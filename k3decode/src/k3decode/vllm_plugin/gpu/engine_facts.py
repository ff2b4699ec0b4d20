"""Facts of a deployment from the engine's configuration; the only reader of it on the GPU."""

import importlib.metadata
from typing import Any

from k3decode.decode.eligibility import stop_start_up
from k3decode.vllm_plugin.gpu.deployment import DeploymentFacts, refusals
from k3decode.vllm_plugin.gpu.served_dims import served_dims

__all__ = ["deployment_facts", "prepared_rows", "refuse_if_not_eligible"]

_EVERY_ROW = 64


def deployment_facts(vllm_config: Any) -> DeploymentFacts:
    """Read what the table asks about.

    Raises:
        ValueError: the model is not K3's text model.
    """
    from vllm.model_executor.layers.mamba.mamba_utils import (  # noqa: PLC0415
        MambaStateDtypeCalculator,
        is_conv_state_dim_first,
    )
    from vllm.platforms import current_platform  # noqa: PLC0415

    parallel, cache, model = (
        vllm_config.parallel_config,
        vllm_config.cache_config,
        vllm_config.model_config,
    )
    speculative, quantised = vllm_config.speculative_config, vllm_config.quant_config
    capability = current_platform.get_device_capability()
    states = MambaStateDtypeCalculator.kda_state_dtype(
        model.dtype, cache.mamba_cache_dtype, cache.mamba_ssm_cache_dtype
    )
    return DeploymentFacts(
        vllm=importlib.metadata.version("vllm").partition("+")[0],
        capability=(0, 0) if capability is None else (capability.major, capability.minor),
        dims=served_dims(model.hf_text_config),
        weight_type=_name(model.dtype),
        cache_type=str(cache.cache_dtype),
        state_types=tuple(_name(one) for one in states),
        state_channels_first=bool(is_conv_state_dim_first()),
        expert_format="none" if quantised is None else str(quantised.get_name()),
        graphs=_graphs(vllm_config.compilation_config.cudagraph_mode),
        second_runner=bool(vllm_config.use_v2_model_runner),
        tensor_parallel=parallel.tensor_parallel_size,
        pipeline_parallel=parallel.pipeline_parallel_size,
        decode_context_parallel=parallel.decode_context_parallel_size,
        expert_parallel=bool(parallel.enable_expert_parallel),
        data_parallel=parallel.data_parallel_size,
        two_batches=bool(parallel.use_ubatching),
        draft_tokens=0 if speculative is None else speculative.num_speculative_tokens,
        prefix_caching=bool(cache.enable_prefix_caching),
        lora=vllm_config.lora_config is not None,
        sleep=bool(model.enable_sleep_mode),
    )


def refuse_if_not_eligible(vllm_config: Any) -> None:
    """Stop the start-up of a deployment that the path does not serve.

    Raises:
        ValueError: every reason found, in sentences.
    """
    stop_start_up(refusals(deployment_facts(vllm_config)))


def prepared_rows(vllm_config: Any) -> frozenset[int]:
    """Numbers of rows to prepare: those of captured graphs, all of them without graphs."""
    compilation = vllm_config.compilation_config
    if _graphs(compilation.cudagraph_mode) == "NONE":
        return frozenset(range(1, _EVERY_ROW + 1))
    return frozenset(int(rows) for rows in compilation.cudagraph_capture_sizes or ())


def _graphs(mode: Any) -> str:
    return "NONE" if mode is None else str(mode.name)


def _name(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")
