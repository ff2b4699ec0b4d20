"""An executor whose launches are plain torch, at widths that the ops' configurations allow."""

import pytest
import torch

from k3decode.decode import attention_launches, feed_forward_launches, launches, rank_launches
from k3decode.dims import K3Dims
from k3decode.ops.mla_decode.config import MlaDecodeConfig
from k3decode.ops.mla_decode.launch import Partials, split_rule
from k3decode.ops.mla_decode.schedule import partial_count

# The stand-ins of the ops' own tests, which lie in a folder beside this one.
from ..ops import (  # noqa: TID252
    exchange_launches,
    mla_torch_launches,
    moe_launches,
    projection_launches,
    torch_launches,
)

DIMS = K3Dims(
    num_hidden_layers=8,
    hidden_size=256,
    num_attention_heads=2,
    q_lora_rank=256,
    dense_intermediate_size=128,
    num_experts=32,
    num_experts_per_token=4,
    latent_size=512,
    expert_intermediate_size=192,
    shared_intermediate_size=64,
    attn_res_block_size=3,
    vocab_size=64,
)
CPU = torch.device("cpu")
_PARTS = 3
_LAUNCHES = {
    "attn_res": torch_launches.attn_res,
    "embed_rows": torch_launches.embed_rows,
    "kda_step": torch_launches.kda_step,
    "route_rows": torch_launches.route_rows,
    "run_experts": moe_launches.run_experts,
    "normalise_latent": moe_launches.normalise_latent,
    "mla_prepare": mla_torch_launches.mla_prepare,
    "mla_query": mla_torch_launches.mla_query,
    "mla_decode": mla_torch_launches.mla_decode,
    "mla_combine": mla_torch_launches.mla_combine,
    "project": projection_launches.project,
    "exchange_attn_res": exchange_launches.exchange_attn_res,
    "exchange_latent_norm": exchange_launches.exchange_latent_norm,
    "exchange_route": exchange_launches.exchange_route,
}


def _partials(
    config: MlaDecodeConfig, rows: int, heads: int, device: torch.device, tokens_per_request: int
) -> Partials:
    together = split_rule(config, device).rows_together(tokens_per_request)
    count = partial_count(rows, _PARTS, together)
    return Partials(torch.empty(count, heads, config.latent), torch.empty(count, heads))


@pytest.fixture
def torch_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every launch of a step is a stand-in."""
    modules = (launches, attention_launches, feed_forward_launches, rank_launches)
    for name, stand_in in _LAUNCHES.items():
        places = [module for module in modules if hasattr(module, name)]
        assert places
        for module in places:
            monkeypatch.setattr(module, name, stand_in)
    monkeypatch.setattr(attention_launches, "make_partials", _partials)
