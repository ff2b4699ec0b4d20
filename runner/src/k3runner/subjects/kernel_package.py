"""A kernel package as a subject declares it: which commands answer for it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from k3runner.errors import UsageError
from k3runner.toml_table import Table

__all__ = ["KernelPackage", "KernelTaskName", "read_kernel_package"]

KernelTaskName = Literal["check", "audit", "bench"]
"""What a package can be asked."""
_CORRECT: Final = "Correct the [kernels] table; runner/README.md describes the adapter."


@dataclass(frozen=True)
class KernelPackage:
    """A package, and its adapter: the arguments of the commands that print JSON lines."""

    name: str
    """Distribution that holds the kernels; its files are compared with their RECORD."""
    ops: tuple[str, ...]
    """Ops that the package claims; each must answer, so that none is left out unseen."""
    commands: Mapping[KernelTaskName, tuple[str, ...]]
    """Task -> arguments after the package's Python; `{commit}` stands for the commit."""
    environment: Mapping[str, str]
    """Environment variables of the commands."""


def read_kernel_package(table: Table) -> KernelPackage | None:
    """The `[kernels]` of a subject; None where it declares none.

    Raises:
        UsageError: It lacks something.
    """
    if table.empty:
        return None
    package = KernelPackage(
        name=table.take("distribution", str),
        ops=table.strings("ops"),
        commands={name: table.strings(name, ()) for name in get_args(KernelTaskName)},
        environment=table.string_map("environment"),
    )
    table.finish()
    if not package.ops or len(set(package.ops)) != len(package.ops):
        raise UsageError(
            f"{table.where}: `ops` must name every op once, found {list(package.ops)}.", _CORRECT
        )
    missing = [name for name, arguments in package.commands.items() if not arguments]
    if missing:
        raise UsageError(f"{table.where}: the command `{missing[0]}` is missing.", _CORRECT)
    return package
