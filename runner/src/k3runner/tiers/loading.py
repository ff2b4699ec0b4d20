"""Reads tier files that ship with the runner."""

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from k3bundle.plan import CellPlan, Gates, TierName
from k3bundle.subject import ArmName
from k3runner.errors import UsageError
from k3runner.toml_table import Table

__all__ = ["Tier", "load_tier"]

_CELL: TypeAdapter[CellPlan] = TypeAdapter(CellPlan)


@dataclass(frozen=True)
class Tier:
    """One tier of the standard evaluation."""

    name: TierName
    """Its name."""
    boot_order: tuple[ArmName, ...]
    """Arms in boot order; consecutive boots 2n and 2n+1 form pair n."""
    cells: tuple[CellPlan, ...]
    """Cells that run in every boot, in order."""
    gates: Gates
    """Thresholds."""
    limits: tuple[str, ...]
    """What this tier cannot show."""


def load_tier(name: str) -> Tier:
    """Loads a tier by name.

    Raises:
        UsageError: The tier does not exist, or this version does not ship it.
    """
    if name not in get_args(TierName):
        raise UsageError(
            f"No tier `{name}`; the tiers are {', '.join(get_args(TierName))}.",
            "Use --tier smoke.",
        )
    resource = resources.files("k3runner.tiers") / f"{name}.toml"
    if not resource.is_file():
        raise UsageError(
            f"This version ships the smoke tier only; `{name}` is named in the standard "
            "evaluation but not built yet.",
            "Use --tier smoke.",
        )
    return parse_tier(resource.read_text("utf-8"), where=f"tier {name}")


def parse_tier(text: str, *, where: str) -> Tier:
    """Parses the text of a tier file.

    Raises:
        UsageError: The text is not a tier.
    """
    table = Table(tomllib.loads(text), where)
    try:
        tier = Tier(
            name=TypeAdapter[TierName](TierName).validate_python(table.take("name", str)),
            boot_order=TypeAdapter[tuple[ArmName, ...]](tuple[ArmName, ...]).validate_python(
                table.strings("boot_order")
            ),
            cells=tuple(_cell(cell.rest()) for cell in table.tables("cells")),
            gates=Gates.model_validate(table.table("gates").rest()),
            limits=table.strings("limits"),
        )
    except ValidationError as error:
        raise UsageError(f"{where}: {error}", "Correct the tier file.") from error
    table.finish()
    return tier


def _cell(values: dict[str, Any]) -> CellPlan:
    # TOML has lists only; records hold tuples.
    return _CELL.validate_python(
        {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    )
