"""Launch of the embedding gather: check the inputs, compile once, launch."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import InputCheck
from k3decode.ops.embedding.config import EmbeddingConfig

__all__ = ["compile_variant", "embed_rows", "variants"]

_VECTOR_WIDTH = 8


def embed_rows(tokens: Tensor, table: Tensor, out: Tensor, *, first_token: int) -> None:
    """Gather one row per token.

    Args:
        tokens: ids, int32 [M]; ids outside the table give zeros.
        table: BF16 [V, D], row stride a multiple of 8: ids first_token .. first_token + V - 1.
        out: BF16 [M, D], row stride a multiple of 8, written.
        first_token: id of the table's first row, 0 to 2^30.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    rows, width = out.shape if out.ndim == 2 else (0, 0)  # noqa: PLR2004
    bf16 = torch.bfloat16
    check = InputCheck("embedding")
    check.rows(rows)
    check.tensor("tokens", tokens, dtype=torch.int32, shape=[rows], dense_from=0)
    check.tensor("table", table, dtype=bf16, shape=[None, width], stride_multiple=_VECTOR_WIDTH)
    check.tensor("out", out, dtype=bf16, shape=[rows, width], stride_multiple=_VECTOR_WIDTH)
    check.require(
        0 <= first_token <= 1 << 30, f"first_token: expected 0 to 2^30, found {first_token}"
    )
    architecture = check.finish()
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    compile_variant(EmbeddingConfig(hidden_size=width), architecture)(
        device_pointer(tokens),
        device_pointer(table),
        device_pointer(out),
        table.stride(0),
        out.stride(0),
        first_token,
        table.shape[0],
        rows,
        current_stream(),
    )


@cache
def compile_variant(config: EmbeddingConfig, architecture: str) -> Any:
    """Compile one variant, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415
    from k3decode.ops.embedding.kernel import EmbeddingKernel  # noqa: PLC0415

    arguments = placeholders([torch.int32, torch.bfloat16, torch.bfloat16], 2, 3)
    return compile_kernel(EmbeddingKernel(config), arguments, architecture)


def variants(dims: K3Dims) -> dict[str, EmbeddingConfig]:
    """The one variant a model needs."""
    return {f"rows_of_{dims.hidden_size}": EmbeddingConfig(hidden_size=dims.hidden_size)}
