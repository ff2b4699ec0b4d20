"""What the report shows of the claim "isolated": the audit of the change, and the separation. Pure.

The audit names places and decides nothing; the separation says as whom each engine ran and what the
guard found. Both are text of others, shown as it is.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from k3bundle.bundle import RunRecords
from k3bundle.isolation_record import (
    IsolationAudit,
    PathClass,
    SelectionPoint,
    StandardReturn,
    StateWrite,
)
from k3bundle.run import BootStarted
from k3bundle.separation import SeparationRecord

__all__ = ["AuditPlace", "AuditView", "ClassRow", "SeparationRow", "audit_view", "separation_rows"]

CLASS_NAMES: Final[dict[PathClass, str]] = {
    "shared": "other models use it too",
    "unnamed": "no rule of the policy names it",
    "model_only": "this model alone",
    "test": "tests",
    "documentation": "documentation",
}
"""Class of a path in words, what a reader has to look at first."""

_MOST_PLACES: Final = 40
_KINDS: Final = {
    "config_key": "selected by configuration",
    "environment": "selected by environment",
    "import": "selected by import",
}


@dataclass(frozen=True)
class ClassRow:
    """Touched files of one class."""

    path_class: PathClass
    words: str
    files: tuple[str, ...]
    added_lines: int
    removed_lines: int


@dataclass(frozen=True)
class AuditPlace:
    """One place that the audit names."""

    where: str
    what: str
    line: str
    shared: bool
    """Whether other models use the file too, or no rule names it."""


@dataclass(frozen=True)
class AuditView:
    """The audit of the change."""

    policy: str
    base_sha: str
    head_sha: str
    classes: tuple[ClassRow, ...]
    selections: tuple[AuditPlace, ...]
    writes: tuple[AuditPlace, ...]
    returns: tuple[AuditPlace, ...]
    left_out: int
    """Places beyond those that are listed."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class SeparationRow:
    """One boot: as whom its engine ran, and what the guard saw."""

    boot_id: str
    arm: str
    other_user: bool
    why_same: str
    protected_files: int
    alterations: tuple[tuple[str, str], ...]
    """Path and kind of what changed."""
    more_alterations: int
    wall_clock_shift_ms: float


def audit_view(audit: IsolationAudit | None) -> AuditView | None:
    """Return the audit as the report shows it; None where the bundle holds none."""
    if audit is None:
        return None
    selections = [_selection(one) for one in audit.selections]
    writes = [_write(one) for one in audit.writes]
    returns = [_return(one) for one in audit.returns]
    groups = (selections, writes, returns)
    return AuditView(
        policy=audit.policy.name,
        base_sha=audit.base_sha,
        head_sha=audit.head_sha,
        classes=_classes(audit),
        selections=tuple(selections[:_MOST_PLACES]),
        writes=tuple(writes[:_MOST_PLACES]),
        returns=tuple(returns[:_MOST_PLACES]),
        left_out=sum(max(0, len(group) - _MOST_PLACES) for group in groups),
        notes=audit.notes,
    )


def _classes(audit: IsolationAudit) -> tuple[ClassRow, ...]:
    counts = Counter(file.path_class for file in audit.files)
    rows = []
    for path_class, words in CLASS_NAMES.items():
        if counts[path_class]:
            files = [file for file in audit.files if file.path_class == path_class]
            rows.append(
                ClassRow(
                    path_class,
                    words,
                    tuple(file.path for file in files),
                    sum(file.added_lines for file in files),
                    sum(file.removed_lines for file in files),
                )
            )
    return tuple(rows)


def _selection(point: SelectionPoint) -> AuditPlace:
    what = f"{_KINDS[point.kind]} {point.name}" + ("" if point.branches else ", not a branch")
    return _place(point, what)


def _write(write: StateWrite) -> AuditPlace:
    return _place(write, f"{write.kind.replace('_', ' ')}: {write.target}")


def _return(point: StandardReturn) -> AuditPlace:
    told = "told" if point.told else "silent"
    condition = f" when {point.condition}" if point.condition else ""
    return _place(point, f"{point.kind.replace('_', ' ')}, {told}{condition}")


def _place(place: SelectionPoint | StateWrite | StandardReturn, what: str) -> AuditPlace:
    return AuditPlace(
        where=f"{place.path}:{place.line}",
        what=what,
        line=place.excerpt,
        shared=place.path_class in {"shared", "unnamed"},
    )


def separation_rows(records: RunRecords) -> tuple[SeparationRow, ...]:
    """Return one row for each boot with a record, in their order."""
    arms = {e.boot_id: e.arm for e in records.boots if isinstance(e, BootStarted)}
    return tuple(_separation(one, arms.get(one.boot_id, "")) for one in records.separation)


def _separation(record: SeparationRecord, arm: str) -> SeparationRow:
    return SeparationRow(
        boot_id=record.boot_id,
        arm=arm,
        other_user=record.engine_user == "other",
        why_same=record.why_same or "",
        protected_files=record.protected_files,
        alterations=tuple((one.path, one.kind) for one in record.alterations),
        more_alterations=record.alterations_left_out,
        wall_clock_shift_ms=record.wall_clock_shift_ms,
    )
