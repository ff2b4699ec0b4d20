# mypy: ignore-errors
# ruff: noqa: N803, N806
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Latent rows of a small batch in shared memory, multiplied once for all products with them.

They depend on no choice of experts, so they are asked for while slots are grouped. A warp brings
what one warp of a team works on of one row, and says by which power of two it was multiplied.
"""

import cutlass
from cutlass import Int32, Uint32, cute
from cutlass.memory import SmemAllocator

from k3decode.device.mxfp4 import (
    ACTIVATION_EXPONENT,
    exceeds_scaled_range,
    scaled_activation,
    scaling_factor,
    sum_exponent,
)
from k3decode.device.row_io import WARP_SIZE
from k3decode.ops.experts.config import ExpertsConfig

__all__ = ["StagedTokens"]

_WORDS = 4
_CHUNK_VECTORS = 8
_VECTOR_BYTES = 16
_CHUNK_BYTES = _CHUNK_VECTORS * _VECTOR_BYTES
_GROUP_BYTES = _CHUNK_BYTES // 2


class StagedTokens:
    """Shared memory of a CTA for `max_rows` rows."""

    def __init__(self, smem: SmemAllocator, config: ExpertsConfig) -> None:
        c = config
        self.config = c
        words = cute.make_layout(c.max_rows * c.latent_size // 2)
        self.sWords = smem.allocate_tensor(Uint32, words, 128)
        exponents = cute.make_layout(c.max_rows * c.team_warps)
        self.sExponents = smem.allocate_tensor(Uint32, exponents, 16)

    @cute.jit
    def bring(self, mLatent: cute.Tensor, rows: Int32):
        """Copy the rows; the next barrier of the CTA makes them visible."""
        c, sWords, sExponents = self.config, self.sWords, self.sExponents
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        vectors = c.gate_up_chunks * _CHUNK_VECTORS
        rounds = -(-vectors // WARP_SIZE)
        rWords = cute.make_rmem_tensor((_WORDS, rounds), Uint32)
        # The first warp groups the slots of very few rows, so the last one begins.
        unit = c.warps - 1 - warp
        while unit < rows * c.team_warps:
            gToken = mLatent[unit // c.team_warps, None]
            first = unit % c.team_warps * vectors
            large = Uint32(0)
            for i in cutlass.range_constexpr(rounds):
                # Lanes beyond the last vector have that one, too.
                vector = first + cutlass.min(lane + i * WARP_SIZE, vectors - 1)
                cute.autovec_copy(cute.local_tile(gToken, (_WORDS,), (vector,)), rWords[None, i])
            for i in cutlass.range_constexpr(rounds):
                for word in cutlass.range_constexpr(_WORDS):
                    large = large | exceeds_scaled_range(rWords[word, i])
            too_large = cute.arch.vote_any_sync(large != Uint32(0))
            shift = Int32(0) if too_large else Int32(ACTIVATION_EXPONENT)
            factor = scaling_factor(shift)
            for i in cutlass.range_constexpr(rounds):
                vector = unit * vectors + cutlass.min(lane + i * WARP_SIZE, vectors - 1)
                for word in cutlass.range_constexpr(_WORDS):
                    rWords[word, i] = scaled_activation(rWords[word, i], factor)
                target = cute.local_tile(sWords, (_WORDS,), (vector,))
                cute.autovec_copy(rWords[None, i], target)
            if lane == 0:
                sExponents[unit] = sum_exponent(shift)
            unit = unit + c.warps

    @cute.jit
    def address(self, row: Int32) -> Int32:
        """Shared address of the lane's first values of a row: a group of its warp's columns."""
        c = self.config
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        unit = row * c.team_warps + warp % c.team_warps
        within = lane // 4 % 2 * _GROUP_BYTES + lane % 4 * _VECTOR_BYTES
        memory = Int32(self.sWords.iterator.toint())
        return memory + unit * (c.gate_up_chunks * _CHUNK_BYTES) + within

    @cute.jit
    def exponent(self, row: Int32) -> Uint32:
        """`sum_exponent` of the warp's columns of a row."""
        team_warps = self.config.team_warps
        return self.sExponents[row * team_warps + cute.arch.warp_idx() % team_warps]

    def words(self, address: Int32, chunk: int) -> list:
        """The lane's values of one chunk."""
        found = cute.arch.inline_ptx(
            "ld.shared.v4.b32 {{$w0}, {$w1}, {$w2}, {$w3}}, "
            f"[{{$r0}}+{chunk * _CHUNK_BYTES}];",
            write_only_types=[Uint32] * _WORDS,
            read_only_args=[address],
        )
        return list(found)
