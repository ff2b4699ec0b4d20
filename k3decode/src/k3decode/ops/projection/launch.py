"""Launch of a projection: check the inputs, choose and compile a variant once, launch."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS, InputCheck
from k3decode.ops.projection.choices import Asked, chosen_config, rule_config, tuned_configs
from k3decode.ops.projection.config import COLUMN_MULTIPLE, ProjectionConfig, SituBounds
from k3decode.ops.projection.shapes import k3_projections
from k3decode.ops.projection.tiles import config_for
from k3decode.ops.projection_hopper.config import WideConfig

__all__ = ["compile_variant", "project", "variants"]

_VECTOR_WIDTH = 8
# The wide form multiplies with Hopper's warpgroup products.
_HOPPER = "sm_90a"
_FP32_VECTOR_WIDTH = 4


def project(
    activation: Tensor,
    weight: Tensor,
    out: Tensor | None,
    fp32_out: Tensor | None = None,
    *,
    situ: SituBounds | None = None,
    plain_rows: int = 0,
) -> None:
    """Write `activation @ weight.T`, accumulated in FP32, with no workspace.

    Repeated launches give the same bits: sums are added in one order.

    Args:
        activation: BF16 [M, K], row stride a multiple of 8, first element aligned to 16 bytes.
        weight: BF16 [N, K], N a multiple of 8, K of 64, row stride a multiple of 8.
        out: BF16 [M, N - F], written, row stride a multiple of 8; [M, P - F + (N - P) / 2] with
            `situ`; None where every row has an FP32 output.
        fp32_out: FP32 [M, F], written, row stride a multiple of 4: outputs of the first F weight
            rows, F a multiple of 8; None for none.
        situ: bounds of SiTU, when weight rows from P on alternate between gate and up; None for
            none.
        plain_rows: P with `situ`, a multiple of 8 from F on; else 0.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    check = InputCheck("projection")
    tokens, columns = _extents(activation)
    rows, _ = _extents(weight)
    fp32_rows = 0 if fp32_out is None else _extents(fp32_out)[1]
    check.rows(tokens)
    _check_inputs(check, activation, weight, rows, columns)
    extents = (tokens, rows, fp32_rows, plain_rows if situ is not None else rows)
    _check_outputs(check, out, fp32_out, extents)
    check.require(
        plain_rows >= 0
        and plain_rows % _VECTOR_WIDTH == 0
        and (situ is not None or not plain_rows),
        f"plain_rows: expected a multiple of {_VECTOR_WIDTH} with SiTU and 0 without, found "
        f"{plain_rows}",
    )
    architecture = check.finish()
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    nothing = torch.empty(0, 0, dtype=torch.float32, device=weight.device)
    config = chosen_config(
        Asked(rows, columns, tokens, situ, fp32_rows), architecture, activation.device
    )
    compile_variant(config, architecture)(
        device_pointer(weight),
        device_pointer(activation),
        device_pointer(nothing if fp32_out is None else fp32_out),
        # Where nothing is written in BF16, any pointer of that dtype will do.
        device_pointer(weight if out is None else out),
        weight.stride(0),
        activation.stride(0),
        0 if fp32_out is None else fp32_out.stride(0),
        0 if out is None else out.stride(0),
        tokens,
        rows,
        columns,
        fp32_rows,
        plain_rows,
        current_stream(),
    )


def _extents(tensor: Tensor) -> tuple[int, int]:
    return (tensor.shape[0], tensor.shape[1]) if tensor.ndim == 2 else (0, 0)  # noqa: PLR2004


def _check_inputs(
    check: InputCheck, activation: Tensor, weight: Tensor, rows: int, columns: int
) -> None:
    for name, tensor, extent in (("activation", activation, None), ("weight", weight, rows)):
        check.tensor(
            name,
            tensor,
            dtype=torch.bfloat16,
            shape=[extent, columns],
            stride_multiple=_VECTOR_WIDTH,
        )
    check.require(
        columns > 0 and columns % COLUMN_MULTIPLE == 0,
        f"activation: expected columns in a multiple of {COLUMN_MULTIPLE}, found {columns}: "
        "pad activations and weight with zeros",
    )
    check.require(
        rows > 0 and rows % _VECTOR_WIDTH == 0,
        f"weight: expected rows in a multiple of {_VECTOR_WIDTH}, found {rows}: pad with zeros",
    )


def _check_outputs(
    check: InputCheck,
    out: Tensor | None,
    fp32_out: Tensor | None,
    extents: tuple[int, int, int, int],
) -> None:
    tokens, rows, fp32_rows, plain_rows = extents
    check.require(
        fp32_rows % _VECTOR_WIDTH == 0 and fp32_rows <= plain_rows,
        f"fp32_out: expected columns in a multiple of {_VECTOR_WIDTH} up to {plain_rows}, "
        f"found {fp32_rows}",
    )
    bf16_columns = plain_rows - fp32_rows + (rows - plain_rows) // 2
    check.require(
        (out is None) == (bf16_columns <= 0),
        f"out: expected {bf16_columns} columns, found {'None' if out is None else 'a tensor'}",
    )
    if out is not None:
        check.tensor(
            "out",
            out,
            dtype=torch.bfloat16,
            shape=[tokens, bf16_columns],
            stride_multiple=_VECTOR_WIDTH,
        )
    if fp32_out is not None:
        check.tensor(
            "fp32_out",
            fp32_out,
            dtype=torch.float32,
            shape=[tokens, fp32_rows],
            stride_multiple=_FP32_VECTOR_WIDTH,
        )


def variants(dims: K3Dims) -> dict[str, Callable[[str], Any]]:
    """Every variant that K3's projections take at 1 to 64 tokens, by what it is made of.

    A wide variant compiles, where there are no warpgroup products, as what serves there.
    """
    bounds = SituBounds(dims.situ_beta, dims.situ_linear_beta)
    found: dict[str, Callable[[str], Any]] = {}
    for shape in k3_projections(dims).values():
        situ = bounds if shape.situ else None
        for tokens in range(1, MAX_ROWS + 1):
            config = config_for(shape.rows, shape.columns, tokens, situ, fp32_rows=shape.fp32_rows)
            found[config.name] = partial(compile_variant, config)
            asked = Asked(shape.rows, shape.columns, tokens, situ, shape.fp32_rows)
            for chosen in (rule_config(asked, _HOPPER), *_tuned(asked)):
                # Of several shapes the first, since all that serve elsewhere are listed themselves.
                found.setdefault(chosen.name, partial(_compile_chosen, chosen, config))
    return found


def _tuned(asked: Asked) -> list[ProjectionConfig | WideConfig]:
    """What any GPU's table chooses; no architecture has more candidates than Hopper."""
    return list(tuned_configs(asked, _HOPPER).values())


def _compile_chosen(
    chosen: ProjectionConfig | WideConfig, narrow: ProjectionConfig, architecture: str
) -> Any:
    wide = isinstance(chosen, WideConfig)
    return compile_variant(narrow if wide and architecture != _HOPPER else chosen, architecture)


@cache
def compile_variant(config: ProjectionConfig | WideConfig, architecture: str) -> Any:
    """Compile one variant, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415
    from k3decode.ops.projection.kernel import ProjectionKernel  # noqa: PLC0415
    from k3decode.ops.projection_hopper.kernel import WideProjectionKernel  # noqa: PLC0415

    bf16, fp32 = torch.bfloat16, torch.float32
    arguments = placeholders([bf16, bf16, fp32, bf16], 4, 5)
    if isinstance(config, WideConfig):
        return compile_kernel(WideProjectionKernel(config), arguments, architecture)
    return compile_kernel(ProjectionKernel(config), arguments, architecture)
