"""A row of the LM head that decides at given positions, so that greedy tokens can be compared.

Of random rows the best two logits lie so close together at half of all positions that rounding may
exchange them, however loud the rows are. Here a row's logits at all positions are a given size with
a random sign. With the opposite row beside it the greedy token is one of two at random, and the
margin is twice the size. The row is of the engine's own prompt step and knows nothing of the path
that is judged: a path that computed something else would choose the wrong token at half of all
positions.
"""

import torch
from torch import Tensor

__all__ = ["deciding_row"]

_SIZE = 128.0
# Rows that are known to a twentieth of their length: those that lie closer together than that are
# not told apart at the price of a row that makes every rounding large.
_KNOWN_TO = 0.05


def deciding_row(rows: Tensor, *, seed: int) -> Tensor:
    """The shortest row that gives nearly plus or minus the size everywhere, BF16 [D].

    Args:
        rows: what the LM head multiplies, [N, D].
        seed: of the signs.
    """
    wide = rows.float()
    products = (wide @ wide.T).double().cpu()
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, (len(rows),), generator=generator).double() * 2 - 1
    slack = _KNOWN_TO**2 * float(products.diagonal().mean())
    shares = torch.linalg.solve(products + slack * torch.eye(len(rows)).double(), signs)
    return (_SIZE * (shares.float().to(wide.device) @ wide)).to(torch.bfloat16)
