"""Variants that could serve a projection, and which one does: measured, or by the rule of tiles."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import torch

from k3decode.ops.projection.config import BLOCK_ROWS, ProjectionConfig, SituBounds
from k3decode.ops.projection.tiles import TABLE, config_for
from k3decode.ops.projection_hopper.config import WideConfig, wide_config_for, wide_for_any_rows
from k3decode.tuning.choice import Question, choose, tuned_choices

__all__ = ["Asked", "candidates", "chosen_config", "rule_config", "tuned_configs"]

# The wide form multiplies with Hopper's warpgroup products.
_HOPPER = "sm_90a"
_FEW_TOKENS = 2
_FEWEST_OF_MATRICES = 8
# Fewer CTAs ask for too little at a time, more are several waves.
_CTAS = (16, 264)
# Below, the wide form has work for a sixth of an H200.
_FEWEST_WIDE_ROWS = 1500


@dataclass(frozen=True)
class Asked:
    """What a projection is launched with."""

    rows: int
    columns: int
    tokens: int
    situ: SituBounds | None = None
    fp32_rows: int = 0

    @property
    def question(self) -> Question:
        """The same in the words of a tuning table."""
        fp32 = f"_fp{self.fp32_rows}" if self.fp32_rows else ""
        shape = f"{self.rows}x{self.columns}{fp32}{'_situ' if self.situ else ''}"
        return Question("projection", shape, self.tokens)


def chosen_config(
    asked: Asked, architecture: str, device: torch.device
) -> ProjectionConfig | WideConfig:
    """What is launched."""
    rule = rule_config(asked, architecture).name
    return choose(asked.question, candidates(asked, architecture), rule, device)


@cache
def rule_config(asked: Asked, architecture: str) -> ProjectionConfig | WideConfig:
    """What is launched where nothing was measured.

    Raises:
        ValueError: there are more than 64 tokens.
    """
    wide = None
    if architecture == _HOPPER:
        wide = wide_config_for(
            asked.rows, asked.columns, asked.tokens, asked.situ, fp32_rows=asked.fp32_rows
        )
    return wide or _of_weight(asked, asked.rows, asked.tokens)


@cache
def candidates(asked: Asked, architecture: str) -> Mapping[str, ProjectionConfig | WideConfig]:
    """What the rule takes for weights of any height that gives the GPU one or two waves of CTAs.

    For one and two tokens what it takes for eight is among them, and so is the wide form where the
    GPU has it. Every one gives right results for every weight.
    """
    rule = rule_config(asked, architecture)
    found: dict[str, ProjectionConfig | WideConfig] = {rule.name: rule}
    heights = {BLOCK_ROWS * int(least) for least, _ in (row.blocks for row in TABLE)}
    fewest = {asked.tokens, _FEWEST_OF_MATRICES if asked.tokens <= _FEW_TOKENS else asked.tokens}
    for tokens in sorted(fewest):
        for height in sorted(heights):
            other = _of_weight(asked, height, tokens)
            if _is_sensible(other, asked):
                found[other.name] = other
    if architecture == _HOPPER and asked.rows >= _FEWEST_WIDE_ROWS and asked.tokens > _FEW_TOKENS:
        wide = wide_for_any_rows(asked.tokens, asked.situ, fp32_rows=asked.fp32_rows)
        found[wide.name] = wide
    return MappingProxyType(found)


def _of_weight(asked: Asked, rows: int, tokens: int) -> ProjectionConfig:
    """What the rule takes for a weight of another height, and at another number of tokens."""
    return config_for(rows, asked.columns, tokens, asked.situ, fp32_rows=asked.fp32_rows)


def _is_sensible(config: ProjectionConfig, asked: Asked) -> bool:
    ctas = -(-asked.rows // config.tile_rows) * config.split
    # Every warp that takes turns along the columns has a unit at least.
    busy = config.warps_k * config.split * config.unit_columns <= asked.columns
    least, most = _CTAS
    return least <= ctas <= most and busy


def tuned_configs(asked: Asked, architecture: str) -> dict[str, ProjectionConfig | WideConfig]:
    """What the tables of GPUs may choose among an architecture's candidates."""
    named = tuned_choices(asked.question)
    possible = candidates(asked, architecture) if named else {}
    return {name: possible[name] for name in named if name in possible}
