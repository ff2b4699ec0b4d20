"""Outputs of the Kimi-Linear of `transformers`: run by the engine's Python, which has it.

    python kimi_linear_outputs.py INPUTS.safetensors OUTPUTS.safetensors

Nothing of k3decode is imported. K3 bounds the decay of KDA, which Kimi-Linear does not: only that
gate is put in the place of the published one.
"""

import json
import sys
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers.models.kimi_linear import modeling_kimi_linear as published
from transformers.models.kimi_linear.configuration_kimi_linear import KimiLinearConfig


class BoundedGate(nn.Module):  # type: ignore[misc]
    """K3's decay gate: the logarithm of a decay between a bound and zero."""

    def __init__(self, given: dict[str, Tensor], bound: float) -> None:
        super().__init__()
        self.given = given
        self.bound = bound

    def forward(self, x: Tensor) -> Tensor:
        given = self.given
        raw = x @ given["kda.f_a"].T @ given["kda.f_b"].T + given["kda.dt_bias"]
        heads = given["kda.a_log"].shape[0]
        rate = given["kda.a_log"].exp()[:, None]
        return self.bound * torch.sigmoid(rate * raw.unflatten(-1, (heads, -1)))


def kda(given: dict[str, Tensor], config: KimiLinearConfig, bound: float) -> dict[str, Tensor]:
    layer = published.KimiLinearDeltaAttention(config, 0)
    layer.forget_gate = BoundedGate(given, bound)
    names = ("q", "k", "v", "b", "g_a", "g_b", "o")
    state = {f"{name}_proj.weight": given[f"kda.{name}"] for name in names}
    state |= {"conv1d.weight": given["kda.conv"][:, None], "o_norm.weight": given["kda.o_norm"]}
    layer.load_state_dict(state)
    x = given["x"]
    found = {"kda.chunked": layer(x)}
    # The same layer, token by token.
    published.chunk_kimi_delta_attention = published.recurrent_kimi_delta_attention
    return found | {"kda.recurrent": layer(x)}


def mla(given: dict[str, Tensor], config: KimiLinearConfig) -> Tensor:
    layer = published.KimiLinearAttention(config, 1)
    layer.load_state_dict(
        {name.removeprefix("mla."): t for name, t in given.items() if name.startswith("mla.")}
    )
    length = given["x"].shape[1]
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    mask = torch.zeros(length, length).masked_fill(future, float("-inf"))
    out: Tensor = layer(given["x"], mask[None, None])[0]
    return out


def routing(given: dict[str, Tensor], config: KimiLinearConfig) -> Tensor:
    """Weights of all experts [T, E]; zero where an expert was not chosen."""
    router = published.KimiLinearTopkRouter(config)
    router.load_state_dict(
        {"weight": given["router.weight"], "e_score_correction_bias": given["router.bias"]}
    )
    _, weights, chosen = router(given["x"])
    return torch.zeros(weights.shape[0], config.num_local_experts).scatter(1, chosen, weights)


def main(source: str, target: str) -> None:
    given = load_file(source)
    with safe_open(source, framework="pt") as file:
        numbers: dict[str, Any] = json.loads(file.metadata()["numbers"])
    bound = numbers.pop("bound")
    config = KimiLinearConfig(**numbers)
    config._attn_implementation = "eager"
    with torch.no_grad():
        found = {
            **kda(given, config, bound),
            "mla": mla(given, config),
            "routing": routing(given, config),
        }
    save_file({name: tensor.contiguous() for name, tensor in found.items()}, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
