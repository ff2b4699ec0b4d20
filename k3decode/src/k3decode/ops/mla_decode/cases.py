"""Cases of attention over the latent cache.

Contexts end in every part of a tile and of a page, and rows share parts. Not here: tables that name
a page twice, which reading cannot notice.
"""

from functools import partial
from typing import Literal

import torch

from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import Case, CaseGroup, Launch, Trial
from k3decode.ops.mla.case_inputs import PageLayout
from k3decode.ops.mla_decode.launch import CacheScales
from k3decode.ops.mla_decode.trial import (
    AttentionInputs,
    AttentionShape,
    attention_inputs,
    attention_trial,
)

__all__ = ["CASES"]

_DIMS = K3Dims()
_TP8, _TP16 = (_DIMS.num_attention_heads // ranks for ranks in (8, 16))
_KIBI = 1024
_E4M3_NAN = 0x7F


def _prepare(shape: AttentionShape, launch: Launch, device: torch.device) -> Trial:
    return attention_trial(shape, attention_inputs(shape, device), launch, device)


def _case(name: str, group: CaseGroup, shape: AttentionShape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


def _unbounded(inputs: AttentionInputs) -> None:
    """One head of a request, and two rows of the cache; other heads and requests go on as ever."""
    cache, query = inputs.cache, inputs.query
    infinite = query.dtype == torch.bfloat16
    value = torch.inf if infinite else _E4M3_NAN
    query[0, 1, 3] = value
    page_tokens = cache.pages.shape[1]
    for request, token, column in ((1, 130, 5), (2, 7, _DIMS.kv_lora_rank - 1)):
        page = cache.table[request, token // page_tokens].long()
        cache.pages[page, token % page_tokens, column] = -value if infinite else value


def _corner(cache_format: Literal["bf16", "e4m3"]) -> list[Case]:
    shape = partial(AttentionShape, cache_format=cache_format)
    shapes = {
        "one_token": shape((1,)),
        "one_page": shape((64,), layout=PageLayout(64, 32)),
        "one_page_of_16": shape((16,), layout=PageLayout(16), heads=_TP16),
        "empty": shape((0, 0)),
        "empty_between": shape((0, 40, 0, 0, 9, 0), heads=_TP16),
        "ragged": shape((1, 65, 200, 31, 16, 130, 33), parts=3),
        "more_parts_than_tiles": shape((70, 90), parts=40),
        "many_rows_in_a_part": shape((5,) * 11, parts=1, heads=1),
        "padded_rows": shape((50, 20), row_padding=48, heads=5),
        "page_stride": shape((100, 70), layout=PageLayout(32, 160)),
        "page_of_48": shape((100, 47, 49), layout=PageLayout(48)),
        "page_of_256": shape((300, 255), layout=PageLayout(256, 16)),
        "two_head_blocks": shape((90, 33), heads=17, parts=2),
        "verify_q2": shape((90, 33), tokens_per_request=2),
        "verify_q3": shape((2, 60, 1), tokens_per_request=3, heads=_TP16),
        "verify_q8": shape((700, 9, 0, 33), tokens_per_request=8, parts=7),
        "verify_q8_padded_rows": shape((64, 7), tokens_per_request=8, heads=5, row_padding=48),
        "verify_ragged": shape(
            (1, 65, 200, 31, 16, 130, 33), parts=5, tokens_per_request=4, heads=_TP16
        ),
        "one_token_decides": shape((120, 64), query_factor=30.0),
        "equal_scores": shape((120, 64), query_factor=0.0),
        "unbounded": shape((120, 200, 90, 64), alter=_unbounded),
        "unbounded_verify": shape((120, 200, 90, 64), tokens_per_request=2, alter=_unbounded),
    }
    if cache_format == "e4m3":
        shapes["scales"] = shape((90, 33), scales=CacheScales(query=0.25, cache=1.5))
    return [_case(f"{cache_format}_{name}", "corner", s) for name, s in shapes.items()]


def _production(cache_format: Literal["bf16", "e4m3"]) -> list[Case]:
    found = []
    tp8 = ((1, 1), (1, 32), (1, 256), (8, 1), (8, 32), (8, 256), (64, 1), (64, 32))
    tp16 = ((1, 32), (8, 32), (64, 1))
    for ranks, heads, sizes in ((8, _TP8, tp8), (16, _TP16, tp16)):
        shape = partial(AttentionShape, cache_format=cache_format, heads=heads, parts=None)
        for rows, kibi in sizes:
            name = f"{cache_format}_tp{ranks}_{kibi}k_m{rows}"
            found.append(_case(name, "production", shape((kibi * _KIBI,) * rows)))
    shape = partial(AttentionShape, cache_format=cache_format, parts=None)
    ragged = tuple(17 + (977 * i) % 9000 for i in range(33))
    found.append(_case(f"{cache_format}_tp8_ragged_m33", "production", shape(ragged)))
    found.append(_case(f"{cache_format}_tp8_1m_m1", "production", shape((_KIBI * _KIBI,))))
    whole = shape((32 * _KIBI,) * 2, heads=_DIMS.num_attention_heads)
    found.append(_case(f"{cache_format}_all_heads_32k_m2", "production", whole))
    for q, requests, kibi in ((2, 8, 8), (4, 4, 8), (8, 1, 32), (8, 8, 8)):
        name = f"{cache_format}_tp8_{kibi}k_q{q}_m{q * requests}"
        verify = shape((kibi * _KIBI,) * requests, tokens_per_request=q)
        found.append(_case(name, "production", verify))
    return found


def _rows(rows: int) -> Case:
    cache_format: Literal["bf16", "e4m3"] = "bf16" if rows % 2 else "e4m3"
    lengths = tuple((37 * i + rows) % 300 for i in range(rows))
    return _case(f"rows_m{rows}", "rows", AttentionShape(lengths, cache_format, parts=None))


CASES = (
    _case("bf16_m3", "smoke", AttentionShape((130, 17, 64), "bf16")),
    _case("e4m3_m3", "smoke", AttentionShape((130, 17, 64), "e4m3", heads=_TP16)),
    *_corner("bf16"),
    *_corner("e4m3"),
    *_production("bf16"),
    *_production("e4m3"),
    *(_rows(rows) for rows in range(1, MAX_ROWS + 1)),
)
