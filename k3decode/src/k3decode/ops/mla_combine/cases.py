"""Cases of combining partial attention.

Logarithms differ by enough that some partials weigh nothing; what nobody may read or write is in
trial.py.
"""

from functools import partial

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import SERVED_ROWS, Case, CaseGroup, Launch, Trial
from k3decode.ops.mla_combine.trial import VARIANTS, CombineShape, combine_inputs, combine_trial

__all__ = ["CASES"]

_DIMS = K3Dims()
_TP8, _TP16 = (_DIMS.shard(ranks).num_attention_heads for ranks in (8, 16))
_KIBI = 1024
# CTAs of an H200; other devices cut otherwise, which changes nothing here but the counts.
_PROCESSORS = 132


def _prepare(shape: CombineShape, launch: Launch, device: torch.device) -> Trial:
    return combine_trial(shape, combine_inputs(shape), launch, device)


def _zeros_and_denormals(latents: Tensor, gate: Tensor) -> None:
    latents[:, 0] = -0.0
    latents[:, 1] = 2.0**-130
    gate[: gate.shape[0] // 2] = -0.0


def _infinities(latents: Tensor, gate: Tensor) -> None:
    # Opened and closed for ever.
    gate[:2] = torch.tensor([torch.inf, -torch.inf])
    latents[-1, 1, 7] = torch.inf


def _case(name: str, group: CaseGroup, shape: CombineShape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


def _corner(variant: str) -> list[Case]:
    shape = partial(CombineShape, variant=variant)
    ragged = (3, 1, 0, 5, 2) if variant == "ranks_to_values" else (300, 17, 0, 700, 64)
    most = 7 if variant == "ranks_to_values" else 900
    shapes = {
        "one_row": shape((most,), _TP8),
        "one_partial": shape((1, 1), _TP16),
        "ragged": shape(ragged, _TP16),
        "empty": shape((0, 0), 2),
        "wide_spread": shape((most, most), 2, spread=60.0),
        "nine_rows": shape((most,) * 9, 2),
        "one_head": shape((most,), 1),
        "zeros_and_denormals": shape((most, 1), 2, alter=_zeros_and_denormals),
        "infinities": shape((most, 1), 2, alter=_infinities),
    }
    if variant != "parts_to_latents":
        shapes["padded_rows"] = shape((most, most), 5, row_padding=40)
        # What serves many rows: rows of none, one and many partials, and of another form.
        shapes["many_rows"] = shape(4 * ragged, 3, row_padding=24)
        shapes["many_infinities"] = shape((most,) * 17, 2, alter=_infinities)
    if variant != "ranks_to_values":
        shapes["verify_q3"] = shape((2, 600), 2, tokens_per_request=3)
        together = partial(shape, together=True)
        # Some rows see nothing, one nothing of its last part.
        shapes["together_q3"] = together((2, 600, 0, 65), 2, tokens_per_request=3)
        shapes["together_q8"] = together((900, 5), _TP16, parts=40, tokens_per_request=8)
        shapes["many_rows_together"] = together(4 * (2, 600), 2, tokens_per_request=3)
        shapes["many_rows_of_many_parts"] = shape((6000,) + (70,) * 19, 2, parts=150)
        shapes["many_parts"] = shape((6000, 100), 2, parts=150)
    return [_case(f"{variant}_{name}", "corner", one) for name, one in shapes.items()]


def _production() -> list[Case]:
    found = []
    for ranks, heads in ((8, _TP8), (16, _TP16)):
        for rows, kibi in ((1, 32), (8, 32), *((rows, 1) for rows in SERVED_ROWS)):
            shape = CombineShape((kibi * _KIBI,) * rows, heads, parts=_PROCESSORS)
            found.append(_case(f"tp{ranks}_{kibi}k_m{rows}", "production", shape))
    for rows in (1, 8):
        lengths = (32 * _KIBI,) * rows
        whole = _DIMS.num_attention_heads
        parts = _PROCESSORS // (whole // 16)
        whole_model = CombineShape(lengths, whole, parts=parts)
        found.append(_case(f"tp1_32k_m{rows}", "production", whole_model))
        one_rank = CombineShape(lengths, whole, "parts_to_latents", parts=parts)
        found.append(_case(f"dcp8_rank_m{rows}", "production", one_rank))
        of_ranks = CombineShape((8,) * rows, _TP8, "ranks_to_values", parts=8)
        found.append(_case(f"dcp8_ranks_m{rows}", "production", of_ranks))
    return found


def _rows(rows: int) -> Case:
    variant = list(VARIANTS)[rows % len(VARIANTS)]
    most = 5 if variant == "ranks_to_values" else 300
    lengths = tuple((37 * i + rows) % most for i in range(rows))
    return _case(f"rows_m{rows}", "rows", CombineShape(lengths, 2, variant))


CASES = (
    *(_case(f"{name}_m3", "smoke", CombineShape((3, 5, 4), _TP16, name)) for name in VARIANTS),
    *(case for name in VARIANTS for case in _corner(name)),
    *_production(),
    *(_rows(rows) for rows in range(1, MAX_ROWS + 1)),
)
