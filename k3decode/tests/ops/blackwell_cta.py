"""One CTA of Blackwell's attention kernel, played through in NumPy byte by byte.

What its copies and threads write stands where the arithmetic of the device code says; what its
products read stands where their descriptors say.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from k3decode.device.swizzled_places import column_major_place, row_place
from k3decode.ops.mla_decode_blackwell.config import BOX_TOKENS, MlaDecodeBlackwellConfig

from .blackwell_memory import Bytes, Pairs, Storage, bulk_copy, lane_of, slot_of

__all__ = ["UNIT", "Cta"]

UNIT = 128
"""Latent columns of one product."""


def as_bytes(values: torch.Tensor) -> Bytes:
    found: Bytes = values.contiguous().view(torch.uint8).numpy()
    return found


def read(memory: Bytes, places: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """Elements of two bytes or of one at byte addresses, as FP32."""
    size = dtype.itemsize
    parts = np.stack([memory[places + i] for i in range(size)], -1)
    return torch.from_numpy(np.ascontiguousarray(parts)).view(dtype)[..., 0].float()


OPERAND = {"bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}


@dataclass
class Cta:
    """One CTA with one request of one tile after another."""

    config: MlaDecodeBlackwellConfig
    query: torch.Tensor
    """[query rows, width], in the cache's format."""
    rows: torch.Tensor
    """Cache rows of whole boxes; those behind the request's tokens hold NaN."""
    length: int
    later: list[int]
    """Tokens of the request after each query row's own."""

    def __post_init__(self) -> None:
        self.at = Storage(self.config)
        self.memory: Bytes = np.full(self.at.end, 0xFF, np.uint8)
        self.slot = self.config.latent_slots - 2

    def bring_queries(self) -> None:
        c = self.config
        for column in range(c.columns):
            row = np.zeros(c.row_bytes, np.uint8)
            if column < len(self.query):
                row = as_bytes(self.query[column])
            for piece in range(c.row_copies):
                place = self.at.query + row_place(c.columns, 128, column, piece)
                if piece >= c.latent_copies:
                    width = c.shared * c.element_bytes
                    rest = piece - c.latent_copies
                    place = self.at.query_shared + row_place(c.columns, width, column, rest)
                self.memory[place : place + 16] = row[16 * piece : 16 * piece + 16]

    def bring_tile(self, tile: int) -> None:
        c = self.config
        stored = as_bytes(self.rows)
        left = self.length - tile * c.tile_tokens
        for box in range(min(-(-left // BOX_TOKENS), c.boxes)):
            first = tile * c.tile_tokens + box * BOX_TOKENS
            chosen = stored[first : first + BOX_TOKENS]
            for unit in range(c.units):
                for span in range(c.spans):
                    target = slot_of(c, self.slot + unit) * c.unit_bytes
                    target += span * c.tile_tokens * 128 + box * c.box_bytes
                    column = (unit * c.spans + span) * 128
                    bulk_copy(self.memory, target, chosen[:, column : column + 128])
            shared = self.at.shared + tile % c.shared_slots * c.shared_tile_bytes
            columns = chosen[:, c.latent * c.element_bytes :]
            bulk_copy(self.memory, shared + box * c.shared_box_bytes, columns)

    def product(self, pairs: Pairs, rows: int, terms: str) -> torch.Tensor:
        c = self.config
        left = OPERAND[c.cache_format]
        right = torch.float8_e5m2 if terms == "fine" else left
        total = torch.zeros(rows, c.columns)
        for one, other in pairs:
            a = read(self.memory, one.places(rows, c.depth, c.element_bytes), left)
            b = read(self.memory, other.places(c.columns, c.depth, c.element_bytes), right)
            total = total + a @ b.T
        return total

    def forget_rows(self, left: int) -> None:
        c = self.config
        for token in range(max(left, 0), c.tile_tokens):
            for unit in range(c.units):
                for span in range(c.spans):
                    for piece in range(8):
                        place = slot_of(c, self.slot + unit) * c.unit_bytes + token * 128
                        place += span * (c.unit_bytes // c.spans) + (piece + token) % 8 * 16
                        self.memory[place : place + 16] = 0

    def write_shares(self, token: int, shares: torch.Tensor) -> None:
        c = self.config
        for block in range(c.columns // 16):
            rest = shares[16 * block : 16 * block + 16] * c.share_scale
            for term in range(c.terms):
                fine = c.terms > 1 and term + 1 == c.terms
                kept = rest.to(torch.float8_e5m2 if fine else OPERAND[c.cache_format])
                rest = rest - kept.float()
                found = as_bytes(kept)
                for half in range(len(found) // 16):
                    place = self.at.shares + term * (c.share_bytes // c.terms)
                    place += column_major_place(c.tile_tokens, c.element_bytes, block, token, half)
                    self.memory[place : place + 16] = found[16 * half : 16 * half + 16]

    def attend(self, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Latents [query rows, L] and logarithms, as the warps make them."""
        c = self.config
        self.bring_queries()
        reference = torch.full((c.columns,), -torch.inf)
        totals = torch.zeros(128, c.columns)
        sums = torch.zeros(c.units, UNIT, c.columns)
        later = torch.tensor(self.later + [0] * (c.columns - len(self.later)))
        for tile in range(-(-self.length // c.tile_tokens)):
            self.bring_tile(tile)
            left = self.length - tile * c.tile_tokens
            shared_slot = tile % c.shared_slots
            products = self.product(
                self.at.key_products(self.slot, shared_slot), c.tile_tokens, "whole"
            )
            memory = torch.full((128, c.columns), torch.nan)
            for row in range(c.tile_tokens):
                memory[lane_of(row, c.tile_tokens)] = products[row]
            per_warp = c.tile_tokens // 4
            owners = {lane: lane // 32 * per_warp + lane % 32 for lane in range(128)}
            tokens = {lane: t for lane, t in owners.items() if lane % 32 < per_warp}
            exponents = torch.full((128, c.columns), -torch.inf)
            for lane, token in tokens.items():
                exponents[lane] = torch.where(
                    token + later < left, memory[lane] * scale, -torch.inf
                )
            highest = exponents.amax(0)
            grown = highest > reference + c.slack
            shrink = torch.where(grown, torch.exp2(reference - highest), 1.0)
            reference = torch.where(grown, highest, reference)
            totals, sums = totals * shrink, sums * shrink if tile else sums
            used = torch.where(reference > -torch.inf, reference, 0.0)
            for lane, token in tokens.items():
                shares = torch.exp2(exponents[lane] - used)
                totals[lane] += shares
                self.write_shares(token, shares)
            self.forget_rows(left)
            for unit in range(c.units):
                for term in range(c.terms):
                    fine = c.terms > 1 and term + 1 == c.terms
                    pairs = self.at.value_products(self.slot, unit, term)
                    sums[unit] += self.product(pairs, UNIT, "fine" if fine else "whole")
            self.slot = slot_of(c, self.slot + c.units)
        total = totals.sum(0)
        latents = sums.permute(2, 0, 1).flatten(1) / (total * c.share_scale)[:, None]
        count = len(self.query)
        return latents[:count], ((reference + torch.log2(total)) * math.log(2.0))[:count]
