"""Which variant serves which projection: a table with reasons, and the rule that reads it.

A launch is one wave of CTAs with equal work: what counts is that enough bytes are requested at any
time, not that every multiprocessor has a CTA. So the number of weight rows decides about the rows
of a CTA, and weights of few rows are split along the columns. With more tokens the activations,
which every CTA reads for itself, weigh against that.
"""

from dataclasses import dataclass

from k3decode.ops.projection.config import BLOCK_ROWS, ProjectionConfig, SituBounds

__all__ = ["TABLE", "TableRow", "config_for"]


_STEP_COLUMNS = 16
# FP32 outputs of 224 steps in one chain were off by 0.32 of what is allowed, of 448 by 1.07.
_LONGEST_CHAIN = 224


@dataclass(frozen=True)
class TableRow:
    """Tile, stages and split for weights up to a size, at a number of tokens."""

    tokens: int
    """Room for activation rows."""
    arithmetic: int
    """Tokens of the arithmetic, no fewer: 1 and 2 are FP32, more the tensor cores."""
    blocks: tuple[float, float]
    """Blocks of 16 weight rows that it is for, from and to."""
    max_columns: float
    """Most weight columns it is for."""
    tile: tuple[int, ...]
    """Blocks of a warp, warps with rows of their own, warps that share rows."""
    stages: int
    ahead: int | None
    """See `ProjectionConfig`."""
    split: int
    phase_units: int
    unit_columns: int
    reason: str

    def fits(self, rows: int, columns: int) -> bool:
        """Whether it is for a weight [rows, columns]."""
        least, most = self.blocks
        return least <= -(-rows // BLOCK_ROWS) <= most and columns <= self.max_columns


# Tile is blocks per warp x warps with rows of their own x warps that share rows; ring the stages.
# Reasons: CTAs and their height, and a median, launches one behind the other on an H200, weights
# from memory, of the weight named. Each row was the fastest of two to six that were tried and that
# spill no or few registers on any architecture; at 1 and 2 tokens FP32 arithmetic is kept where
# matrix instructions gain less than 2 %. "1/8" is one row by matrix instructions, which take eight:
# what a ring holds before activations come is then multiplied in less time. "13+2" is a ring of 13
# units, two of them on their way at a time before activations come: all at once keep the small
# launch in front waiting, and a layer of one row takes 2 us longer.
_TEXT = """
m    blocks columns tile   ring split phase unit reason
 1    1-132     256 1x2x2     2     1     2   64 48 CTAs of 2 blocks; 1536 x 128: 1.4 us
 8    1-132     256 1x2x2     2     1     2   64 48 CTAs of 2 blocks; 1536 x 128: 1.6 us
 1     1-24     inf 1x1x14    3     4    14   64 18 x 4 CTAs of 1 block; 288 x 7168: 3.5 us
 1    41-60    3584 1x1x8     4     4    16   64 56 x 4 CTAs of 1 block; 896 x 3584: 3.9 us
 8   61-132    3584 1x1x8     5     1    24   64 72 CTAs of 1 block; all of 1152 x 1536 early
1/8   41-60     inf 1x1x8  11+2     2    40   64 56 x 2 CTAs of 1 block; all of 896 x 9728 early
1/8  67-132     inf 1x1x8  13+2     1    56   64 131 CTAs of 1 block; most of 2096 x 7168 early
 1  133-264     inf 1x2x7     4     1    28   64 101 CTAs of 2 blocks; 3216 x 7168: 13.9 us
 1  265-396     inf 1x3x4     7     1    16   64 131 CTAs of 3 blocks; of a layer 0.5 us
 1  397-528     inf 1x4x4     6     1    24   64 112 CTAs of 4 blocks; most of 7168 x 1536 early
 1  529-660     inf 1x5x3     4     1    27   64 128 CTAs of 5 blocks; 10240 x 7168: 38.0 us
 1  661-inf     inf 1x10x1    6     1    28   64 128 CTAs of 10 blocks; 20480 x 7168: 72.8 us
 2  133-264     inf 1x2x7     4     1    28   64 101 CTAs of 2 blocks; 3216 x 7168: 14.6 us
 2  265-396     inf 1x3x4     7     1    16   64 131 CTAs of 3 blocks; of a layer 1.0 us
 8    41-60    3584 1x1x8     4     4    16   64 56 x 4 CTAs of 1 block; 896 x 3584: 4.4 us
2/8   41-60     inf 1x1x8  11+2     2    40   64 as of one row
2/8  67-132     inf 1x1x8  12+2     1    56   64 as of one row
4/8   41-60     inf 1x1x8  11+2     2    40   64 as of one row
4/8  67-132     inf 1x1x8  10+2     1    56   64 as of one row; of a layer, both, 3 us
 8     1-24     inf 1x1x14    3     4    14   64 18 x 4 CTAs of 1 block; 288 x 7168: 3.9 us
 8    25-40     inf 1x1x7     4     4    14   64 35 x 4 CTAs of 1 block; 560 x 7168: 4.8 us
 8    41-60     inf 1x1x8     4     4    16   64 56 x 4 CTAs of 1 block; of a layer as above
 8   61-132     inf 1x1x8     5     1    24   64 96 CTAs of 1 block; 1536 x 7168: 8.0 us
 8  133-264     inf 1x2x7     4     1    28   64 101 CTAs of 2 blocks; 3216 x 7168: 14.4 us
 8  265-396     inf 1x3x4     6     1    28   64 131 CTAs of 3 blocks; 6288 x 7168: 24.8 us
 8  397-528     inf 1x4x4     6     1    12   64 112 CTAs of 4 blocks; most of 7168 x 1536 early
 8  529-660     inf 1x5x2     5     1    28   64 128 CTAs of 5 blocks; 10240 x 7168: 39.6 us
 8  661-inf     inf 1x10x1    6     1    28   64 128 CTAs of 10 blocks; 20480 x 7168: 73.0 us
16    1-132     256 1x2x2     2     1     2   64 48 CTAs of 2 blocks; 1536 x 128: 1.8 us
16     1-24     inf 1x1x7     4     4     7   64 18 x 4 CTAs of 1 block; 288 x 7168: 4.7 us
16    25-40     inf 1x1x7     2     8     7   64 35 x 8 CTAs of 1 block; 560 x 7168: 5.6 us
16    41-60    3584 1x1x7     4     2     7   64 56 x 2 CTAs of 1 block; 896 x 3584: 5.3 us
16    41-60     inf 1x1x7    11     2    14   64 56 x 2 CTAs of 1 block; most of 896 x 9728 early
16   61-132    3584 1x1x8     5     1    16   64 96 CTAs of 1 block; 1536 x 7168: 9.0 us
16   61-132     inf 1x1x8    10     1    16   64 131 CTAs of 1 block; with that, of a layer 2 us
16  133-264     inf 1x2x4     5     1    16   64 101 CTAs of 2 blocks; 3216 x 7168: 15.7 us
16  265-396     inf 1x3x4     5     1    16   64 131 CTAs of 3 blocks; 6288 x 7168: 26.1 us
16  397-528     inf 1x4x4     4     1    24   64 112 CTAs of 4 blocks; 7168 x 1536: 7.6 us
16  529-660     inf 1x5x3     4     1    15   64 128 CTAs of 5 blocks; 10240 x 7168: 39.2 us
16  661-inf     inf 2x5x2     4     1    14   64 128 CTAs of 10 blocks; 20480 x 7168: 74.2 us
32    1-132     256 1x2x2     2     1     2   64 48 CTAs of 2 blocks; 1536 x 128: 2.1 us
32     1-24     inf 1x2x7     3     8     7   64 9 x 8 CTAs of 2 blocks; 288 x 7168: 4.8 us
32    25-40     inf 1x3x4     4     8     8   64 12 x 8 CTAs of 3 blocks; 560 x 7168: 6.6 us
32    41-60     inf 1x1x7     4     2     7   64 56 x 2 CTAs of 1 block; 896 x 3584: 5.7 us
32  129-132     inf 1x5x2     5     4     8   64 27 x 4 CTAs of 5 blocks; 33 clusters are two waves
32   61-132     inf 2x2x4     4     4     8   64 24 x 4 CTAs of 4 blocks; 1536 x 7168: 10.3 us
32  133-264     inf 2x2x4     4     2     8   64 51 x 2 CTAs of 4 blocks; 3216 x 7168: 17.5 us
32  265-396     inf 3x1x8     4     1    16   32 131 CTAs of 3 blocks; 6288 x 7168: 28.1 us
32  397-528     inf 2x2x4     4     1     8   64 112 CTAs of 4 blocks; 7168 x 1536: 8.7 us
32  529-660     inf 1x5x2     5     1     8   64 128 CTAs of 5 blocks; 10240 x 7168: 42.6 us
32  661-inf     inf 2x5x2     3     1     8   64 128 CTAs of 10 blocks; 20480 x 7168: 75.2 us
64    1-132     256 1x2x2     2     1     2   64 48 CTAs of 2 blocks; 1536 x 128: 2.7 us
64     1-24     inf 1x2x4     4     8     4   64 9 x 8 CTAs of 2 blocks; 288 x 7168: 6.7 us
64    25-40     inf 1x4x2     4     8     4   64 9 x 8 CTAs of 4 blocks; 560 x 7168: 8.4 us
64    41-60     inf 4x1x8     4     8     8   32 14 x 8 CTAs of 4 blocks; 896 x 3584: 7.2 us
64  129-132     inf 1x5x2     5     4     4   64 27 x 4 CTAs of 5 blocks; 33 clusters are two waves
64   61-132     inf 4x1x8     4     4     8   32 24 x 4 CTAs of 4 blocks; 1536 x 7168: 14.2 us
64  133-264     inf 2x4x2     4     4     4   64 26 x 4 CTAs of 8 blocks; 3216 x 7168: 23.7 us
64  265-396     inf 2x3x4     3     2     4   64 66 x 2 CTAs of 6 blocks; 6288 x 7168: 33.0 us
64  397-528     inf 2x2x4     4     1     4   64 112 CTAs of 4 blocks; 7168 x 1536: 12.8 us
64  529-660     inf 1x5x2     5     1     4   64 128 CTAs of 5 blocks; 10240 x 7168: 56.1 us
64  661-inf     inf 2x5x2     3     1     4   64 128 CTAs of 10 blocks; 20480 x 7168: 97.0 us
"""


def _row(line: str) -> TableRow:
    tokens, blocks, columns, tile, stage, split, phase, unit, reason = line.split(maxsplit=8)
    least, most = blocks.split("-")
    room, _, arithmetic = tokens.partition("/")
    stages, _, ahead = stage.partition("+")
    return TableRow(
        tokens=int(room),
        arithmetic=int(arithmetic or room),
        blocks=(float(least), float(most)),
        max_columns=float(columns),
        tile=tuple(int(part) for part in tile.split("x")),
        stages=int(stages),
        ahead=int(ahead) if ahead else None,
        split=int(split),
        phase_units=int(phase),
        unit_columns=int(unit),
        reason=reason,
    )


TABLE = tuple(_row(line) for line in _TEXT.strip().splitlines()[1:])
"""First row that fits is taken."""


def config_for(
    rows: int, columns: int, tokens: int, situ: SituBounds | None = None, *, fp32_rows: int = 0
) -> ProjectionConfig:
    """Variant for a weight [rows, columns] and up to 64 tokens.

    Args:
        rows: of the weight.
        columns: of the weight.
        tokens: activation rows.
        situ: bounds of SiTU, or None.
        fp32_rows: weight rows with FP32 outputs.

    Raises:
        ValueError: no row of the table has room for so many tokens.
    """
    for row in TABLE:
        if tokens <= row.tokens and row.fits(rows, columns):
            per_warp, warps_n, warps_k = row.tile
            chain = columns // (_STEP_COLUMNS * warps_k * row.split)
            return ProjectionConfig(
                tokens=row.arithmetic,
                blocks=per_warp,
                warps_n=warps_n,
                warps_k=warps_k,
                stages=row.stages,
                split=row.split,
                phase_units=row.phase_units,
                unit_columns=row.unit_columns,
                situ=situ,
                ahead=row.ahead,
                activation_rows=row.tokens if row.tokens < row.arithmetic else None,
                adds_phases=fp32_rows > 0 and row.arithmetic > 2 and chain > _LONGEST_CHAIN,  # noqa: PLR2004
            )
    raise ValueError(f"expected up to 64 tokens, found {tokens}: split the batch")
