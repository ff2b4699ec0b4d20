"""The numbers of one rank: its share of what is split, and all of what is not."""

from dataclasses import replace

from k3decode.dims import K3Dims

__all__ = ["shard_dims"]

_SPLIT = (
    "num_attention_heads",
    "dense_intermediate_size",
    "expert_intermediate_size",
    "shared_intermediate_size",
    "vocab_size",
)


def shard_dims(dims: K3Dims, ranks: int) -> K3Dims:
    """Widths that one of so many tensor-parallel ranks holds.

    Heads, inner widths and the vocabulary are split; the router and the latent projections are
    whole on every rank. A rank without peers computes the model of these widths.

    Raises:
        ValueError: the ranks do not divide a width that is split.
    """
    uneven = [name for name in _SPLIT if ranks < 1 or getattr(dims, name) % ranks]
    if uneven:
        raise ValueError(
            f"expected a number of ranks that divides {', '.join(uneven)}, found {ranks}: use 8 or "
            "16 for K3"
        )
    return replace(dims, **{name: getattr(dims, name) // ranks for name in _SPLIT})
