"""Launch of the routed experts: check the inputs, compile once, launch."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.formats import MXFP4_GROUP
from k3decode.host.inputs import MAX_ROWS, InputCheck
from k3decode.mxfp4_blocks import (
    BLOCK_ROWS,
    CHUNK_BYTES,
    CHUNK_GROUPS,
    ROW_CHUNK_BYTES,
    ROW_CHUNK_ROWS,
)
from k3decode.ops.experts.config import MAX_PASS, ExpertsConfig
from k3decode.ops.experts.packing import PackedExperts, WeightLayout
from k3decode.ops.experts_blackwell.config import ExpertsBlackwellConfig

__all__ = [
    "ExpertsWorkspace",
    "blackwell_config",
    "compile_variant",
    "config_for",
    "make_workspace",
    "run_experts",
    "variants",
    "weight_layout",
]

_VECTOR_WIDTH = 8
_HOPPER = "sm_90a"
_BLACKWELL = (10, 0)
_BF16_PER_WORD = 2
_TEAMS = 2
_RANKS_WITH_LARGE_SCALES = (1, 8, 16)


@dataclass(frozen=True)
class _Form:
    """What the largest batch of a variant leaves room for."""

    ring_chunks: int
    pass_tokens: int


# Rows are in shared memory where a pass takes four tokens; more slots leave less for a ring.
_FORMS = {4: _Form(9, 4), 16: _Form(9, 8), 32: _Form(7, 8), MAX_ROWS: _Form(4, 8)}


@dataclass(frozen=True)
class ExpertsWorkspace:
    """Memory between the halves of a launch; launches one after the other may share one."""

    inner: Tensor
    """BF16 [N, I], N at least M * k: activations of each slot, overwritten."""
    arrived: Tensor
    """int32 [1], zero before the first launch; every launch leaves it as the next one needs it."""
    outputs: Tensor
    """FP32 [N, L] on Blackwell: weighted outputs of each slot, overwritten; else [0, L]."""

    @property
    def bytes(self) -> int:
        """Device memory of the workspace."""
        return sum(t.numel() * t.element_size() for t in (self.inner, self.arrived, self.outputs))


def make_workspace(config: ExpertsConfig, device: torch.device) -> ExpertsWorkspace:
    """Workspace for any batch of a config."""
    slots = config.max_slots
    kept = slots if weight_layout(device) == "thread_rows" else 0
    return ExpertsWorkspace(
        inner=torch.empty(slots, config.inner_size, dtype=torch.bfloat16, device=device),
        arrived=torch.zeros(1, dtype=torch.int32, device=device),
        outputs=torch.empty(kept, config.latent_size, device=device),
    )


def weight_layout(device: torch.device) -> WeightLayout:
    """What the kernels of a device read; that of Hopper's where there are none."""
    blackwell = device.type == "cuda" and torch.cuda.get_device_capability(device) >= _BLACKWELL
    return "thread_rows" if blackwell else "warp_blocks"


def run_experts(  # noqa: PLR0917
    latent: Tensor,
    experts: Tensor,
    shares: Tensor,
    packed: PackedExperts,
    workspace: ExpertsWorkspace,
    out: Tensor,
    *,
    config: ExpertsConfig,
) -> None:
    """Compute each row's weighted sum over its experts.

    Inner activations are rounded to BF16 and the sum once more; an expert's output and its weight
    are not rounded. Sums have one order, which no other row changes, so equal inputs give equal
    bits.

    Args:
        latent: BF16 [M, L], row stride a multiple of 8.
        experts: int32 [M, k], dense, no id twice in a row; an id outside the experts is skipped,
            and a row without experts gets zeros.
        shares: FP32 [M, k], dense, weights of the choices.
        packed: the layer's weights, as `pack_experts` orders them.
        workspace: as `make_workspace` makes it for the config.
        out: BF16 [M, L], written.
        config: variants to run.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    rows = out.shape[0] if out.ndim else 0
    check = InputCheck("experts")
    check.rows(rows)
    check.require(
        rows <= config.max_rows,
        f"out: expected at most {config.max_rows} rows as the config says, found {rows}: take the "
        "config for as many rows",
    )
    architecture = _checked(check, (latent, experts, shares, out), workspace, packed, config)
    tensors = (latent, experts, shares, out)
    launch = _launch_hopper if architecture == _HOPPER else _launch_blackwell
    launch(tensors, packed, workspace, config, architecture)


_Tensors = tuple[Tensor, Tensor, Tensor, Tensor]


def _launch_hopper(
    tensors: _Tensors,
    packed: PackedExperts,
    workspace: ExpertsWorkspace,
    config: ExpertsConfig,
    architecture: str,
) -> None:
    """One kernel."""
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    latent, experts, shares, out = tensors
    compile_variant(config, architecture)(
        *(device_pointer(t) for t in (latent, experts, shares, packed.gate_up, packed.down)),
        *(device_pointer(t) for t in (workspace.inner, workspace.arrived, out)),
        latent.stride(0) // _BF16_PER_WORD,
        out.stride(0),
        out.shape[0],
        _multiprocessors(latent.device),
        current_stream(),
    )


def _launch_blackwell(
    tensors: _Tensors,
    packed: PackedExperts,
    workspace: ExpertsWorkspace,
    config: ExpertsConfig,
    architecture: str,
) -> None:
    """Three kernels, each a dependent of the one before."""
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    latent, experts, shares, out = tensors
    w, stream, ctas = workspace, current_stream(), _multiprocessors(latent.device)
    gate_up, down, add = compile_variant(config, architecture)
    for kernel, source, weights, target in (
        (gate_up, latent, packed.gate_up, w.inner),
        (down, w.inner, packed.down, w.outputs),
    ):
        kernel(
            *(device_pointer(t) for t in (source, experts, shares, weights, target)),
            source.stride(0) * source.element_size(),
            out.shape[0],
            ctas,
            stream,
        )
    pointers = (device_pointer(t) for t in (w.outputs, experts, out))
    add(*pointers, out.stride(0), out.shape[0], stream)


@cache
def _multiprocessors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _checked(
    check: InputCheck,
    tensors: tuple[Tensor, Tensor, Tensor, Tensor],
    workspace: ExpertsWorkspace,
    packed: PackedExperts,
    config: ExpertsConfig,
) -> str:
    latent, experts, shares, out = tensors
    c, bf16, w = config, torch.bfloat16, workspace
    rows = out.shape[0] if out.ndim else 0
    row = [rows, c.latent_size]
    check.tensor("latent", latent, dtype=bf16, shape=row, stride_multiple=_VECTOR_WIDTH)
    choices = [rows, c.top_k]
    check.tensor("experts", experts, dtype=torch.int32, shape=choices, dense_from=0)
    check.tensor("shares", shares, dtype=torch.float32, shape=choices, dense_from=0)
    check.tensor("inner", w.inner, dtype=bf16, shape=[None, c.inner_size], dense_from=0)
    check.require(
        w.inner.ndim == 0 or w.inner.shape[0] >= rows * c.top_k,
        f"inner: expected at least {rows * c.top_k} rows, found {list(w.inner.shape)}",
    )
    check.tensor("arrived", w.arrived, dtype=torch.int32, shape=[1], dense_from=0)
    check.tensor("out", out, dtype=bf16, shape=row)
    layout = weight_layout(latent.device)
    by_row = layout == "thread_rows"
    slots = c.max_slots if by_row else 0
    kept = [slots, c.latent_size]
    check.tensor("outputs", w.outputs, dtype=torch.float32, shape=kept, dense_from=0)
    check.require(
        packed.layout == layout,
        f"packed: expected the layout {layout} of this GPU, found {packed.layout}: pack with it",
    )
    block_rows, width = (ROW_CHUNK_ROWS, ROW_CHUNK_BYTES) if by_row else (BLOCK_ROWS, CHUNK_BYTES)
    for name, rows_of_all, columns in (
        ("gate_up", 2 * c.inner_size, c.latent_size),
        ("down", c.latent_size, c.inner_size),
    ):
        chunks = columns // (CHUNK_GROUPS * MXFP4_GROUP)
        shape = [c.num_experts, rows_of_all // block_rows, chunks, width]
        tensor = getattr(packed, name)
        check.tensor(name, tensor, dtype=torch.uint8, shape=shape, dense_from=0)
    check.require(
        c.wide_scales or not packed.wide_scales,
        "packed: expected scale bytes up to 127 as the config says, found larger ones: set "
        "wide_scales",
    )
    return check.finish()


@cache
def compile_variant(config: ExpertsConfig, architecture: str) -> Any:
    """Compile a variant, once per process: a kernel for Hopper, three for Blackwell."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415

    bf16, fp32, int32, uint8 = torch.bfloat16, torch.float32, torch.int32, torch.uint8
    if architecture == _HOPPER:
        from k3decode.ops.experts.kernel import ExpertsKernel  # noqa: PLC0415

        arguments = placeholders([bf16, int32, fp32, uint8, uint8, bf16, int32, bf16], 2, 2)
        return compile_kernel(ExpertsKernel(config), arguments, architecture)
    from k3decode.ops.experts_blackwell.kernel import (  # noqa: PLC0415
        DownTilesKernel,
        GateUpTilesKernel,
        SlotSumKernel,
    )

    one = blackwell_config(config)
    gate_up = placeholders([bf16, int32, fp32, uint8, bf16], 1, 2)
    down = placeholders([bf16, int32, fp32, uint8, fp32], 1, 2)
    add = placeholders([fp32, int32, bf16], 1, 1)
    return (
        compile_kernel(GateUpTilesKernel(one), gate_up, architecture),
        compile_kernel(DownTilesKernel(one), down, architecture),
        compile_kernel(SlotSumKernel(one), add, architecture),
    )


def blackwell_config(config: ExpertsConfig) -> ExpertsBlackwellConfig:
    """What runs on Blackwell in place of a variant."""
    return ExpertsBlackwellConfig(
        num_experts=config.num_experts,
        top_k=config.top_k,
        latent_size=config.latent_size,
        inner_size=config.inner_size,
        situ_beta=config.situ_beta,
        situ_linear_beta=config.situ_linear_beta,
        wide_scales=config.wide_scales,
        max_rows=config.max_rows,
    )


def config_for(dims: K3Dims, ranks: int, *, rows: int, wide_scales: bool) -> ExpertsConfig:
    """Variant of a model whose experts are split over a number of ranks, for batches of `rows`.

    Raises:
        ValueError: the ranks do not divide the experts' inner width, or a kernel cannot hold it.
    """
    if ranks < 1 or dims.expert_intermediate_size % ranks:
        raise ValueError(
            f"expected a number of ranks that divides the inner width "
            f"{dims.expert_intermediate_size}, found {ranks}: use 1, 2, 4, 8 or 16"
        )
    batches = _batches(wide_scales=wide_scales)
    max_rows = min(most for most in batches if rows <= most or most == MAX_ROWS)
    return ExpertsConfig(
        num_experts=dims.num_experts,
        top_k=dims.num_experts_per_token,
        latent_size=dims.latent_size,
        inner_size=dims.expert_intermediate_size // ranks,
        situ_beta=dims.situ_beta,
        situ_linear_beta=dims.situ_linear_beta,
        wide_scales=wide_scales,
        max_rows=max_rows,
        teams=_TEAMS,
        ring_chunks=_FORMS[max_rows].ring_chunks,
        pass_tokens=_FORMS[max_rows].pass_tokens,
    )


def _batches(*, wide_scales: bool) -> tuple[int, ...]:
    """Largest batches of the variants; those of few tokens at a time want small scales."""
    return tuple(
        most for most, form in _FORMS.items() if form.pass_tokens == MAX_PASS or not wide_scales
    )


def variants(dims: K3Dims) -> dict[str, ExpertsConfig]:
    """Whole weights and shards, few and many rows, without and with large scales."""
    return {
        f"tp{ranks}_m{rows}_{name}": config_for(dims, ranks, rows=rows, wide_scales=wide_scales)
        for ranks in (1, 2, 4, 8, 16)
        for name, wide_scales in (("narrow", False), ("wide", True))
        for rows in _batches(wide_scales=wide_scales)
        if ranks in _RANKS_WITH_LARGE_SCALES or not wide_scales
    }
