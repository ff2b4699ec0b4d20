"""Mutants of the op `projection`: mistakes somebody could make in its device code."""

from k3decode.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "projection",
        "last_cta_of_the_cluster_forgotten",
        "cutlass.range_constexpr(1, self.config.split)",
        "cutlass.range_constexpr(1, self.config.split - 1)",
    ),
    Mutant(
        "projection",
        "last_warp_along_the_columns_forgotten",
        "cutlass.range_constexpr(1, c.warps_k)",
        "cutlass.range_constexpr(1, c.warps_k - 1)",
    ),
    Mutant(
        "projection",
        "activations_of_the_first_share",
        "start = (first + begin) * c.unit_columns",
        "start = begin * c.unit_columns",
    ),
    Mutant(
        "projection",
        "columns_paired_wrongly",
        "tokens[2 * step + 1],",
        "tokens[2 * step],",
    ),
    Mutant(
        "projection",
        "neighbouring_columns_swapped",
        "weight[j] * rTokens[token][j]",
        "weight[j ^ 1] * rTokens[token][j]",
    ),
    Mutant("projection", "gate_as_up", "up = total[2 * j + 1]", "up = total[2 * j]"),
    Mutant(
        "projection",
        "wide_first_columns_of_a_unit_again",
        "rActivation[None, None, step, stage]",
        "rActivation[None, None, 0, stage]",
        file="../projection_hopper/kernel.py",
    ),
    Mutant(
        "projection",
        "wide_rows_of_the_first_peer",
        "tile = block * c.cluster + rank",
        "tile = block * c.cluster",
        file="../projection_hopper/kernel.py",
    ),
    Mutant(
        "projection",
        "wide_last_chain_alone",
        "rSums.store(rSums.load() + rChain.load())",
        "rSums.store(rChain.load())",
        file="../projection_hopper/kernel.py",
    ),
    Mutant(
        "projection",
        "last_phase_alone",
        "rSum.store(rSum.load() + rChain.load())",
        "rSum.store(rChain.load())",
    ),
)
