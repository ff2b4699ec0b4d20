"""What device code makes of two words of MXFP4 weights, in plain integers."""

import torch

from k3decode.mxfp4_blocks import (
    BORROW_MASK,
    BORROW_ROTATION,
    PAIR_ROTATIONS,
    SHARED_ROTATIONS,
)

FULL = 0xFFFFFFFF
PAIR_MASK = 0x81C081C0


def rotated(word: int, places: int) -> int:
    return (word >> places | word << (32 - places)) & FULL


def pairs(first: int, second: int) -> list[list[int]]:
    """What the device code does with two words."""
    borrowed = rotated(second, 32 - BORROW_ROTATION)
    shared = first & BORROW_MASK | borrowed & ~BORROW_MASK & FULL
    return [
        [
            *(rotated(word, places) & PAIR_MASK for places in PAIR_ROTATIONS),
            rotated(shared, rotation) & PAIR_MASK,
        ]
        for word, rotation in zip((first, second), SHARED_ROTATIONS, strict=True)
    ]


def value(half: int) -> float:
    """A BF16 number of 16 bits, times 2^126."""
    bits = torch.tensor([half], dtype=torch.int32).to(torch.uint16)
    return float(bits.view(torch.bfloat16).double()) * 2.0**126
