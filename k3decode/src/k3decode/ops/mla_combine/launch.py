"""Launch of the combination of partial attention: check the inputs, compile once, launch."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS, InputCheck
from k3decode.ops.mla_combine.config import MlaCombineConfig
from k3decode.ops.mla_combine.forms import combine_form
from k3decode.ops.mla_combine_many.config import MlaCombineManyConfig, many_config_for
from k3decode.ops.mla_decode.launch import Partials
from k3decode.ops.mla_decode.schedule import SplitRule

__all__ = [
    "CutRows",
    "ValueLift",
    "all_variants",
    "compile_variant",
    "config_for",
    "mla_combine",
    "variants",
]

_VECTOR_WIDTH = 8
_FP32_VECTOR_WIDTH = 4


@dataclass(frozen=True)
class CutRows:
    """How attention cut the rows whose partials are combined."""

    lengths: Tensor
    """As attention got them, int32 [B]."""
    rule: SplitRule
    """`mla_decode.launch.split_rule` of the variant that ran."""
    tokens_per_request: int = 1

    @property
    def rows_together(self) -> int:
        """Rows whose partials lie side by side."""
        return self.rule.rows_together(self.tokens_per_request)


@dataclass(frozen=True)
class ValueLift:
    """What makes gated values of latents."""

    value_up: Tensor
    """W_UV, BF16 [H, V, L], heads at a stride that is a multiple of 8."""
    gate: Tensor
    """Output gate before its sigmoid, BF16 [M, H V], row stride a multiple of 8."""


def mla_combine(
    partials: Partials,
    out: Tensor,
    *,
    config: MlaCombineConfig,
    cut: CutRows | None = None,
    lift: ValueLift | None = None,
    out_lse: Tensor | None = None,
) -> None:
    """Combine partials; a row without tokens gives zeros and a logarithm of minus infinity.

    Args:
        partials: of one device as `mla_decode` leaves them, or of ranks: [ranks M, H, L], all rows
            of a rank one after the other.
        out: written. Values: BF16 [M, H V], row stride a multiple of 8. Latents: FP32 [M, H, L],
            dense.
        config: variant to run.
        cut: for partials of one device, else None.
        lift: for values, else None.
        out_lse: for latents, FP32 [M, H], dense, written; else None.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    rows = out.shape[0] if out.ndim else 0
    heads = partials.lse.shape[1] if partials.lse.ndim == 2 else 0  # noqa: PLR2004
    check = InputCheck("mla_combine")
    check.rows(rows)
    count = partials.lse.shape[0] if partials.lse.ndim else 0
    check.tensor(
        "latents",
        partials.latents,
        dtype=torch.float32,
        shape=[count, heads, config.latent],
        dense_from=0,
        stride_multiple=_FP32_VECTOR_WIDTH,
    )
    check.tensor("lse", partials.lse, dtype=torch.float32, shape=[count, heads], dense_from=0)
    _check_source(check, config, cut, rows, count)
    _check_output(check, config, out, lift, out_lse, rows, heads)
    architecture = check.finish()
    _run(partials, out, config, cut, lift, out_lse, architecture)


def _run(  # noqa: PLR0917
    partials: Partials,
    out: Tensor,
    config: MlaCombineConfig,
    cut: CutRows | None,
    lift: ValueLift | None,
    out_lse: Tensor | None,
    architecture: str,
) -> None:
    """Launch; what a variant does not read is replaced by a tensor that it does."""
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    rows, heads = out.shape[0], partials.lse.shape[1]
    count = partials.lse.shape[0]
    together = 1 if cut is None else cut.rows_together
    tensors = [
        partials.latents,
        partials.lse,
        partials.lse if cut is None else cut.lengths,
        out if lift is None else lift.value_up,
        out if lift is None else lift.gate,
        out,
    ]
    many = combine_form(config, rows, heads, out.device)
    if many is None:
        tensors.append(partials.lse if out_lse is None else out_lse)
    compile_variant(many or config, architecture)(
        *(device_pointer(tensor) for tensor in tensors),
        _VECTOR_WIDTH if lift is None else lift.value_up.stride(0),
        _VECTOR_WIDTH if lift is None else lift.gate.stride(0),
        out.stride(0),
        rows,
        heads,
        *(() if many else (config.rows_per_cta(rows, heads),)),
        1 if cut is None else cut.tokens_per_request,
        1 if cut is None else cut.rule.tile_tokens,
        1 if cut is None else cut.rule.fewest_tiles,
        count // rows if cut is None else partials.parts(rows, together),
        together,
        current_stream(),
    )


def _check_source(
    check: InputCheck, config: MlaCombineConfig, cut: CutRows | None, rows: int, count: int
) -> None:
    check.require(
        (cut is not None) == (config.source == "parts"),
        f"cut: expected it for partials of one device only, found a variant for {config.source} "
        f"and {'none' if cut is None else 'one'}",
    )
    if cut is None:
        check.require(
            rows == 0 or (0 < count <= rows * config.most_partials and count % rows == 0),
            f"latents: expected {rows} partials of each of 1 to {config.most_partials} ranks, "
            f"found {count} in all",
        )
        return
    requests = cut.lengths.shape[0] if cut.lengths.ndim else 0
    check.tensor("lengths", cut.lengths, dtype=torch.int32, shape=[requests], dense_from=0)
    check.require(
        cut.tokens_per_request >= 1 and requests * cut.tokens_per_request == rows,
        f"out: expected {requests} requests of {cut.tokens_per_request} rows, found {rows} rows",
    )
    together = max(cut.rows_together, 1)
    most = (rows // together + config.most_partials - 1) * together
    check.require(
        rows <= count <= most and count % together == 0,
        f"latents: expected {rows} to {most} partials for {rows} rows"
        f"{f', a multiple of {together}' if together > 1 else ''}, found {count}",
    )


def _check_output(  # noqa: PLR0917
    check: InputCheck,
    config: MlaCombineConfig,
    out: Tensor,
    lift: ValueLift | None,
    out_lse: Tensor | None,
    rows: int,
    heads: int,
) -> None:
    values = config.output == "values"
    check.require(
        (lift is not None) == values and (out_lse is None) == values,
        f"lift, out_lse: expected the first for values and the second for latents, found a variant "
        f"for {config.output}",
    )
    if lift is not None:
        width = heads * config.value
        bf16 = torch.bfloat16
        for name, tensor in {"out": out, "gate": lift.gate}.items():
            check.tensor(
                name, tensor, dtype=bf16, shape=[rows, width], stride_multiple=_VECTOR_WIDTH
            )
        check.tensor(
            "value_up",
            lift.value_up,
            dtype=bf16,
            shape=[heads, config.value, config.latent],
            stride_multiple=_VECTOR_WIDTH,
        )
    if out_lse is not None:
        fp32 = torch.float32
        check.tensor(
            "out",
            out,
            dtype=fp32,
            shape=[rows, heads, config.latent],
            dense_from=0,
            stride_multiple=_FP32_VECTOR_WIDTH,
        )
        check.tensor("out_lse", out_lse, dtype=fp32, shape=[rows, heads], dense_from=0)


@cache
def compile_variant(config: MlaCombineConfig | MlaCombineManyConfig, architecture: str) -> Any:
    """Compile one variant, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415
    from k3decode.ops.mla_combine.kernel import MlaCombineKernel  # noqa: PLC0415
    from k3decode.ops.mla_combine_many.kernel import MlaCombineManyKernel  # noqa: PLC0415

    bf16, fp32 = torch.bfloat16, torch.float32
    lengths = torch.int32 if config.source == "parts" else fp32
    if isinstance(config, MlaCombineManyConfig):
        pointers = [fp32, fp32, lengths, bf16, bf16, bf16]
        arguments = placeholders(pointers, 3, 7)
        return compile_kernel(MlaCombineManyKernel(config), arguments, architecture)
    written = bf16 if config.output == "values" else fp32
    pointers = [fp32, fp32, lengths, written, written, written, fp32]
    return compile_kernel(MlaCombineKernel(config), placeholders(pointers, 3, 8), architecture)


def config_for(
    dims: K3Dims, source: Literal["parts", "ranks"], output: Literal["latents", "values"]
) -> MlaCombineConfig:
    """Variant of a model."""
    return MlaCombineConfig(
        source=source, output=output, latent=dims.kv_lora_rank, value=dims.v_head_dim
    )


def variants(dims: K3Dims) -> dict[str, MlaCombineConfig]:
    """Without context parallelism the first; with it the second on each rank and then the third."""
    return {
        "parts_to_values": config_for(dims, "parts", "values"),
        "parts_to_latents": config_for(dims, "parts", "latents"),
        "ranks_to_values": config_for(dims, "ranks", "values"),
    }


def all_variants(dims: K3Dims) -> dict[str, MlaCombineConfig | MlaCombineManyConfig]:
    """What launches of these variants compile: each for few rows, and some for many."""
    found: dict[str, MlaCombineConfig | MlaCombineManyConfig] = {**variants(dims)}
    for name, config in variants(dims).items():
        many = many_config_for(config, MAX_ROWS)
        if many is not None:
            found[f"{name}_many"] = many
    return found
