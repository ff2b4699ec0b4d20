"""What the kernels tier asks of a package. Pure."""

from dataclasses import dataclass
from typing import cast, get_args

from k3bundle.plan import DEFAULT_DEPLOYMENT, KernelCell
from k3runner.errors import UsageError
from k3runner.subjects.kernel_package import KernelPackage, KernelTaskName
from k3runner.toml_table import Table

__all__ = ["KernelTask", "read_kernel_task"]


@dataclass(frozen=True)
class KernelTask:
    """One task, before it is known of which package."""

    cell_id: str
    """Name of its cell."""
    task: KernelTaskName
    """What is asked."""
    groups: tuple[str, ...]
    """Groups of which each op must have a case; only for `check`."""
    limit_s: int
    """Time after which the command is ended."""

    def cell(self, package: KernelPackage) -> KernelCell:
        """The cell of a package's plan."""
        return KernelCell(
            cell_id=self.cell_id,
            deployment=DEFAULT_DEPLOYMENT,
            task=self.task,
            arguments=package.commands[self.task],
            ops=package.ops,
            groups=self.groups,
            limit_s=self.limit_s,
        )


def read_kernel_task(table: Table) -> KernelTask:
    """One `[[kernels]]` of a tier file.

    Raises:
        UsageError: It is no such task.
    """
    name = table.take("task", str)
    if name not in get_args(KernelTaskName):
        raise UsageError(
            f"{table.where}: a task is one of {', '.join(get_args(KernelTaskName))}, found "
            f"`{name}`.",
            "Correct the tier file.",
        )
    task = KernelTask(
        cell_id=table.take("cell_id", str),
        task=cast(KernelTaskName, name),
        groups=table.strings("groups", ()),
        limit_s=table.take("limit_s", int),
    )
    table.finish()
    return task
