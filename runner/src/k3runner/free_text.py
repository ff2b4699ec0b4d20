"""Which fields of records hold text of the engine, of a package or of the machine. Pure.

Only these are cleaned; measured values are never touched.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from k3bundle import layout
from k3bundle.record import Record
from k3runner.scrub import map_text

__all__ = ["FREE_TEXT", "KERNEL_TEXT", "clean_record"]

KERNEL_TEXT: Final = (
    *("case", "sentences", "file", "kernel", "architecture", "findings", "facts", "unread"),
)
"""Fields of a kernel package's lines that hold its words."""
FREE_TEXT: Final[Mapping[str, tuple[str, ...]]] = {
    layout.BOOTS: ("command", "detail", "effective_config"),
    layout.CELLS: ("reason",),
    layout.REQUESTS: ("outcome",),
    layout.ENVIRONMENT: ("remarks",),
    layout.TELEMETRY: ("reason", "host_unread"),
    layout.GRAPHS: ("kernels",),
    layout.SEPARATION: ("why_same", "alterations"),
    layout.KERNELS: KERNEL_TEXT,
    layout.EARLIER: ("why_unknown",),
    layout.ISOLATION: ("files", "selections", "writes", "returns", "notes"),
}
"""File of a bundle -> fields of its records."""
AnyRecord = TypeVar("AnyRecord", bound=Record)


def clean_record(
    record: AnyRecord, fields: tuple[str, ...], clean: Callable[[str], str]
) -> AnyRecord:
    """A record whose fields hold clean text; the same one where nothing had to be replaced.

    Args:
        record: Any record.
        fields: Names of fields; one that the record lacks is passed over.
        clean: Returns what may be kept of a text.
    """
    # Most records have nothing to replace, and some are large: only these fields are looked at.
    dumped = record.model_dump(include=set(fields))
    changed: dict[str, Any] = {name: map_text(value, clean) for name, value in dumped.items()}
    if changed == dumped:
        return record
    return type(record).model_validate({**record.model_dump(), **changed})
