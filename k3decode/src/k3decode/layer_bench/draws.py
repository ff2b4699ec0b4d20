"""Who chose which experts, drawn instead of routed: the router runs, its choice is not used.

With random weights rows resemble each other and choose alike. A draw says how alike they are. A
recorded trace has one line of JSON for each layer, `{"layer": 3, "experts": [[5, 77], ...]}`: what
each of the tokens that were served one after the other or side by side chose there.
"""

import json
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

__all__ = ["DRAWS", "Draw", "TraceError", "drawn_experts", "traced_experts", "zipf_weights"]

Draw = Literal["router", "uniform", "skewed", "trace"]
DRAWS: tuple[Draw, ...] = ("router", "uniform", "skewed", "trace")
"""The router's own choice; all experts equally likely; some much likelier than others; recorded."""


def zipf_weights(experts: int) -> Tensor:
    """Likelihood of each expert, one over its rank, FP32 [E]; the sum is one."""
    weights = 1.0 / torch.arange(1, experts + 1, dtype=torch.float32)
    return weights / weights.sum()


def drawn_experts(
    draw: Literal["uniform", "skewed"], shape: tuple[int, int, int], experts: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Draw choices, each row's without repetition.

    Args:
        draw: how.
        shape: layers, rows, choices of a row.
        experts: of a layer; which of them are likely differs from layer to layer.
        seed: equal seeds give equal draws.

    Returns:
        Experts, int32, and equal shares, FP32, both of the shape, on the CPU.
    """
    layers, rows, top_k = shape
    generator = torch.Generator().manual_seed(seed)
    weights = torch.ones(experts) if draw == "uniform" else zipf_weights(experts)
    found = []
    for _ in range(layers):
        names = torch.randperm(experts, generator=generator)
        chosen = torch.multinomial(weights.expand(rows, -1), top_k, generator=generator)
        found.append(names[chosen])
    shares = torch.full(shape, 1.0 / top_k)
    return torch.stack(found).to(torch.int32), shares


class TraceError(ValueError):
    """A trace is not as described, or too short."""


def traced_experts(
    path: Path, shape: tuple[int, int, int], experts: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Take choices from a recorded trace.

    Args:
        path: of the trace.
        shape: layers, rows, choices of a row. Layers of the trace are taken in turn; of each the
            same rows, that follow each other from a random one on.
        experts: of a layer.
        seed: chooses the first row.

    Returns:
        As `drawn_experts`.

    Raises:
        TraceError: a line is no such line, or there are fewer rows.
    """
    layers, rows, top_k = shape
    lines = [line for line in path.read_text().splitlines() if line.strip()]
    traced = [_traced_layer(path, i, line, top_k, experts) for i, line in enumerate(lines, 1)]
    shortest = min((len(one) for one in traced), default=0)
    if shortest < rows:
        raise TraceError(
            f"{path}: expected at least {rows} rows in every layer, found {shortest} in one: take "
            "a longer trace or fewer rows"
        )
    generator = torch.Generator().manual_seed(seed)
    first = int(torch.randint(shortest - rows + 1, (), generator=generator))
    found = [traced[i % len(traced)][first : first + rows] for i in range(layers)]
    return torch.stack(found).to(torch.int32), torch.full(shape, 1.0 / top_k)


def _traced_layer(path: Path, number: int, line: str, top_k: int, experts: int) -> Tensor:
    """Choices of one line, [rows, k]."""
    try:
        chosen = torch.tensor(json.loads(line)["experts"], dtype=torch.int64)
    except (ValueError, KeyError, TypeError) as error:
        raise TraceError(
            f'{path}: line {number}: expected {{"layer": ..., "experts": [[...], ...]}}, found '
            f"{line[:40]!r}"
        ) from error
    right = chosen.ndim == 2 and chosen.shape[1] == top_k  # noqa: PLR2004
    right = right and bool(((chosen >= 0) & (chosen < experts)).all())
    if not right or bool((chosen.sort(-1).values.diff(dim=-1) == 0).any()):
        raise TraceError(
            f"{path}: line {number}: expected rows of {top_k} different experts below {experts}, "
            f"found {list(chosen.shape)}"
        )
    return chosen
