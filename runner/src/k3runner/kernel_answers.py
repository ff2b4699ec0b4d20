"""From the JSON lines that a kernel package prints to records. Pure.

The adapter's contract: a line is a JSON object whose `schema` is `NAME.check/1` or `/2`,
`NAME.audit/1` or `NAME.bench/1`, as the task asks; whatever it holds beside the fields of the
record is a fact of its run when it is text. A line that begins like an object must be strict JSON:
one that was cut, or that holds a NaN, could be a case that failed. Such a line is told in a
sentence, and so is one of another version, one that lacks a field, and one about a case that
another was about; the verdict of its cell is then INVALID, and the run goes on. Other lines are
counted and not read. runner/README.md describes the fields.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from k3bundle.canonical import StrictJsonError, parse_strict
from k3bundle.kernel_record import (
    AuditedKernel,
    CheckedCase,
    KernelCommand,
    KernelLine,
    TimedCase,
)
from k3runner.subjects.kernel_package import KernelTaskName

__all__ = ["Answers", "read_answers"]

_SCHEMA: Final = re.compile(r"^[A-Za-z0-9_.-]{1,80}\.(check|audit|bench)/(\d{1,4})$")
_OBJECT: Final = re.compile(rb"\{\s*\"")
_VERSIONS: Final[Mapping[KernelTaskName, tuple[str, ...]]] = {
    # The second counts bytes beside every case; what is read here is the same.
    "check": ("1", "2"),
    "audit": ("1",),
    "bench": ("1",),
}
_RECORDS: Final[Mapping[KernelTaskName, type[CheckedCase | AuditedKernel | TimedCase]]] = {
    "check": CheckedCase,
    "audit": AuditedKernel,
    "bench": TimedCase,
}
_MOST_FACTS: Final = 40
_LONGEST_FACT: Final = 500
_LONGEST_TEXT: Final = 2000
_MOST_SENTENCES: Final = 20
Clean = Callable[[str, str], str]
"""Gets the name of a field and a text of it; returns what may be told of the text."""
_NEXT: Final = "Correct the package's adapter; runner/README.md describes its lines."


class _UnreadableError(Exception):
    """A line has the form of an answer and holds none; the message is a sentence about it."""


@dataclass(frozen=True)
class Answers:
    """What a command printed."""

    records: tuple[KernelLine, ...]
    """One for each line of the contract, in order."""
    other_lines: int
    """Lines that are none."""
    facts: Mapping[str, str]
    """Texts beside the fields of the first line: GPU, driver, versions."""
    unread_lines: int
    """Lines that have the form of an answer and hold none."""
    unread: tuple[str, ...]
    """The first of them, each as a sentence."""


def _as_told(_field: str, text: str) -> str:
    return text


def read_answers(
    output: bytes, task: KernelTaskName, *, boot_id: str, cell_id: str, clean: Clean = _as_told
) -> Answers:
    """Reads the standard output of a command.

    Args:
        output: All of it.
        task: What was asked.
        boot_id: Boot of the records.
        cell_id: Cell of the records.
        clean: Applied to every text that is kept, before it is cut or compared with others; names
            of facts are texts of the field `name`.

    Returns:
        The answers. Never raises, whatever the package printed.
    """
    records: list[KernelLine] = []
    facts: dict[str, str] = {}
    other, unread = 0, 0
    sentences: list[str] = []
    seen: dict[tuple[str, ...], int] = {}
    place = {"boot_id": boot_id, "cell_id": cell_id}
    for number, line in enumerate(output.split(b"\n"), start=1):
        try:
            found = _object(line.strip(), task, number)
            if found is None or not _is_of(found, task, number):
                other += bool(line.strip())
                continue
            record = _record(_kept(found, task, clean), task, number, place)
            _refuse_twice(record, task, number, seen)
        except _UnreadableError as error:
            unread += 1
            sentences.append(f"{error} {_NEXT}"[:_LONGEST_TEXT])
            continue
        if not records:
            facts = _facts(found, record, clean)
        records.append(record)
    return Answers(tuple(records), other, facts, unread, tuple(sentences[:_MOST_SENTENCES]))


def _refuse_twice(
    record: KernelLine, task: KernelTaskName, number: int, seen: dict[tuple[str, ...], int]
) -> None:
    first = seen.setdefault(_name(record), number)
    if first != number:
        raise _UnreadableError(
            f"Lines {first} and {number} of the {task} are about the same: "
            f"{' '.join(_name(record))[:200]!a}."
        )


def _object(line: bytes, task: KernelTaskName, number: int) -> dict[str, Any] | None:
    if not line.startswith(b"{"):
        return None
    try:
        found = parse_strict(line)
    except StrictJsonError as error:
        if _OBJECT.match(line) is None:
            return None
        raise _UnreadableError(
            f"Line {number} of the {task} begins like an answer and is not strict JSON: {error}"
        ) from error
    return found if isinstance(found, dict) else None


def _name(record: KernelLine) -> tuple[str, ...]:
    """What a line is about; another line about the same would make one of them the wrong one."""
    if isinstance(record, AuditedKernel):
        return (record.file, record.kernel, record.architecture)
    return () if isinstance(record, KernelCommand) else (record.op, record.case)


def _is_of(found: Mapping[str, Any], task: KernelTaskName, number: int) -> bool:
    """Whether an object is a line of the contract for this task."""
    schema = found.get("schema")
    named = _SCHEMA.match(schema) if isinstance(schema, str) else None
    if named is None or named[1] != task:
        return False
    if named[2] not in _VERSIONS[task]:
        known = " or ".join(_VERSIONS[task])
        raise _UnreadableError(
            f"Line {number} of the {task} must be of version {known} of the contract, found "
            f"`{named[0]}`."
        )
    return True


def _kept(found: Mapping[str, Any], task: KernelTaskName, clean: Clean) -> dict[str, Any]:
    """The fields that become a record, clean."""
    names = (name for name in _RECORDS[task].model_fields if name in found and name != "kind")
    return {name: _cleaned(name, found[name], clean) for name in names}


def _cleaned(field: str, value: Any, clean: Clean) -> Any:
    if isinstance(value, str):
        return clean(field, value)
    if isinstance(value, list):
        return [_cleaned(field, one, clean) for one in value]
    if isinstance(value, Mapping):
        return {name: _cleaned(name, one, clean) for name, one in value.items()}
    return value


def _record(
    known: Mapping[str, Any], task: KernelTaskName, number: int, place: Mapping[str, str]
) -> CheckedCase | AuditedKernel | TimedCase:
    kind = _RECORDS[task]
    try:
        return kind.model_validate({**_shaped(known), **place})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise _UnreadableError(
            f"Line {number} of the {task} is no answer: `{where}`: {first['msg']}."
        ) from error


def _shaped(values: Mapping[str, Any]) -> dict[str, Any]:
    """Lists as tuples, texts within their length, findings with their known fields."""
    shaped: dict[str, Any] = {}
    for name, value in values.items():
        if name == "findings" and isinstance(value, Sequence):
            shaped[name] = tuple(_finding(one) for one in value)
        elif isinstance(value, list):
            shaped[name] = tuple(_cut(one) for one in value)
        else:
            shaped[name] = _cut(value)
    return shaped


def _finding(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: _cut(value[name]) for name in ("code", "at", "why") if name in value}


def _cut(value: Any) -> Any:
    """Text within what a record holds; the rest of a symbol of 3,000 letters tells nobody more."""
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return value[: _LONGEST_TEXT - 3] + "..."
    return value


def _facts(
    found: Mapping[str, Any], record: CheckedCase | AuditedKernel | TimedCase, clean: Clean
) -> dict[str, str]:
    # Clean before it is cut: half a token is no longer known as one.
    beside = {
        clean("name", name)[:80]: clean(name, value)[:_LONGEST_FACT]
        for name, value in found.items()
        if name not in type(record).model_fields and isinstance(value, str)
    }
    return dict(list(beside.items())[:_MOST_FACTS])
