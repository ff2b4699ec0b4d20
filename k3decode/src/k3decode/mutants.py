"""All mutants, listed by hand: device code broken on purpose; the cases must notice each of them.

Each op has its own in `ops/OP/mutants.py`; those that lack one wait for the kernel in front follow
from the device code. `python -m k3decode.mutants` runs them (mutation.py). References are never
changed.
"""

import sys
from collections.abc import Iterator

from k3decode.kernel_folders import kernel_folders
from k3decode.mutant import Mutant, missing_waits, mutate
from k3decode.ops.attn_res import mutants as attn_res
from k3decode.ops.embedding import mutants as embedding
from k3decode.ops.exchange_attn_res import mutants as exchange_attn_res
from k3decode.ops.exchange_latent_norm import mutants as exchange_latent_norm
from k3decode.ops.exchange_route import mutants as exchange_route
from k3decode.ops.experts import mutants as experts
from k3decode.ops.kda import mutants as kda
from k3decode.ops.latent_norm import mutants as latent_norm
from k3decode.ops.mla_combine import mutants as mla_combine
from k3decode.ops.mla_decode import mutants as mla_decode
from k3decode.ops.mla_prepare import mutants as mla_prepare
from k3decode.ops.mla_query import mutants as mla_query
from k3decode.ops.moe_tail import mutants as moe_tail
from k3decode.ops.projection import mutants as projection
from k3decode.ops.router import mutants as router
from k3decode.ops.situ import mutants as situ
from k3decode.registry import OPS

__all__ = ["MUTANTS", "Mutant", "mutate"]


def _without_waits() -> Iterator[Mutant]:
    names = [op.name for op in OPS]
    for name in names:
        for folder in kernel_folders(name, names):
            yield from missing_waits(name, folder.name, (folder / "kernel.py").read_text())


MUTANTS: tuple[Mutant, ...] = (
    *attn_res.MUTANTS,
    *embedding.MUTANTS,
    *exchange_attn_res.MUTANTS,
    *exchange_latent_norm.MUTANTS,
    *exchange_route.MUTANTS,
    *experts.MUTANTS,
    *kda.MUTANTS,
    *latent_norm.MUTANTS,
    *mla_combine.MUTANTS,
    *mla_decode.MUTANTS,
    *mla_prepare.MUTANTS,
    *mla_query.MUTANTS,
    *moe_tail.MUTANTS,
    *projection.MUTANTS,
    *router.MUTANTS,
    *situ.MUTANTS,
    *_without_waits(),
)

if __name__ == "__main__":
    from k3decode.mutation import main

    sys.exit(main())
