"""Which of two kernels combines: measured, or by the rule, which is the number of rows."""

import torch

from k3decode.ops.mla_combine.config import MlaCombineConfig
from k3decode.ops.mla_combine_many.config import MlaCombineManyConfig, many_config_for, many_form
from k3decode.tuning.choice import Question, choose

__all__ = ["combine_form"]

_FEW, _MANY = "few_rows", "many_rows"


def combine_form(
    config: MlaCombineConfig, rows: int, heads: int, device: torch.device
) -> MlaCombineManyConfig | None:
    """What runs in place of a variant; None for the variant itself."""
    many = many_form(config)
    if many is None:
        return None
    question = Question("mla_combine", f"{config.source}_to_{config.output}_{heads}_heads", rows)
    rule = _FEW if many_config_for(config, rows) is None else _MANY
    return choose(question, {_FEW: None, _MANY: many}, rule, device)
