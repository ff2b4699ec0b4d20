"""K3's two attention layers on the engine's caches: state pages for KDA, `Attention` for MLA.

The engine's own MLA layer is left out: outside AMX machines its CPU form does not serve a hybrid
model. Both forms of MLA run on the plain attention layer instead, with different keys and values.
"""

import torch
from torch import Tensor, nn
from vllm.config import VllmConfig
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.layers.mamba.abstract import MambaBase
from vllm.v1.attention.backends.registry import MambaAttentionBackendEnum

from k3decode.decode.coverage import PathName
from k3decode.dims import K3Dims
from k3decode.ops.kda.reference import (
    KdaForm,
    KdaProjection,
    KdaState,
    KdaWeights,
    kda_output,
    kda_project,
)
from k3decode.ops.mla.reference import (
    MlaWeights,
    absorb_queries,
    expand_keys_values,
    lift_latents,
    mla_output,
    mla_project,
)
from k3decode.vllm_plugin.rows import PlainRun, StepRows, VerifyRun

__all__ = ["KdaLayer", "MlaLayer", "kda_state_shapes"]


def kda_state_shapes(dims: K3Dims) -> tuple[tuple[int, int], tuple[int, int, int]]:
    """Shapes of one state page: taps [W - 1, 3 C], memory [H, V, K]."""
    width = dims.kda_head_dim
    return (
        (dims.kda_conv_taps - 1, 3 * dims.kda_width),
        (dims.num_attention_heads, width, width),
    )


class KdaLayer(nn.Module, MambaBase):  # type: ignore[misc]  # the engine is untyped here
    """One KDA layer; its state lives in pages of the engine's cache pool."""

    def __init__(self, vllm_config: VllmConfig, dims: K3Dims, prefix: str) -> None:
        super().__init__()
        self.prefix = prefix
        self._shapes = kda_state_shapes(dims)
        self.kv_cache = (torch.empty(0), torch.empty(0))
        layers = vllm_config.compilation_config.static_forward_context
        if prefix in layers:
            raise ValueError(
                f"layer prefixes must be unique, found {prefix} twice: build one model per engine"
            )
        layers[prefix] = self

    def get_state_shape(self) -> tuple[tuple[int, int], tuple[int, int, int]]:
        """Shapes of taps and memory in one page."""
        return self._shapes

    def get_state_dtype(self) -> tuple[torch.dtype, torch.dtype]:
        """Both parts of the state are fp32."""
        return torch.float32, torch.float32

    @property
    def mamba_type(self) -> MambaAttentionBackendEnum:
        """Metadata of the gated delta rule: the only kind that serves speculation."""
        return MambaAttentionBackendEnum.GDN_ATTN

    def forward(self, x: Tensor, weights: KdaWeights, rows: StepRows, form: KdaForm) -> Tensor:
        """Serve the rows of a step; x [T, D], returns [T, D]. Rows of no request give zeros."""
        projection = kda_project(x, weights)
        mixed = torch.zeros_like(projection.gate)
        for plain in rows.plain:
            mixed[plain.rows] = self._plain(_take(projection, plain.rows), weights, plain, form)
        for verify in rows.verify:
            mixed[verify.rows] = self._verify(_take(projection, verify.rows), weights, verify, form)
        return kda_output(mixed, weights)

    def _load(self, pages: Tensor) -> KdaState:
        taps, memory = self.kv_cache
        return KdaState(taps=taps[pages], memory=memory[pages])

    def _store(self, pages: Tensor, state: KdaState) -> None:
        taps, memory = self.kv_cache
        taps[pages] = state.taps
        memory[pages] = state.memory

    def _plain(
        self, projection: KdaProjection, weights: KdaWeights, run: PlainRun, form: KdaForm
    ) -> Tensor:
        state = self._load(run.pages)
        # Pages are handed out uncleared.
        state.taps[run.fresh] = 0
        state.memory[run.fresh] = 0
        mixed, state = form(projection, weights, state)
        self._store(run.pages, state)
        return mixed

    def _verify(
        self, projection: KdaProjection, weights: KdaWeights, run: VerifyRun, form: KdaForm
    ) -> Tensor:
        """Token by token, because any of the states after them may be the one to go on from."""
        state = self._load(run.source_pages)
        out = []
        for token in range(run.rows.shape[1]):
            step = torch.tensor([token])
            mixed, state = form(_at(projection, step), weights, state)
            self._store(run.target_pages[:, token], state)
            out.append(mixed)
        return torch.cat(out, dim=1)


def _take(projection: KdaProjection, rows: Tensor) -> KdaProjection:
    """Rows [n, q] of a flat projection, as a batch of n sequences."""
    return KdaProjection(
        qkv=projection.qkv[rows],
        gate=projection.gate[rows],
        raw_decay=projection.raw_decay[rows],
        raw_beta=projection.raw_beta[rows],
    )


def _at(projection: KdaProjection, tokens: Tensor) -> KdaProjection:
    """Some tokens of a batch of sequences."""
    return KdaProjection(
        qkv=projection.qkv[:, tokens],
        gate=projection.gate[:, tokens],
        raw_decay=projection.raw_decay[:, tokens],
        raw_beta=projection.raw_beta[:, tokens],
    )


class MlaLayer(nn.Module):  # type: ignore[misc]  # the library is untyped here
    """One MLA layer: per-head keys and values (stock) or one shared row (candidate).

    The choice is made at start-up, because the two forms fill the cache differently.
    """

    def __init__(
        self, vllm_config: VllmConfig, dims: K3Dims, prefix: str, backend: PathName
    ) -> None:
        super().__init__()
        self._absorbed = backend == "candidate"
        self._dims = dims
        self._head_size = dims.mla_row if self._absorbed else dims.qk_head_dim
        self.attention = Attention(
            dims.num_attention_heads,
            self._head_size,
            dims.mla_scale,
            num_kv_heads=1 if self._absorbed else dims.num_attention_heads,
            cache_config=vllm_config.cache_config,
            prefix=f"{prefix}.attention",
        )

    def forward(self, x: Tensor, weights: MlaWeights) -> Tensor:
        """Attend over each request's history in the cache; x [T, D], returns [T, D]."""
        new = mla_project(x, weights)
        if self._absorbed:
            queries = absorb_queries(new.query, weights)
            keys, values = new.row[:, None], new.row[:, None, : self._dims.kv_lora_rank]
            attended = self._attend(queries, keys, values)
            return mla_output(lift_latents(attended, weights), new.gate, weights)
        keys, values = expand_keys_values(new.row, weights)
        return mla_output(self._attend(new.query, keys, values), new.gate, weights)

    def _attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Queries [T, H, N], keys [T, KH, N], values [T, KH, V]; returns [T, H, V].

        The attention layer wants values as wide as keys, so they are padded with zeros.
        """
        width = values.shape[-1]
        padded = nn.functional.pad(values, (0, self._head_size - width))
        out = self.attention(queries.flatten(1), keys.flatten(1), padded.flatten(1))
        return out.view(queries.shape[0], -1, self._head_size)[..., :width]
