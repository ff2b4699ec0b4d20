"""Launch of a step's preparation of MLA: check the inputs, compile once, launch."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import InputCheck
from k3decode.ops.mla.cache_format import CACHE_DTYPES, cache_format_named, check_scale
from k3decode.ops.mla_prepare.config import MlaPrepareConfig

__all__ = ["compile_variant", "config_for", "mla_prepare", "variants"]

_VECTOR_WIDTH = 8
_VECTOR_BYTES = 16


def mla_prepare(  # noqa: PLR0917
    projection: Tensor,
    query_norm: Tensor,
    latent_norm: Tensor,
    slots: Tensor,
    query: Tensor,
    pages: Tensor,
    *,
    config: MlaPrepareConfig,
    cache_scale: float = 1.0,
) -> None:
    """Normalise the compressed query, and store the rows that later steps attend to.

    Args:
        projection: BF16 [M, at least Q + L + R], columns query Q | compressed L | shared R, row
            stride a multiple of 8.
        query_norm: BF16 [Q].
        latent_norm: BF16 [L].
        slots: int64 [M], page x page tokens + place in the page, no slot twice; negative stores
            nothing.
        query: BF16 [M, Q], row stride a multiple of 8, written for all rows.
        pages: [P, page tokens, L + R], BF16 or E4M3 bytes, pages at a stride of a multiple of 16
            bytes; only the rows of the slots are written.
        config: variant to run.
        cache_scale: stored E4M3 values are divided by it and saturate.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    rows = query.shape[0] if query.ndim else 0
    check = InputCheck("mla_prepare")
    check.rows(rows)
    _check_rows(check, projection, query, config)
    _check_norms(check, query_norm, latent_norm, config)
    check.tensor("slots", slots, dtype=torch.int64, shape=[rows], dense_from=0)
    _check_pages(check, pages, config, cache_scale)
    architecture = check.finish()
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    tensors = (projection, query_norm, latent_norm, slots, query, pages)
    compile_variant(config, architecture)(
        *(device_pointer(tensor) for tensor in tensors),
        projection.stride(0),
        query.stride(0),
        pages.stride(0),
        rows,
        pages.shape[1],
        cache_scale,
        current_stream(),
    )


def _check_rows(
    check: InputCheck, projection: Tensor, query: Tensor, config: MlaPrepareConfig
) -> None:
    rows = query.shape[0] if query.ndim else 0
    widths = {"query": (query, config.query_rank), "projection": (projection, None)}
    for name, (tensor, width) in widths.items():
        check.tensor(
            name,
            tensor,
            dtype=torch.bfloat16,
            shape=[rows, width],
            stride_multiple=_VECTOR_WIDTH,
        )
    check.require(
        projection.ndim == 0 or projection.shape[-1] >= config.used_width,
        f"projection: expected at least {config.used_width} columns, found "
        f"{list(projection.shape)}",
    )


def _check_norms(
    check: InputCheck, query_norm: Tensor, latent_norm: Tensor, config: MlaPrepareConfig
) -> None:
    norms = {
        "query_norm": (query_norm, config.query_rank),
        "latent_norm": (latent_norm, config.latent),
    }
    for name, (tensor, width) in norms.items():
        check.tensor(
            name,
            tensor,
            dtype=torch.bfloat16,
            shape=[width],
            dense_from=0,
            stride_multiple=_VECTOR_WIDTH,
        )


def _check_pages(
    check: InputCheck, pages: Tensor, config: MlaPrepareConfig, cache_scale: float
) -> None:
    dtype = CACHE_DTYPES[config.cache_format]
    check.tensor(
        "pages",
        pages,
        dtype=dtype,
        shape=[None, None, config.row],
        stride_multiple=_VECTOR_BYTES // dtype.itemsize,
    )
    if pages.ndim == 3:  # noqa: PLR2004
        check.require(
            pages.shape[1] > 0 and pages.stride(1) == pages.shape[2],
            f"pages: expected dense rows in a page, found {list(pages.shape)} with strides "
            f"{list(pages.stride())}",
        )
    check_scale(check, "cache_scale", cache_scale, config.cache_format)


@cache
def compile_variant(config: MlaPrepareConfig, architecture: str) -> Any:
    """Compile one variant, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415
    from k3decode.ops.mla_prepare.kernel import MlaPrepareKernel  # noqa: PLC0415

    bf16 = torch.bfloat16
    pointers = [bf16, bf16, bf16, torch.int64, bf16, CACHE_DTYPES[config.cache_format]]
    return compile_kernel(
        MlaPrepareKernel(config), placeholders(pointers, 3, 2, factors=1), architecture
    )


def config_for(dims: K3Dims, cache_format: str) -> MlaPrepareConfig:
    """Variant of a model for a format of its cache.

    Raises:
        ValueError: the format is neither "bf16" nor "e4m3".
    """
    return MlaPrepareConfig(
        query_rank=dims.q_lora_rank,
        latent=dims.kv_lora_rank,
        shared=dims.qk_rope_head_dim,
        cache_format=cache_format_named(cache_format),
        norm_eps=dims.rms_norm_eps,
    )


def variants(dims: K3Dims) -> dict[str, MlaPrepareConfig]:
    """Both formats of the cache."""
    return {name: config_for(dims, name) for name in CACHE_DTYPES}
