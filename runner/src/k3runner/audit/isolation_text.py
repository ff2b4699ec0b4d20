"""An audit as text that a reviewer can act on: what is not alone first, then what to look at."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from k3bundle.isolation_record import (
    IsolationAudit,
    SelectionPoint,
    StandardReturn,
    StateWrite,
    TouchedFile,
    outside_files,
)
from k3runner.visible import one_line
from k3runner.wording import plural

__all__ = ["audit_lines"]

_SHOWN: Final = 40
_SHOWN_SYMBOLS: Final = 8
_ORDER: Final = ("shared", "unnamed", "model_only", "test", "documentation")
_CLASS_WORDS: Final = {
    "shared": "shared",
    "unnamed": "named by no rule",
    "model_only": "model-only",
    "test": "tests",
    "documentation": "documentation",
}
_WRITE_WORDS: Final = {
    "monkey_patch": "replaces an attribute of imported code",
    "module_global": "writes a global of the module",
    "environment": "writes the process environment",
    "registration": "registers",
    "foreign_attribute": "writes an attribute of another object",
    "in_place": "writes into an argument",
    "buffer": "owns a buffer",
}
_RETURN_WORDS: Final = {
    "declines": "declines",
    "calls_parent": "calls the parent's method",
    "swallows_error": "catches an error and goes on",
    "refuses": "refuses with an error",
}
_Point = SelectionPoint | StateWrite | StandardReturn


def audit_lines(audit: IsolationAudit) -> list[str]:
    """The audit as lines, without color."""
    lines = [
        f"Isolation audit of {audit.head_sha[:12]}, compared with {audit.compared_sha[:12]}"
        f" ({_comparison(audit)}), policy {one_line(audit.policy.name, 80)}.",
        _summary(audit),
        *(f"Note: {note}" for note in audit.notes),
        "",
        *_file_lines(audit),
        *_section("Where a path is selected", audit.selections, _selection_words, _selection_rank),
        *_section("What state is written", audit.writes, _write_words, _write_rank),
    ]
    if audit.device_functions:
        functions = plural(audit.device_functions, "function")
        lines.append(f"  {functions} of device code write their arguments and are not listed.")
        lines.append("")
    lines += _section(
        "How a step returns to the standard path", audit.returns, _return_words, _return_rank
    )
    return [*lines, *_next_steps(audit)]


def _comparison(audit: IsolationAudit) -> str:
    if audit.comparison == "merge_base":
        return f"where it left {audit.base_sha[:12]}"
    return "the base itself"


def _summary(audit: IsolationAudit) -> str:
    if not audit.files:
        return "The two commits have the same files: nothing is touched."
    outside = outside_files(audit)
    models = sorted({f.area for f in audit.files if f.path_class == "model_only"})
    if not outside:
        if not models:
            return "Only tests and documentation are touched."
        return f"The change stays inside model-only code: {', '.join(models)}."
    areas = Counter(file.area or "named by no rule" for file in outside)
    named = ", ".join(f"{one_line(area, 80)} ({count})" for area, count in areas.most_common())
    return (
        f"The change is not alone: it touches {plural(len(outside), 'file')} that other models "
        f"use: {named}."
    )


def _file_lines(audit: IsolationAudit) -> Iterator[str]:
    counts = Counter(file.path_class for file in audit.files)
    words = ", ".join(f"{_CLASS_WORDS[one]} {counts[one]}" for one in _ORDER if counts[one])
    yield f"Files: {len(audit.files)}" + (f" ({words})" if words else "")
    for path_class in _ORDER:
        files = sorted(
            (file for file in audit.files if file.path_class == path_class),
            key=lambda file: (file.area, file.path),
        )
        for file in files[:_SHOWN]:
            yield from _one_file(file)
        if len(files) > _SHOWN:
            yield f"  … {len(files) - _SHOWN} more {_CLASS_WORDS[path_class]}; --json has all."
    yield ""


def _one_file(file: TouchedFile) -> Iterator[str]:
    where = one_line(file.path, 200)
    if file.previous_path:
        where = f"{one_line(file.previous_path, 200)} → {where}"
    area = f" · {one_line(file.area, 80)}" if file.area else ""
    yield (
        f"  {_CLASS_WORDS[file.path_class]}{area}  {where}  {file.change}"
        f" +{file.added_lines} -{file.removed_lines}"
    )
    if file.unread is not None:
        yield f"      not read: {file.unread}"
    if file.symbols and file.path_class in {"shared", "unnamed"}:
        shown = [
            f"{one_line(s.name, 80)} ({s.change}, {s.lines})" for s in file.symbols[:_SHOWN_SYMBOLS]
        ]
        left = len(file.symbols) - _SHOWN_SYMBOLS
        more = f", {left} more" if left > 0 else ""
        yield f"      {', '.join(shown)}{more}"


def _section(
    title: str, points: Sequence[_Point], words: Callable[[Any], str], rank: Callable[[Any], int]
) -> Iterator[str]:
    """One heading with its places, the ones that matter most first."""
    yield f"{title}: {len(points) or 'nowhere in the added lines'}"
    ranked = sorted(points, key=lambda point: (rank(point), point.path, point.line))
    for point in ranked[:_SHOWN]:
        yield (
            f"  {one_line(point.path, 200)}:{point.line}  {one_line(point.symbol, 80)}  "
            f"{words(point)}"
        )
        yield f"      {one_line(point.excerpt, 120)}"
    if len(ranked) > _SHOWN:
        yield f"  … {len(ranked) - _SHOWN} more; --json has all."
    yield ""


def _selection_words(point: SelectionPoint) -> str:
    kinds = {"config_key": "key", "environment": "variable", "import": "import of"}
    branch = ", decides a branch" if point.branches else ""
    return f"{kinds[point.kind]} {one_line(point.name, 80)}{branch}"


def _selection_rank(point: SelectionPoint) -> int:
    if point.path_class != "model_only":
        return 0
    return 1 if point.branches else 2


def _write_words(point: StateWrite) -> str:
    return f"{_WRITE_WORDS[point.kind]}: {one_line(point.target, 80)}"


def _write_rank(point: StateWrite) -> int:
    return list(_WRITE_WORDS).index(point.kind)


def _return_words(point: StandardReturn) -> str:
    condition = f" when {one_line(point.condition, 100)}" if point.condition else ""
    told = "" if point.told else ", and tells nobody"
    return f"{_RETURN_WORDS[point.kind]}{condition}{told}"


def _return_rank(point: StandardReturn) -> int:
    return int(point.told)


def _next_steps(audit: IsolationAudit) -> Iterator[str]:
    """What to look at by hand, from what was found."""
    steps = []
    outside = outside_files(audit)
    if outside:
        steps.append(
            f"Read the {plural(len(outside), 'file')} that other models use; each needs a reason "
            "why they behave as before."
        )
    patches = sum(write.kind in {"monkey_patch", "environment"} for write in audit.writes)
    if patches:
        steps.append(
            f"Look at {plural(patches, 'write')} to imported code or to the process environment: "
            "they act on every model in the process."
        )
    silent = sum(not one.told for one in audit.returns)
    if silent:
        steps.append(
            f"{plural(silent, 'way', 'ways')} back to the standard path tell nobody; only a "
            "measured path coverage shows whether they were taken."
        )
    unread = sum(file.unread is not None for file in audit.files)
    if unread:
        steps.append(f"Look at {plural(unread, 'file')} that could not be read.")
    steps.append(
        "This reads names and shapes of code and runs none of it: what is done through aliases, "
        "tables or other files is not seen."
    )
    yield "What is left to a person:"
    for number, step in enumerate(steps, start=1):
        yield f"  {number}. {step}"
