"""Prompts that nobody can have seen: token ids and words drawn from the run's nonce. Pure.

Equal nonce, cell and index give equal prompts in every boot; another nonce gives others. No two
prompts share a prefix, except where a shared one is asked for.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "Vocabulary",
    "chat_message",
    "order_of",
    "poisson_arrivals_ns",
    "sampling_seed",
    "shared_tokens",
    "shared_words",
    "token_prompt",
]

_SYLLABLES = (
    *("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu"),
    *("na", "pe", "ri", "so", "tu", "va", "we", "xi", "yo", "zu"),
)
_SEED_RANGE = 2**31 - 2
_NUMBERS = 2**32


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
    return _tokens(f"{nonce}/{cell_id}/{index}/tokens", length, vocabulary)


def shared_tokens(
    nonce: str, cell_id: str, name: str, length: int, vocabulary: Vocabulary
) -> tuple[int, ...]:
    """Draws token ids that several prompts of a cell begin with.

    Args:
        nonce: 64 hexadecimal digits.
        cell_id: The cell.
        name: Names the piece; equal names give equal pieces.
        length: Number of tokens.
        vocabulary: Allowed ids.
    """
    return _tokens(f"{nonce}/{cell_id}/shared-{name}/tokens", length, vocabulary)


def chat_message(nonce: str, cell_id: str, index: int, words: int) -> str:
    """Draws a message of made-up words."""
    numbers = _numbers(f"{nonce}/{cell_id}/{index}/words")
    return " ".join(_word(numbers) for _ in range(words))


def shared_words(nonce: str, cell_id: str, words: int) -> str:
    """Draws made-up words that all messages of a cell begin with."""
    numbers = _numbers(f"{nonce}/{cell_id}/shared/words")
    return " ".join(_word(numbers) for _ in range(words))


def order_of(nonce: str, cell_id: str, count: int) -> tuple[int, ...]:
    """Draws an order of the numbers below `count`."""
    numbers = _numbers(f"{nonce}/{cell_id}/order")
    order = list(range(count))
    for last in range(count - 1, 0, -1):
        other = next(numbers) % (last + 1)
        order[last], order[other] = order[other], order[last]
    return tuple(order)


def poisson_arrivals_ns(
    nonce: str, cell_id: str, count: int, requests_per_s: float
) -> tuple[int, ...]:
    """Draws when requests are due: exponentially distributed distances, the first one included.

    Args:
        nonce: 64 hexadecimal digits.
        cell_id: The cell.
        count: Requests.
        requests_per_s: Mean rate.

    Returns:
        Nanoseconds since the start of the measured part, ascending.
    """
    numbers = _numbers(f"{nonce}/{cell_id}/arrivals")
    at_s = 0.0
    due: list[int] = []
    for _ in range(count):
        # Above 0 and at most 1, so that the logarithm is finite.
        at_s -= math.log((next(numbers) + 1) / _NUMBERS) / requests_per_s
        due.append(round(at_s * 1e9))
    return tuple(due)


def sampling_seed(nonce: str, cell_id: str, index: int, *, other: bool) -> int:
    """A sampling seed below 2**31; `other` gives one that differs from the first."""
    seed = next(_numbers(f"{nonce}/{cell_id}/{index}/seed")) % _SEED_RANGE
    return seed + 1 if other else seed


def _tokens(label: str, length: int, vocabulary: Vocabulary) -> tuple[int, ...]:
    span = vocabulary.size - vocabulary.first
    drawn: list[int] = []
    numbers = _numbers(label)
    while len(drawn) < length:
        token = vocabulary.first + next(numbers) % span
        if token not in vocabulary.special:
            drawn.append(token)
    return tuple(drawn)


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
