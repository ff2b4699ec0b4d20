"""A whole decoder on several ranks, simulated in one process: what a distributed step must equal.

Steps are those that a deployment serves: B requests with q tokens each, a token and its drafts, of
which the next step is told how many were kept. KDA's state is paged as its kernel has it. The cache
of an MLA layer is on every rank whole, or, with context parallelism, divided among the ranks by
position; then every rank attends with the heads of all ranks to its own tokens, and the owner of a
head combines what the ranks found. Sums over ranks stand for the reductions of a deployment,
concatenations for its gathers. It shares with `ReferenceDecoder` the ops' references and the layer
loop; weights are cut by `shard_weights`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.model.sharding import shard_weights
from k3decode.model.skeleton import hidden_rows
from k3decode.model.weights import ModelWeights
from k3decode.ops.dense_mlp.reference import MlpWeights, dense_mlp
from k3decode.ops.embedding.reference import embed
from k3decode.ops.kda.paged_reference import KdaPages, kda_verify
from k3decode.ops.kda.reference import KdaForm, KdaWeights, kda_output, kda_project, kda_recurrent
from k3decode.ops.latent_moe.reference import MoeWeights, routed_experts
from k3decode.ops.mla.reference import MlaWeights, mla_project
from k3decode.ops.mla_combine.reference import combine, lift_and_gate
from k3decode.ops.mla_decode.reference import Attended, attend
from k3decode.ops.mla_query.reference import absorb
from k3decode.ops.moe_tail.reference import moe_tail
from k3decode.ops.rms_norm.reference import rms_norm
from k3decode.ops.router.reference import route

__all__ = ["ContextSplit", "RankedDecoder", "RankedState"]


@dataclass(frozen=True)
class ContextSplit:
    """How positions are divided among ranks: stretches of `interleave` tokens in turn."""

    ranks: int
    interleave: int = 1

    def owner(self, position: int) -> int:
        """Rank that stores a position."""
        return position // self.interleave % self.ranks

    def positions(self, rank: int, length: int) -> list[int]:
        """Positions below a length that a rank stores, in order."""
        return [position for position in range(length) if self.owner(position) == rank]


@dataclass
class RankedState:
    """What B requests carry from step to step, on all ranks; a step changes it."""

    kda: dict[tuple[int, int], KdaPages]
    """By rank and layer."""
    mla: dict[tuple[int, int], Tensor]
    """Cache rows by rank and layer, [B, longest, L + R], NaN where a rank stores nothing."""
    slots: Tensor
    """Page of each token of a step, [B, q]; page 0 belongs to nobody."""
    lengths: list[int]
    """Tokens of each request in front of those of the last step."""
    steps: int = 0

    @property
    def tokens(self) -> int:
        """q, tokens of a request in each step."""
        return int(self.slots.shape[1])


class RankedDecoder:
    """A model on some ranks."""

    def __init__(
        self,
        weights: ModelWeights,
        dims: K3Dims,
        ranks: int,
        *,
        context: ContextSplit | None = None,
        kda: KdaForm = kda_recurrent,
    ) -> None:
        """Cut the weights.

        Args:
            weights: of the whole model.
            dims: its numbers.
            ranks: tensor-parallel ranks.
            context: how MLA's caches are divided among the same ranks; None: each has all of it.
            kda: rule for the tokens of one request.

        Raises:
            ShardError: the ranks do not divide the model.
        """
        self._whole = weights
        self._dims = dims
        self._shards = shard_weights(weights, dims, ranks)
        self._context = context
        self._kda = kda

    def empty_state(self, requests: int, tokens: int, longest: int) -> RankedState:
        """State of requests without tokens, for steps of `tokens` and contexts up to `longest`."""
        dims, dtype = self._dims, self._whole.embedding.dtype
        shard, width = dims.shard(len(self._shards)), dims.kda_head_dim
        heads, pages = shard.num_attention_heads, 1 + requests * tokens
        places = [(r, i) for r in range(shard.ranks) for i in range(dims.num_hidden_layers)]
        window = (dims.kda_conv_taps - 2 + tokens, 3 * heads * width)
        rows = (requests, longest, dims.mla_row)
        return RankedState(
            kda={
                (rank, layer): KdaPages(
                    conv=torch.zeros(pages, *window, dtype=dtype),
                    memory=torch.zeros(pages, heads, width, width, dtype=dtype),
                )
                for rank, layer in places
                if not dims.is_mla(layer)
            },
            mla={
                (rank, layer): torch.full(rows, torch.nan, dtype=dtype)
                for rank, layer in places
                if dims.is_mla(layer)
            },
            slots=1 + torch.arange(requests * tokens).view(requests, tokens),
            lengths=[0] * requests,
        )

    def step(self, token_ids: Tensor, accepted: Tensor, state: RankedState) -> Tensor:
        """Serve one step.

        Args:
            token_ids: a token and its drafts for each request, [B, q].
            accepted: how many tokens of the step before each request has kept, 1 to q, [B]; ones
                before the first step.
            state: changed in place.

        Returns:
            Logits after each token, [B, q, vocabulary].
        """
        if state.steps:
            kept = accepted.tolist()
            state.lengths = [n + more for n, more in zip(state.lengths, kept, strict=True)]
        state.steps += 1

        def attend_on_ranks(layer: int, rows: Tensor) -> Tensor:
            parts = [shard.layers[layer].attention for shard in self._shards]
            latent = [part for part in parts if isinstance(part, MlaWeights)]
            if latent:
                return self._mla_layer(layer, rows, latent, state)
            recurrent = [part for part in parts if isinstance(part, KdaWeights)]
            return self._kda_layer(layer, rows, recurrent, state, accepted)

        first = [rank * shard.embedding.shape[0] for rank, shard in enumerate(self._shards)]
        embedded = sum(
            embed(token_ids.flatten(), shard.embedding, start)
            for start, shard in zip(first, self._shards, strict=True)
        )
        rows = hidden_rows(
            torch.as_tensor(embedded), self._whole, self._dims, attend_on_ranks, self._feed_forward
        )
        normed = rms_norm(rows, self._whole.norm, self._dims.rms_norm_eps)
        gathered = torch.cat([normed @ shard.lm_head.T for shard in self._shards], dim=-1)
        return gathered.view(*token_ids.shape, -1)

    def _kda_layer(
        self,
        layer: int,
        rows: Tensor,
        weights: list[KdaWeights],
        state: RankedState,
        accepted: Tensor,
    ) -> Tensor:
        parts = []
        for rank, own in enumerate(weights):
            projection = kda_project(rows.view(*state.slots.shape, -1), own)
            pages = state.kda[rank, layer]
            mixed = kda_verify(projection, own, pages, state.slots, accepted, form=self._kda)
            parts.append(kda_output(mixed.flatten(0, 1), own))
        return _summed(parts)

    def _mla_layer(
        self, layer: int, rows: Tensor, weights: list[MlaWeights], state: RankedState
    ) -> Tensor:
        new = [mla_project(rows, own) for own in weights]
        self._store(layer, new[0].row, state)
        queries = [absorb(one.query, own.key_up()) for one, own in zip(new, weights, strict=True)]
        gated: list[list[Tensor]] = [[] for _ in weights]
        for row in range(rows.shape[0]):
            attended = self._attended(layer, row, [query[row] for query in queries], state)
            for rank, own in enumerate(weights):
                value_up, gate = own.value_up(), new[rank].gate[row]
                gated[rank].append(lift_and_gate(attended[rank], value_up, gate, rounded=False))
        return _summed(
            [torch.stack(part) @ own.o_proj.T for part, own in zip(gated, weights, strict=True)]
        )

    def _store(self, layer: int, new: Tensor, state: RankedState) -> None:
        """Write cache rows [B q, L + R] where they belong; those of refused drafts are replaced."""
        for row, values in enumerate(new):
            request, t = divmod(row, state.tokens)
            position = state.lengths[request] + t
            for rank in range(len(self._shards)):
                if self._context is None or self._context.owner(position) == rank:
                    state.mla[rank, layer][request, position] = values

    def _attended(
        self, layer: int, row: int, queries: list[Tensor], state: RankedState
    ) -> list[Tensor]:
        """Latents [H of the rank, L] of one row for each rank's queries."""
        request, t = divmod(row, state.tokens)
        visible = state.lengths[request] + t + 1

        def on(rank: int, query: Tensor, places: list[int]) -> Attended:
            if places:
                cached = state.mla[rank, layer][request, places]
                return attend(query, cached, self._dims.kv_lora_rank, self._dims.mla_scale)
            nothing = query.new_zeros(query.shape[0], self._dims.kv_lora_rank)
            return Attended(nothing, query.new_full((query.shape[0],), -torch.inf))

        if self._context is None:
            places = list(range(visible))
            return [on(rank, query, places).latents for rank, query in enumerate(queries)]
        everybody, split = torch.cat(queries), self._context
        parts = [
            on(rank, everybody, split.positions(rank, visible)) for rank in range(len(queries))
        ]
        latents = torch.stack([part.latents for part in parts])
        whole = combine(latents, torch.stack([part.lse for part in parts]))
        return list(whole.latents.tensor_split(len(queries)))

    def _feed_forward(self, layer: int, rows: Tensor) -> Tensor:
        parts = [shard.layers[layer].feed_forward for shard in self._shards]
        if isinstance(parts[0], MlpWeights):
            return _summed([dense_mlp(rows, p) for p in parts if isinstance(p, MlpWeights)])
        experts = [part for part in parts if isinstance(part, MoeWeights)]
        first = experts[0]
        scores = torch.cat([rows @ part.gate.T for part in experts], dim=-1)
        routing = route(scores, first.correction_bias, first.top_k, first.scaling_factor)
        latent = torch.cat([rows @ part.down_proj.T for part in experts], dim=-1)
        summed = _summed([routed_experts(latent, routing, part) for part in experts])
        normed = rms_norm(summed, first.norm, first.norm_eps)
        routed = torch.cat([normed @ part.up_proj.T for part in experts], dim=-1)
        return moe_tail(routed, _summed([dense_mlp(rows, part.shared) for part in experts]))


def _summed(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts).sum(dim=0)
