"""Which variant serves which projection: a table with reasons, and the rule that reads it.

A launch is one wave of CTAs with equal work: what counts is that enough bytes are requested at any
time, not that every multiprocessor has a CTA. So the number of weight rows decides about the rows
of a CTA, and weights of few rows are split along the columns. With more tokens the activations,
which every CTA reads for itself, weigh against that.
"""

from dataclasses import dataclass

from k3decode.ops.projection.config import BLOCK_ROWS, ProjectionConfig, SituBounds

__all__ = ["TABLE", "TableRow", "config_for"]


@dataclass(frozen=True)
class TableRow:
    """Tile, stages and split for weights up to a size, at a number of tokens."""

    tokens: int
    """Room for tokens; 1 and 2 have FP32 arithmetic, more the tensor cores."""
    max_blocks: float
    """Most blocks of 16 weight rows it is for."""
    max_columns: float
    """Most weight columns it is for."""
    tile: tuple[int, ...]
    """Blocks of a warp, warps with rows of their own, warps that share rows."""
    stages: int
    split: int
    phase_units: int
    unit_columns: int
    reason: str


# Times: medians of launches one behind the other on an H200, weights from memory, at the number of
# tokens and for the weight named. Rows of a table are read from the top, the first that fits is it.
_TEXT = """
tokens blocks columns tile    stages split phase unit reason
     1    132     256 1x1x2        2     1     2   64 two units of columns; 1536 x 128
     1     24     inf 1x1x7        2     8     7   64 few rows; 288 x 7168
     1     40     inf 1x1x7        4     4    14   64 few rows; 560 x 7168
     1     60     inf 1x1x7        2     4     7   64 few rows; 896 x 3584
     1    132     inf 1x1x8        5     1    24   64 one block per SM; 1536 x 7168
     1    264     inf 1x2x4        5     1    28   64 two blocks per SM; 3216 x 7168
     1    396     inf 1x3x4        4     1    28   64 three blocks per SM; 6288 x 7168
     1    528     inf 1x4x4        4     1    24   64 four blocks per SM; 7168 x 1536
     1    660     inf 1x5x2        5     1    28   64 five blocks per SM; 10240 x 7168
     1    inf     inf 2x5x2        4     1    28   64 ten blocks per SM; 20480 x 7168
     2    132     256 1x1x2        2     1     2   64 two units of columns; 1536 x 128
     2     24     inf 1x1x7        2     8     7   64 few rows; 288 x 7168
     2     40     inf 1x1x7        4     4    14   64 few rows; 560 x 7168
     2     60     inf 1x1x7        2     4     7   64 few rows; 896 x 3584
     2    132     inf 1x1x8        5     1    24   64 one block per SM; 1536 x 7168
     2    264     inf 1x2x4        5     1    28   64 two blocks per SM; 3216 x 7168
     2    396     inf 1x3x4        4     1    28   64 three blocks per SM; 6288 x 7168
     2    528     inf 1x4x4        4     1    24   64 four blocks per SM; 7168 x 1536
     2    660     inf 1x5x2        5     1    28   64 five blocks per SM; 10240 x 7168
     2    inf     inf 2x5x2        4     1    28   64 ten blocks per SM; 20480 x 7168
     8    132     256 1x1x2        2     1     2   64 two units of columns; 1536 x 128
     8     24     inf 1x1x7        2     8     7   64 few rows; 288 x 7168
     8     40     inf 1x1x7        4     4    14   64 few rows; 560 x 7168
     8     60     inf 1x1x7        2     4     7   64 few rows; 896 x 3584
     8    132     inf 1x1x8        5     1    24   64 one block per SM; 1536 x 7168
     8    264     inf 1x2x4        5     1    28   64 two blocks per SM; 3216 x 7168
     8    396     inf 1x3x4        4     1    28   64 three blocks per SM; 6288 x 7168
     8    528     inf 1x4x4        4     1    24   64 four blocks per SM; 7168 x 1536
     8    660     inf 1x5x2        5     1    28   64 five blocks per SM; 10240 x 7168
     8    inf     inf 2x5x2        4     1    28   64 ten blocks per SM; 20480 x 7168
    16    132     256 1x1x2        2     1     2   64 two units of columns; 1536 x 128
    16     24     inf 1x1x7        2     8     7   64 few rows; 288 x 7168
    16     40     inf 1x1x7        4     4     7   64 few rows; 560 x 7168
    16     60     inf 1x1x7        2     4     7   64 few rows; 896 x 3584
    16    132     inf 1x1x8        5     1    16   64 one block per SM; 1536 x 7168
    16    264     inf 1x2x4        5     1    16   64 two blocks per SM; 3216 x 7168
    16    396     inf 1x3x4        4     1    28   64 three blocks per SM; 6288 x 7168
    16    528     inf 1x4x4        4     1    24   64 four blocks per SM; 7168 x 1536
    16    660     inf 1x5x2        5     1    14   64 five blocks per SM; 10240 x 7168
    16    inf     inf 2x5x2        4     1    14   64 ten blocks per SM; 20480 x 7168
    32    132     256 1x1x2        2     1     2   64 two units of columns; 1536 x 128
    32     24     inf 1x1x7        3     8     7   64 few rows; 288 x 7168
    32     40     inf 1x1x7        3     4     7   64 few rows; 560 x 7168
    32     60     inf 1x1x7        4     2     7   64 few rows; 896 x 3584
    32    132     inf 1x1x8        5     1     8   64 one block per SM; 1536 x 7168
    32    264     inf 1x2x4        5     1     8   64 two blocks per SM; 3216 x 7168
    32    396     inf 1x3x4        4     1    12   64 three blocks per SM; 6288 x 7168
    32    528     inf 1x4x4        4     1     8   64 four blocks per SM; 7168 x 1536
    32    660     inf 1x5x2        5     1     8   64 five blocks per SM; 10240 x 7168
    32    inf     inf 2x5x2        3     1     8   64 ten blocks per SM; 20480 x 7168
    64    132     256 1x1x2        2     1     2   64 two units of columns; 1536 x 128
    64     24     inf 1x3x4        4     8     4   64 few rows; 288 x 7168
    64     40     inf 1x4x2        4     8     4   64 few rows; 560 x 7168
    64     60     inf 2x1x8        5     4     8   32 few rows; 896 x 3584
    64    132     inf 2x2x4        4     4     4   64 one block per SM; 1536 x 7168
    64    264     inf 2x4x2        4     4     4   64 two blocks per SM; 3216 x 7168
    64    396     inf 2x3x4        3     2     4   64 three blocks per SM; 6288 x 7168
    64    528     inf 2x2x4        4     1     4   64 four blocks per SM; 7168 x 1536
    64    660     inf 5x1x8        3     1     8   32 five blocks per SM; 10240 x 7168
    64    inf     inf 5x2x4        3     1     8   32 ten blocks per SM; 20480 x 7168
"""


def _row(line: str) -> TableRow:
    tokens, blocks, columns, tile, stages, split, phase, unit, reason = line.split(maxsplit=8)
    return TableRow(
        tokens=int(tokens),
        max_blocks=float(blocks),
        max_columns=float(columns),
        tile=tuple(int(part) for part in tile.split("x")),
        stages=int(stages),
        split=int(split),
        phase_units=int(phase),
        unit_columns=int(unit),
        reason=reason,
    )


TABLE = tuple(_row(line) for line in _TEXT.strip().splitlines()[1:])
"""First row that fits is taken."""


def config_for(
    rows: int, columns: int, tokens: int, situ: SituBounds | None = None
) -> ProjectionConfig:
    """Variant for a weight [rows, columns] and up to 64 tokens.

    Raises:
        ValueError: no row of the table has room for so many tokens.
    """
    blocks = -(-rows // BLOCK_ROWS)
    for row in TABLE:
        if tokens <= row.tokens and blocks <= row.max_blocks and columns <= row.max_columns:
            per_warp, warps_n, warps_k = row.tile
            return ProjectionConfig(
                tokens=row.tokens,
                blocks=per_warp,
                warps_n=warps_n,
                warps_k=warps_k,
                stages=row.stages,
                split=row.split,
                phase_units=row.phase_units,
                unit_columns=row.unit_columns,
                situ=situ,
            )
    raise ValueError(f"expected up to 64 tokens, found {tokens}: split the batch")
