"""Prompts that nobody can have seen: token ids and words drawn from the run's nonce. Pure.

Equal nonce, cell and index give equal prompts in every boot; another nonce gives others.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Vocabulary", "chat_message", "sampling_seed", "token_prompt"]

_SYLLABLES = (
    *("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu"),
    *("na", "pe", "ri", "so", "tu", "va", "we", "xi", "yo", "zu"),
)
_SEED_RANGE = 2**31 - 2


@dataclass(frozen=True)
class Vocabulary:
    """Token ids that prompts may use."""

    first: int
    """Smallest id."""
    size: int
    """Ids are below this."""
    special: frozenset[int]
    """Ids never used: end of sequence, padding, template marks."""


def token_prompt(
    nonce: str, cell_id: str, index: int, length: int, vocabulary: Vocabulary
) -> tuple[int, ...]:
    """Draws a prompt of token ids.

    Args:
        nonce: 64 hexadecimal digits.
        cell_id: The cell.
        index: Prompt number within the cell.
        length: Number of tokens.
        vocabulary: Allowed ids; must hold at least one.

    Returns:
        `length` ids, none of them special.
    """
    span = vocabulary.size - vocabulary.first
    drawn: list[int] = []
    for number in _numbers(f"{nonce}/{cell_id}/{index}/tokens"):
        token = vocabulary.first + number % span
        if token not in vocabulary.special:
            drawn.append(token)
        if len(drawn) == length:
            break
    return tuple(drawn)


def chat_message(nonce: str, cell_id: str, index: int, words: int) -> str:
    """Draws a message of made-up words."""
    numbers = _numbers(f"{nonce}/{cell_id}/{index}/words")
    return " ".join(_word(numbers) for _ in range(words))


def sampling_seed(nonce: str, cell_id: str, index: int, *, other: bool) -> int:
    """A sampling seed below 2**31; `other` gives one that differs from the first."""
    seed = next(_numbers(f"{nonce}/{cell_id}/{index}/seed")) % _SEED_RANGE
    return seed + 1 if other else seed


def _word(numbers: Iterator[int]) -> str:
    return "".join(_SYLLABLES[next(numbers) % len(_SYLLABLES)] for _ in range(3))


def _numbers(label: str) -> Iterator[int]:
    """Endless 32-bit numbers from SHA-256 in counter mode: the same on every machine."""
    counter = 0
    while True:
        block = hashlib.sha256(f"{label}/{counter}".encode()).digest()
        for at in range(0, len(block), 4):
            yield int.from_bytes(block[at : at + 4], "big")
        counter += 1
