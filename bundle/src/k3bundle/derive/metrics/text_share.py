"""Whether the text is as long as the server's usage says.

    text share = tokens that the server's tokenizer finds in the texts / completion tokens by usage

Usage is the truth; this is its cross-check. Cutting text into tokens again need not give the same
tokens, so a small difference is no finding, and a large one is.
"""

from collections.abc import Iterable
from typing import Final

from k3bundle.request import RequestRecord

__all__ = ["MAXIMUM_TEXT_DIFFERENCE", "text_share"]

MAXIMUM_TEXT_DIFFERENCE: Final = 0.02
"""Largest difference from 1 that is no finding."""


def text_share(requests: Iterable[RequestRecord]) -> float | None:
    """Tokens of the texts over tokens by usage, over the completed requests that have both.

    Returns:
        The share; None where no text was counted.
    """
    counted = [
        (request.text_tokens, request.outcome.completion_tokens)
        for request in requests
        if request.text_tokens is not None and request.outcome.status == "completed"
    ]
    by_usage = sum(usage for _, usage in counted)
    return sum(text for text, _ in counted) / by_usage if by_usage else None
