"""The op `projection`: linear layers without bias, from one decode row to 64."""

from k3decode.dims import K3Dims
from k3decode.op import Op
from k3decode.ops.projection.cases import CASES, replay
from k3decode.ops.projection.launch import project, variants
from k3decode.ops.projection.shapes import k3_projections
from k3decode.ops.projection.tiles import config_for

__all__ = ["OP"]

_SHAPES = k3_projections(K3Dims())
# One of each arithmetic and of each width of a unit, with and without a cluster.
_TYPICAL = (("tp8_kda_in", 1), ("tp8_router_latent", 8), ("tp8_shared_gate_up", 64))

OP = Op(
    name="projection",
    launch=project,
    cases=CASES,
    variants=variants(K3Dims()),
    typical_variants=(
        *(
            config_for(_SHAPES[name].rows, _SHAPES[name].columns, tokens).name
            for name, tokens in _TYPICAL
        ),
        "wide_m64_cluster4_situ",
    ),
    weights=frozenset({"weight"}),
    replay=replay,
)
