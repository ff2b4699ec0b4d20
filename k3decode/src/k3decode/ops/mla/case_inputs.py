"""Tensors that the cases of several MLA ops need: paged caches with traps, rows in a format."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from k3decode.formats import pack_e4m3, unpack_e4m3
from k3decode.ops.mla.cache_format import CACHE_DTYPES, cache_format_named

__all__ = [
    "DENSE_PAGES",
    "PageLayout",
    "exact_values",
    "in_format",
    "paged_rows",
    "trapped_pages",
]

# E4M3's NaN; a byte of it in unused memory shows when it is read.
_E4M3_NAN = 0x7F
# Pages that belong to no request.
_SPARE_PAGES = 3
# Entries behind a request's pages: far outside the cache on either side.
_WILD_PAGES = (1 << 30, -(1 << 30))


@dataclass(frozen=True)
class PageLayout:
    """Shape of a paged cache."""

    page_tokens: int = 64
    padding: int = 0
    """Extra elements behind each page, a multiple of 16."""


DENSE_PAGES = PageLayout()
"""Pages of 64 tokens, one behind the other."""


def in_format(values: Tensor, cache_format: str) -> Tensor:
    """Round FP32 values to BF16, or to bytes of E4M3."""
    return values.to(torch.bfloat16) if cache_format == "bf16" else pack_e4m3(values)


def exact_values(stored: Tensor, dtype: torch.dtype, scale: float = 1.0) -> Tensor:
    """Values of BF16 or E4M3 bytes times a scale, in a wider dtype."""
    if stored.dtype == torch.uint8:
        return unpack_e4m3(stored).to(dtype) * scale
    return stored.to(dtype)


def trapped_pages(
    count: int, layout: PageLayout, row: int, cache_format: str, device: torch.device
) -> Tensor:
    """Whole allocation of `count` pages [count, page tokens x row + padding], every value NaN."""
    shape = (count, layout.page_tokens * row + layout.padding)
    trap = float("nan") if cache_format == "bf16" else _E4M3_NAN
    return torch.full(
        shape, trap, dtype=CACHE_DTYPES[cache_format_named(cache_format)], device=device
    )


def paged_rows(
    lengths: Sequence[int],
    layout: PageLayout,
    row: int,
    cache_format: str,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """A cache in which requests own random pages; everything that is no token of theirs is NaN.

    Args:
        lengths: tokens of each request.
        layout: of the pages.
        row: columns of a cache row.
        cache_format: "bf16" or "e4m3".
        generator: its device is the tensors'.

    Returns:
        Pages [P, page tokens, row] and the table, int32 [B, longest + 2]; entries behind a
        request's pages are wild.
    """
    device = generator.device
    counts = [-(-length // layout.page_tokens) for length in lengths]
    total = sum(counts) + _SPARE_PAGES
    allocated = trapped_pages(total, layout, row, cache_format, device)
    pages = allocated[:, : layout.page_tokens * row].unflatten(1, (layout.page_tokens, row))
    order = torch.randperm(total, generator=generator, device=device)
    wild = torch.tensor(_WILD_PAGES, dtype=torch.int32, device=device)
    width = max(counts, default=0) + len(_WILD_PAGES)
    table = wild.repeat(len(lengths), -(-width // len(_WILD_PAGES)))[:, :width].clone()
    used = 0
    for request, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        own = order[used : used + count]
        used += count
        table[request, :count] = own.to(torch.int32)
        if length:
            shape = (count * layout.page_tokens, row)
            values = torch.randn(shape, generator=generator, device=device)
            values[length:] = torch.nan
            stored = in_format(values, cache_format)
            pages[own] = stored.view(count, layout.page_tokens, row)
    return pages, table
