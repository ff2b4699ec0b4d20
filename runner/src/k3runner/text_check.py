"""Cross-checks usage against the text: the server's own tokenizer counts what was generated.

Only where no token ids came, because ids say exactly what usage should say. Done after the cell, so
that it is in no measurement, and on a few answers, because it costs a request each.
"""

from collections.abc import Sequence
from dataclasses import replace

from k3bundle.derive.metrics.text_share import MAXIMUM_TEXT_DIFFERENCE, text_share
from k3bundle.request import RequestRecord
from k3runner.engine_probe import EngineProbe, EngineSilentError
from k3runner.load.cell_load import CellLoad

__all__ = ["text_remark", "with_text_tokens"]

_ANSWERS = 16
"""Answers of a cell that are counted again."""


async def with_text_tokens(probe: EngineProbe, model: str, load: CellLoad) -> CellLoad:
    """Counts the texts of some answers again and puts the counts into their records.

    Args:
        probe: The server.
        model: Served model name.
        load: What was recorded of a cell.
    """
    records = list(load.records)
    left = _ANSWERS
    for at, record in enumerate(records):
        if left == 0:
            break
        counts = record.counted_by != "token_ids" and record.outcome.status == "completed"
        if record.variant == "warmup" or not counts:
            continue
        try:
            tokens = await probe.token_count(model, load.texts[at])
        except EngineSilentError:
            tokens = None
        if tokens is None:
            break
        records[at] = record.model_copy(update={"text_tokens": tokens})
        left -= 1
    return replace(load, records=tuple(records))


def text_remark(records: Sequence[RequestRecord]) -> str | None:
    """Says that the texts are not as long as usage says; None when they are or were not counted."""
    share = text_share(records)
    if share is None or abs(share - 1) <= MAXIMUM_TEXT_DIFFERENCE:
        return None
    return (
        f"the server's tokenizer finds {share * 100:.1f} % of the tokens that usage says in the "
        "texts. Usage is what is reported."
    )
