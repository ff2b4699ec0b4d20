"""Reads tier files that ship with the runner."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Annotated, Any, get_args

from pydantic import Field, TypeAdapter, ValidationError

from k3bundle.plan import Gates, TierName
from k3bundle.schedule import RunnableCell
from k3bundle.subject import ArmName
from k3runner.boot_order import blocks
from k3runner.errors import UsageError
from k3runner.tiers.kernel_task import KernelTask, read_kernel_task
from k3runner.tiers.sweep import Sweep
from k3runner.toml_table import Table

__all__ = ["DEFAULT_SUBJECT", "Tier", "load_tier", "parse_tier", "shipped_tiers"]

_CELL: TypeAdapter[RunnableCell] = TypeAdapter(Annotated[RunnableCell, Field(discriminator="kind")])
_MOST_BLOCKS = 50
DEFAULT_SUBJECT = "k3-tiny"
"""Shipped subject that a tier evaluates where nobody names one."""


@dataclass(frozen=True)
class Tier:
    """One tier of the standard evaluation."""

    name: TierName
    """Its name."""
    boot_order: tuple[ArmName, ...]
    """Arms in boot order, for each deployment; consecutive boots 2n and 2n+1 form a pair."""
    cells: tuple[RunnableCell, ...]
    """Cells that one deployment runs, whichever has boots anyway."""
    gates: Gates
    """Thresholds; a subject may be stricter."""
    limits: tuple[str, ...]
    """What this tier cannot show."""
    sweeps: tuple[Sweep, ...] = ()
    """Serving cells by their axes, for every deployment or for one."""
    null_pairs: int = 0
    """A-A pairs of each deployment, before its comparing boots."""
    kernels: tuple[KernelTask, ...] = ()
    """What a kernel package is asked; such a tier boots no engine."""
    subject: str = DEFAULT_SUBJECT
    """Shipped subject that is evaluated where none is named."""


def shipped_tiers() -> tuple[TierName, ...]:
    """Names of the tiers that this version ships, by cost."""
    folder = resources.files("k3runner.tiers")
    names: tuple[TierName, ...] = get_args(TierName)
    return tuple(name for name in names if (folder / f"{name}.toml").is_file())


def load_tier(name: str) -> Tier:
    """Loads a tier by name.

    Raises:
        UsageError: The tier does not exist.
    """
    shipped = ", ".join(shipped_tiers())
    if name not in get_args(TierName):
        raise UsageError(
            f"No tier `{name}`; the tiers are {', '.join(get_args(TierName))}.",
            f"Use one that this version ships: {shipped}.",
        )
    resource = resources.files("k3runner.tiers") / f"{name}.toml"
    return parse_tier(resource.read_text("utf-8"), where=f"tier {name}")


def parse_tier(text: str, *, where: str) -> Tier:
    """Parses the text of a tier file.

    Raises:
        UsageError: The text is not a tier.
    """
    table = Table(tomllib.loads(text), where)
    kernels = tuple(read_kernel_task(one) for one in table.tables("kernels", optional=True))
    try:
        tier = Tier(
            name=TypeAdapter[TierName](TierName).validate_python(table.take("name", str)),
            boot_order=("candidate",) if kernels else _boot_order(table.table("boots"), where),
            cells=tuple(_cell(cell.rest()) for cell in table.tables("cells", optional=True)),
            gates=Gates.model_validate(table.table("gates").rest()),
            limits=table.strings("limits"),
            sweeps=tuple(_sweep(sweep) for sweep in table.tables("sweeps", optional=True)),
            null_pairs=table.take("null_pairs", int, 0),
            kernels=kernels,
            subject=table.take("subject", str, DEFAULT_SUBJECT),
        )
    except ValidationError as error:
        raise UsageError(f"{where}: {error}", "Correct the tier file.") from error
    table.finish()
    return tier


def _boot_order(table: Table, where: str) -> tuple[ArmName, ...]:
    count = table.take("blocks", int)
    table.finish()
    if not 1 <= count <= _MOST_BLOCKS:
        raise UsageError(
            f"{where}: `blocks` must be from 1 to {_MOST_BLOCKS}, found {count}.",
            "Correct the tier file.",
        )
    return blocks(count)


def _sweep(table: Table) -> Sweep:
    endpoint = table.take("endpoint", str)
    if endpoint not in {"completions", "chat"}:
        raise UsageError(
            f"{table.where}: `endpoint` must be completions or chat, found `{endpoint}`.",
            "Correct the tier file.",
        )
    sweep = Sweep(
        label=table.take("label", str),
        endpoint="chat" if endpoint == "chat" else "completions",
        prompt_tokens=table.positives("prompt_tokens"),
        output_tokens=table.take("output_tokens", int),
        concurrency=table.positives("concurrency"),
        beyond_prepared=table.take("beyond_prepared", bool, False),
        one_deployment=table.take("one_deployment", bool, False),
        draft_tokens=table.counts("draft_tokens", ()),
        requests_per_stream=table.take("requests_per_stream", int),
        minimum_requests=table.take("minimum_requests", int),
    )
    table.finish()
    if sweep.one_deployment and sweep.draft_tokens:
        raise UsageError(
            f"{table.where}: a sweep of one deployment cannot ask for draft tokens, found "
            f"{list(sweep.draft_tokens)}: that deployment may have others, and nothing would run.",
            "Leave out `draft_tokens`, or let every deployment with them run the sweep.",
        )
    return sweep


def _cell(values: Mapping[str, object]) -> RunnableCell:
    # TOML has lists only; records hold tuples.
    shaped: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
    }
    return _CELL.validate_python(shaped)
