"""Which part attends to which tokens of which row: plain integers, as on the device.

The tiles of all rows stand in one line, which is cut into equal parts, so that every part ends at
the same time however unequal the contexts are. What part p finds for row r is partial p + r: both
grow along the line, so no two share a place.

Where the rows of a request go together, the line has the tiles of requests instead. What part p
finds for the q rows of request b are the q partials from q (p + b) on, also for rows that see no
token of that part.
"""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Piece", "SplitRule", "partial_count", "pieces", "visible_tokens"]


@dataclass(frozen=True)
class SplitRule:
    """How a line of tiles is cut."""

    tile_tokens: int
    """Tokens of a tile; the last one of a row may have fewer."""
    fewest_tiles: int
    """Tiles of a part, at least; the last part may have fewer."""
    together: bool = False
    """Whether the rows of a request attend together to what each tile of theirs has."""

    def rows_together(self, tokens_per_request: int) -> int:
        """Rows that share the places of the line."""
        return tokens_per_request if self.together else 1


@dataclass(frozen=True)
class Piece:
    """Tokens of one row that one part attends to."""

    part: int
    row: int
    first_token: int
    tokens: int
    """None for a row that goes together with later ones which see more."""
    partial: int
    """Place of the result among the partials."""


def partial_count(rows: int, parts: int, rows_together: int = 1) -> int:
    """Partials that a launch may write, hence the extent of its workspace."""
    return (parts + rows // rows_together - 1) * rows_together


def visible_tokens(lengths: Sequence[int], tokens_per_request: int) -> list[int]:
    """Tokens that each row attends to.

    Args:
        lengths: tokens of each request, those of this step included.
        tokens_per_request: rows of a request; the last one sees all tokens, each earlier one token
            less than the next.
    """
    return [
        max(length - (tokens_per_request - 1 - position), 0)
        for length in lengths
        for position in range(tokens_per_request)
    ]


def pieces(
    visible: Sequence[int], rule: SplitRule, parts: int, tokens_per_request: int = 1
) -> list[Piece]:
    """Cut the line of tiles; requests without tokens have no piece."""
    shared = rule.rows_together(tokens_per_request)
    # The last row of a request sees all that the others see.
    whole = visible[shared - 1 :: shared]
    tiles = [-(-tokens // rule.tile_tokens) for tokens in whole]
    quota = max(-(-sum(tiles) // parts), rule.fewest_tiles)
    found = []
    start = 0
    for entry, count in enumerate(tiles):
        end = start + count
        for part in range(start // quota, -(-end // quota)):
            first = max(start, part * quota) - start
            last = min(end, (part + 1) * quota) - start
            if first < last:
                first_token = first * rule.tile_tokens
                for row in range(entry * shared, (entry + 1) * shared):
                    tokens = min(last * rule.tile_tokens, visible[row]) - first_token
                    place = (part + entry) * shared + row % shared
                    found.append(Piece(part, row, first_token, max(tokens, 0), place))
        start = end
    return found
