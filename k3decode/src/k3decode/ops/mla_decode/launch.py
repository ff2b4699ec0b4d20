"""Launch of attention over the latent cache: check the inputs, compile once, launch."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import (
    ARCHITECTURES,
    InputCheck,
    KernelInputError,
    UnsupportedGpuError,
)
from k3decode.ops.mla.cache_format import CACHE_DTYPES, cache_format_named
from k3decode.ops.mla_decode.config import MlaDecodeConfig, MlaDecodeTogetherConfig
from k3decode.ops.mla_decode.parts import chosen_parts
from k3decode.ops.mla_decode.schedule import SplitRule, partial_count
from k3decode.ops.mla_decode_blackwell.config import (
    BLOCK_COLUMNS,
    BOX_TOKENS,
    MlaDecodeBlackwellConfig,
    block_columns,
)

__all__ = [
    "CacheScales",
    "PagedCache",
    "Partials",
    "blackwell_config",
    "blackwell_numbers",
    "chosen_config",
    "compile_alone",
    "compile_together",
    "compile_variant",
    "config_for",
    "make_partials",
    "mla_decode",
    "split_rule",
    "together_config",
    "variants",
]

_VECTOR_BYTES = 16
_HOPPER = "sm_90a"
# Two tiles of a group on their way. With four a launch takes 5 % longer, with one 8 %, in the mean
# of seven contexts on an H200.
_STAGES = 3


@dataclass(frozen=True)
class CacheScales:
    """What stored E4M3 values were divided by; ones for BF16."""

    query: float = 1.0
    cache: float = 1.0


@dataclass(frozen=True)
class PagedCache:
    """Cache of one layer and who owns which pages."""

    pages: Tensor
    """[P, page tokens, L + R], BF16 or E4M3 bytes; pages at a stride of a multiple of 16 bytes."""
    table: Tensor
    """Pages of each request in order, int32 [B, any], rows at any stride; entries behind a
    request's tokens may be anything."""
    lengths: Tensor
    """Tokens of each request, those of this step included, int32 [B]; may be 0."""
    tokens_per_request: int = 1
    """Rows of a request; the last sees all its tokens, each earlier one token less."""


@dataclass(frozen=True)
class Partials:
    """Workspace between attention and its combination."""

    latents: Tensor
    """FP32 [partials, H, L]; as many as `partial_count` says for the CTAs to use."""
    lse: Tensor
    """Natural logarithm of the sum of exponentials, FP32 [partials, H]."""

    def parts(self, rows: int, rows_together: int = 1) -> int:
        """Parts into which the line of tiles is cut."""
        return int(self.latents.shape[0]) // rows_together - rows // rows_together + 1

    @property
    def bytes(self) -> int:
        """Device memory of the workspace."""
        return 4 * int(self.latents.numel() + self.lse.numel())


def make_partials(
    config: MlaDecodeConfig,
    rows: int,
    heads: int,
    device: torch.device,
    tokens_per_request: int = 1,
) -> Partials:
    """Workspace for as many parts as `chosen_parts` says, one for each multiprocessor at most.

    A CTA has 16 query rows of a request, its heads times its rows, or 32 where there are several
    rows, and on Blackwell up to 96.

    Raises:
        UnsupportedGpuError: no kernel for this GPU.
    """
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    rule = split_rule(config, device)
    query_rows = heads * tokens_per_request
    if _architecture(device) != _HOPPER:
        block = block_columns(query_rows)
    elif tokens_per_request > 1:
        block = together_config(config).query_block
    else:
        block = config.head_block
    most = max(processors // -(-query_rows // block), 1)
    parts = chosen_parts(most, config.cache_format, rows, (heads, tokens_per_request), device)
    count = partial_count(rows, parts, rule.rows_together(tokens_per_request))
    return Partials(
        latents=torch.empty(count, heads, config.latent, device=device),
        lse=torch.empty(count, heads, device=device),
    )


def split_rule(config: MlaDecodeConfig, device: torch.device) -> SplitRule:
    """How a variant cuts the line of tiles on a device; its combination needs to know.

    A CPU, where only stand-ins run, cuts as Hopper does.

    Raises:
        UnsupportedGpuError: no kernel for this GPU.
    """
    if device.type == "cpu" or _architecture(device) == _HOPPER:
        return SplitRule(config.tile_tokens, config.fewest_tiles, together=True)
    chosen = blackwell_config(config, BLOCK_COLUMNS[0])
    return SplitRule(chosen.tile_tokens, chosen.fewest_tiles, together=True)


def _architecture(device: torch.device) -> str:
    capability = torch.cuda.get_device_capability(device)
    if capability not in ARCHITECTURES:
        raise UnsupportedGpuError(
            f"mla_decode: expected a GPU of {', '.join(ARCHITECTURES.values())}, found compute "
            f"capability {capability[0]}.{capability[1]}: use the engine's own kernels"
        )
    return ARCHITECTURES[capability]


def mla_decode(
    query: Tensor,
    cache: PagedCache,
    partials: Partials,
    *,
    config: MlaDecodeConfig,
    score_scale: float,
    scales: CacheScales | None = None,
) -> None:
    """Attend to the cached rows; `mla_combine` makes one result of the partials.

    Args:
        query: absorbed queries [M, H, L + R], BF16 or E4M3 bytes as the cache, heads dense, rows at
            a stride of a multiple of 16 bytes.
        cache: M is its requests times their rows.
        partials: written where `schedule.pieces` says, else left as they are.
        config: variant to run.
        score_scale: factor on the products before the softmax.
        scales: of E4M3 values.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    rows, heads = query.shape[:2] if query.ndim == 3 else (0, 0)  # noqa: PLR2004
    check = InputCheck("mla_decode")
    check.rows(rows)
    dtype = CACHE_DTYPES[config.cache_format]
    vector = _VECTOR_BYTES // dtype.itemsize
    check.tensor(
        "query", query, dtype=dtype, shape=[rows, None, config.width], stride_multiple=vector
    )
    check.tensor(
        "pages",
        cache.pages,
        dtype=dtype,
        shape=[None, None, config.width],
        stride_multiple=vector,
    )
    _check_owners(check, cache, rows)
    _check_partials(check, partials, config, (rows, heads), cache.tokens_per_request)
    architecture = check.finish()
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    scales = scales or CacheScales()
    tensors = (query, cache.pages, cache.table, cache.lengths, partials.latents, partials.lse)
    numbers = _hopper_numbers if architecture == _HOPPER else blackwell_numbers
    chosen = chosen_config(config, heads, cache.tokens_per_request, architecture)
    compile_variant(chosen, architecture)(
        *(device_pointer(tensor) for tensor in tensors),
        *numbers(query, cache, partials),
        score_scale * scales.query * scales.cache / math.log(2.0),
        scales.cache,
        current_stream(),
    )


def _hopper_numbers(query: Tensor, cache: PagedCache, partials: Partials) -> tuple[int, ...]:
    (rows, heads), together = query.shape[:2], cache.tokens_per_request
    size = query.dtype.itemsize
    return (
        query.stride(0) * size // 4,
        cache.pages.stride(0) * size,
        cache.table.stride(0),
        rows // together,
        heads,
        together,
        cache.pages.shape[1],
        partials.parts(rows, together),
    )


def blackwell_numbers(query: Tensor, cache: PagedCache, partials: Partials) -> tuple[int, ...]:
    """Strides and counts for Blackwell's kernel, in its order.

    Raises:
        KernelInputError: a bulk copy, of 16 cache rows, would reach over the end of a page.
    """
    (rows, heads), together = query.shape[:2], cache.tokens_per_request
    pages, page_tokens = cache.pages.shape[:2]
    if page_tokens % BOX_TOKENS:
        raise KernelInputError(
            f"mla_decode: pages: expected pages of a multiple of {BOX_TOKENS} tokens, found "
            f"{page_tokens}: give the cache such pages"
        )
    return (
        query.stride(0) * query.dtype.itemsize,
        cache.pages.stride(0),
        cache.table.stride(0),
        rows // together,
        heads,
        together,
        page_tokens,
        pages,
        partials.parts(rows, together),
    )


def _check_owners(check: InputCheck, cache: PagedCache, rows: int) -> None:
    requests = cache.lengths.shape[0] if cache.lengths.ndim else 0
    check.tensor("lengths", cache.lengths, dtype=torch.int32, shape=[requests], dense_from=0)
    check.tensor("table", cache.table, dtype=torch.int32, shape=[requests, None])
    check.require(
        cache.tokens_per_request >= 1 and requests * cache.tokens_per_request == rows,
        f"query: expected {requests} requests of {cache.tokens_per_request} rows, found {rows} "
        "rows",
    )
    pages = cache.pages
    if pages.ndim == 3:  # noqa: PLR2004
        check.require(
            pages.shape[0] > 0 and pages.shape[1] > 0 and pages.stride(1) == pages.shape[2],
            f"pages: expected dense rows in one page at least, found {list(pages.shape)} with "
            f"strides {list(pages.stride())}",
        )


def _check_partials(
    check: InputCheck,
    partials: Partials,
    config: MlaDecodeConfig,
    queries: tuple[int, int],
    tokens_per_request: int,
) -> None:
    rows, heads = queries
    count = partials.lse.shape[0] if partials.lse.ndim else 0
    check.tensor(
        "latents",
        partials.latents,
        dtype=torch.float32,
        shape=[count, heads, config.latent],
        dense_from=0,
        stride_multiple=_VECTOR_BYTES // 4,
    )
    check.tensor("lse", partials.lse, dtype=torch.float32, shape=[count, heads], dense_from=0)
    check.require(
        count >= rows and count % max(tokens_per_request, 1) == 0,
        f"latents: expected at least {rows} partials for {rows} rows, a multiple of "
        f"{tokens_per_request}, found {count}: make them with make_partials",
    )


@cache
def compile_variant(config: MlaDecodeConfig | MlaDecodeBlackwellConfig, architecture: str) -> Any:
    """Compile one kernel, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415

    dtype, fp32 = CACHE_DTYPES[config.cache_format], torch.float32
    pointers = [dtype, dtype, torch.int32, torch.int32, fp32, fp32]
    counts = 5
    if isinstance(config, MlaDecodeTogetherConfig):
        from k3decode.ops.mla_decode_together.kernel import (  # noqa: PLC0415
            MlaDecodeTogetherKernel,
        )

        kernel: object = MlaDecodeTogetherKernel(config)
    elif isinstance(config, MlaDecodeConfig):
        from k3decode.ops.mla_decode.kernel import MlaDecodeKernel  # noqa: PLC0415

        kernel = MlaDecodeKernel(config)
    else:
        from k3decode.ops.mla_decode_blackwell.kernel import (  # noqa: PLC0415
            MlaDecodeBlackwellKernel,
        )

        kernel = MlaDecodeBlackwellKernel(config)
        counts = 6
    return compile_kernel(kernel, placeholders(pointers, 3, counts, factors=2), architecture)


def compile_alone(config: MlaDecodeConfig, architecture: str) -> tuple[Any, ...]:
    """Compile what serves requests of one row and up to 16 heads."""
    return (compile_variant(_configs(config, architecture)[0], architecture),)


def compile_together(config: MlaDecodeConfig, architecture: str) -> tuple[Any, ...]:
    """Compile what serves requests of several rows, or of more heads."""
    return tuple(compile_variant(one, architecture) for one in _configs(config, architecture)[1:])


def chosen_config(
    config: MlaDecodeConfig, heads: int, tokens_per_request: int, architecture: str
) -> MlaDecodeConfig | MlaDecodeBlackwellConfig:
    """What runs in place of a variant."""
    if architecture == _HOPPER:
        return config if tokens_per_request == 1 else together_config(config)
    return blackwell_config(config, block_columns(heads * tokens_per_request))


def _configs(
    config: MlaDecodeConfig, architecture: str
) -> list[MlaDecodeConfig | MlaDecodeBlackwellConfig]:
    if architecture == _HOPPER:
        return [config, together_config(config)]
    return [blackwell_config(config, columns) for columns in BLOCK_COLUMNS]


def together_config(config: MlaDecodeConfig) -> MlaDecodeTogetherConfig:
    """What runs on Hopper in place of a variant where requests have several rows."""
    return MlaDecodeTogetherConfig(
        cache_format=config.cache_format,
        latent=config.latent,
        shared=config.shared,
        stages=4,
        fewest_tiles=config.fewest_tiles,
    )


def blackwell_config(config: MlaDecodeConfig, columns: int) -> MlaDecodeBlackwellConfig:
    """What runs on Blackwell in place of a variant, for blocks of so many query rows."""
    return MlaDecodeBlackwellConfig(
        cache_format=config.cache_format,
        latent=config.latent,
        shared=config.shared,
        columns=columns,
    )


def config_for(dims: K3Dims, cache_format: str) -> MlaDecodeConfig:
    """Variant of a model for a format of its cache.

    Raises:
        ValueError: the format is neither "bf16" nor "e4m3".
    """
    stored = cache_format_named(cache_format)
    return MlaDecodeConfig(
        cache_format=stored,
        latent=dims.kv_lora_rank,
        shared=dims.qk_rope_head_dim,
        stages=_STAGES,
    )


def variants(dims: K3Dims) -> dict[str, MlaDecodeConfig]:
    """Both formats of the cache; heads and rows are free."""
    return {name: config_for(dims, name) for name in CACHE_DTYPES}
