"""Where an op's device code lies: in its own folder, and in folders named after it.

`ops/OP_WORD` holds another kernel that the op's launch may choose; OP_WORD is no op itself. What is
named `_blackwell` never runs on the GPUs on which mutants and late inputs run today.
"""

from collections.abc import Sequence
from pathlib import Path

__all__ = ["kernel_folders"]

_OPS = Path(__file__).parent / "ops"
_NOT_RUN = "_blackwell"


def kernel_folders(op: str, others: Sequence[str]) -> list[Path]:
    """Folders with kernels that launches of an op run, its own first.

    Args:
        op: its name.
        others: names of all ops, whose folders are their own.
    """
    own = _OPS / op
    more = [
        path
        for path in sorted(_OPS.glob(f"{op}_*"))
        if path.name not in others
        and not path.name.endswith(_NOT_RUN)
        and (path / "kernel.py").is_file()
    ]
    return [own, *more]
