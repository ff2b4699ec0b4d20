"""Launch of the absorption of the key projection: check the inputs, compile once, launch."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import InputCheck
from k3decode.ops.mla.cache_format import CACHE_DTYPES, cache_format_named, check_scale
from k3decode.ops.mla_query.config import MlaQueryConfig

__all__ = ["compile_variant", "config_for", "mla_query", "variants"]

_VECTOR_WIDTH = 8
_VECTOR_BYTES = 16


def mla_query(
    query: Tensor,
    key_up: Tensor,
    absorbed: Tensor,
    *,
    config: MlaQueryConfig,
    query_scale: float = 1.0,
) -> None:
    """Turn queries into queries that meet cache rows.

    Args:
        query: BF16 [M, H, N + R], heads dense, row stride a multiple of 8.
        key_up: BF16 [H, N, L], W_UK, heads at a stride that is a multiple of 8.
        absorbed: [M, H, L + R], BF16 or E4M3 bytes, heads dense, rows at a stride of a multiple of
            16 bytes, written: the first N columns times W_UK, rounded to BF16, then the others.
        config: variant to run.
        query_scale: E4M3 values are divided by it and saturate.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    rows, heads = absorbed.shape[:2] if absorbed.ndim == 3 else (0, 0)  # noqa: PLR2004
    check = InputCheck("mla_query")
    check.rows(rows)
    dtype = CACHE_DTYPES[config.cache_format]
    check.tensor(
        "absorbed",
        absorbed,
        dtype=dtype,
        shape=[rows, None, config.width],
        stride_multiple=_VECTOR_BYTES // dtype.itemsize,
    )
    check.tensor(
        "query",
        query,
        dtype=torch.bfloat16,
        shape=[rows, heads, config.head_width],
        stride_multiple=_VECTOR_WIDTH,
    )
    check.tensor(
        "key_up",
        key_up,
        dtype=torch.bfloat16,
        shape=[heads, config.nope, config.latent],
        stride_multiple=_VECTOR_WIDTH,
    )
    check_scale(check, "query_scale", query_scale, config.cache_format)
    architecture = check.finish()
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    compile_variant(config, architecture)(
        *(device_pointer(tensor) for tensor in (query, key_up, absorbed)),
        query.stride(0),
        key_up.stride(0),
        absorbed.stride(0),
        rows,
        heads,
        query_scale,
        current_stream(),
    )


@cache
def compile_variant(config: MlaQueryConfig, architecture: str) -> Any:
    """Compile one variant, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415
    from k3decode.ops.mla_query.kernel import MlaQueryKernel  # noqa: PLC0415

    bf16 = torch.bfloat16
    pointers = [bf16, bf16, CACHE_DTYPES[config.cache_format]]
    return compile_kernel(
        MlaQueryKernel(config), placeholders(pointers, 3, 2, factors=1), architecture
    )


def config_for(dims: K3Dims, cache_format: str) -> MlaQueryConfig:
    """Variant of a model for a format of its cache.

    Raises:
        ValueError: the format is neither "bf16" nor "e4m3".
    """
    return MlaQueryConfig(
        nope=dims.qk_nope_head_dim,
        shared=dims.qk_rope_head_dim,
        latent=dims.kv_lora_rank,
        cache_format=cache_format_named(cache_format),
    )


def variants(dims: K3Dims) -> dict[str, MlaQueryConfig]:
    """Both formats of the cache."""
    return {name: config_for(dims, name) for name in CACHE_DTYPES}
