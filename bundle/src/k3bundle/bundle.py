"""A bundle in memory: raw files, and the run's records parsed from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from k3bundle import layout
from k3bundle.canonical import StrictJsonError, parse_strict
from k3bundle.coverage import CoverageSnapshot, EngineCounters
from k3bundle.earlier_record import EarlierRuns
from k3bundle.environment import NodeFacts
from k3bundle.errors import BundleError
from k3bundle.finding import Finding
from k3bundle.finding_limit import at_most
from k3bundle.graph_record import GraphEvent
from k3bundle.isolation_record import IsolationAudit
from k3bundle.kernel_record import KernelLine
from k3bundle.plan import Plan
from k3bundle.request import RequestRecord
from k3bundle.run import AttemptRecord, BootEvent, CellEvent, RunIdentity
from k3bundle.scrub import ScrubReport
from k3bundle.separation import SeparationRecord
from k3bundle.subject import SubjectFacts
from k3bundle.telemetry import TelemetryLine
from k3bundle.version import HISTORY

__all__ = ["Bundle", "RunRecords", "parse_file", "parse_lines", "parse_records"]

T = TypeVar("T")

_HINT: Final = "Take the file as the runner wrote it; bundle/README.md describes every record."


@dataclass(frozen=True)
class Bundle:
    """The raw files of a bundle, by their path inside it."""

    files: Mapping[str, bytes]


@dataclass(frozen=True)
class RunRecords:
    """Everything a run recorded, parsed. The verdict is a pure function of this."""

    plan: Plan
    run: RunIdentity
    subject: SubjectFacts
    environment: NodeFacts
    attempts: tuple[AttemptRecord, ...]
    boots: tuple[BootEvent, ...]
    cells: tuple[CellEvent, ...]
    requests: tuple[RequestRecord, ...]
    coverage: tuple[CoverageSnapshot, ...]
    counters: tuple[EngineCounters, ...]
    scrub: ScrubReport
    telemetry: tuple[TelemetryLine, ...] = ()
    """Empty when the bundle has no such file, as the next two."""
    graphs: tuple[GraphEvent, ...] = ()
    separation: tuple[SeparationRecord, ...] = ()
    isolation: IsolationAudit | None = None
    """None when no audit of the change is in the bundle."""
    kernels: tuple[KernelLine, ...] = ()
    """Empty where no kernel package was asked."""
    earlier: EarlierRuns | None = None
    """None where the bundle does not say which runs of its plan were started before."""


_PLAN: Final = TypeAdapter[Plan](Plan)
_RUN: Final = TypeAdapter[RunIdentity](RunIdentity)
_SUBJECT: Final = TypeAdapter[SubjectFacts](SubjectFacts)
_ENVIRONMENT: Final = TypeAdapter[NodeFacts](NodeFacts)
_ATTEMPT: Final = TypeAdapter[AttemptRecord](AttemptRecord)
_BOOT: Final = TypeAdapter[BootEvent](BootEvent)
_CELL: Final = TypeAdapter[CellEvent](CellEvent)
_REQUEST: Final = TypeAdapter[RequestRecord](RequestRecord)
_COVERAGE: Final = TypeAdapter[CoverageSnapshot](CoverageSnapshot)
_COUNTERS: Final = TypeAdapter[EngineCounters](EngineCounters)
_SCRUB: Final = TypeAdapter[ScrubReport](ScrubReport)
_TELEMETRY: Final = TypeAdapter[TelemetryLine](TelemetryLine)
_GRAPHS: Final = TypeAdapter[GraphEvent](GraphEvent)
_SEPARATION: Final = TypeAdapter[SeparationRecord](SeparationRecord)
_ISOLATION: Final = TypeAdapter[IsolationAudit](IsolationAudit)
_EARLIER: Final = TypeAdapter[EarlierRuns](EarlierRuns)
_KERNELS: Final = TypeAdapter[KernelLine](KernelLine)


def parse_records(files: Mapping[str, bytes]) -> RunRecords:
    """Parse the files of a run folder or a bundle.

    Args:
        files: Path inside the bundle -> content. The manifest, the verdict and the attestation
            are not needed and not read.

    Returns:
        The records.

    Raises:
        BundleError: With every finding of every file, when any file is missing or malformed.
    """
    findings: list[Finding] = []
    plan = parse_file(files, layout.PLAN, _PLAN, findings)
    run = parse_file(files, layout.RUN, _RUN, findings)
    subject = parse_file(files, layout.SUBJECT, _SUBJECT, findings)
    environment = parse_file(files, layout.ENVIRONMENT, _ENVIRONMENT, findings)
    scrub = parse_file(files, layout.SCRUB_REPORT, _SCRUB, findings)
    attempts = parse_lines(files, layout.ATTEMPTS, _ATTEMPT, findings)
    boots = parse_lines(files, layout.BOOTS, _BOOT, findings)
    cells = parse_lines(files, layout.CELLS, _CELL, findings)
    requests = parse_lines(files, layout.REQUESTS, _REQUEST, findings)
    coverage = parse_lines(files, layout.COVERAGE, _COVERAGE, findings)
    counters = parse_lines(files, layout.COUNTERS, _COUNTERS, findings)
    optional = _parse_optional(files, findings)
    if findings or not (plan and run and subject and environment and scrub):
        raise BundleError(tuple(sorted(findings)))
    return RunRecords(
        plan=plan,
        run=run,
        subject=subject,
        environment=environment,
        attempts=attempts,
        boots=boots,
        cells=cells,
        requests=requests,
        coverage=coverage,
        counters=counters,
        scrub=scrub,
        telemetry=optional.telemetry,
        graphs=optional.graphs,
        separation=optional.separation,
        isolation=optional.isolation,
        kernels=optional.kernels,
        earlier=optional.earlier,
    )


@dataclass(frozen=True)
class _Optional:
    telemetry: tuple[TelemetryLine, ...]
    graphs: tuple[GraphEvent, ...]
    separation: tuple[SeparationRecord, ...]
    isolation: IsolationAudit | None
    kernels: tuple[KernelLine, ...]
    earlier: EarlierRuns | None


def _parse_optional(files: Mapping[str, bytes], findings: list[Finding]) -> _Optional:
    """Parse the files that a bundle may lack."""

    def lines(name: str, adapter: TypeAdapter[T]) -> tuple[T, ...]:
        return parse_lines(files, name, adapter, findings) if name in files else ()

    def one(name: str, adapter: TypeAdapter[T]) -> T | None:
        return parse_file(files, name, adapter, findings) if name in files else None

    return _Optional(
        telemetry=lines(layout.TELEMETRY, _TELEMETRY),
        graphs=lines(layout.GRAPHS, _GRAPHS),
        separation=lines(layout.SEPARATION, _SEPARATION),
        isolation=one(layout.ISOLATION, _ISOLATION),
        earlier=one(layout.EARLIER, _EARLIER),
        kernels=lines(layout.KERNELS, _KERNELS),
    )


def parse_file(
    files: Mapping[str, bytes], name: str, adapter: TypeAdapter[T], findings: list[Finding]
) -> T | None:
    """Parse a file that holds one record; append what is wrong to `findings`.

    Returns:
        The record, or None when there is a new finding.
    """
    data = files.get(name)
    if data is None:
        findings.append(_missing(name))
        return None
    values, found = _parse(data, name, adapter)
    findings.extend(found)
    return values[0] if values else None


def parse_lines(
    files: Mapping[str, bytes], name: str, adapter: TypeAdapter[T], findings: list[Finding]
) -> tuple[T, ...]:
    """Parse a file that holds one record per line; append what is wrong to `findings`.

    Returns:
        The records of the lines that parsed.
    """
    data = files.get(name)
    if data is None:
        findings.append(_missing(name))
        return ()
    lines = data.split(b"\n")
    if lines.pop() != b"":
        why = f"Expected the last line to end with a newline, found it cut after {len(data)} bytes."
        findings.append(Finding("json-malformed", name, why, _HINT))
        return ()
    values: list[T] = []
    found: list[Finding] = []
    for number, line in enumerate(lines, start=1):
        parsed, bad = _parse(line, f"{name} line {number}", adapter)
        found.extend(bad)
        values.extend(parsed)
    findings.extend(at_most(found, code="record-invalid", where=name))
    return tuple(values)


def _missing(name: str) -> Finding:
    return Finding("file-missing", name, f"Expected the file {name}, found none.", _HINT)


def _parse(data: bytes, where: str, adapter: TypeAdapter[T]) -> tuple[list[T], list[Finding]]:
    """Parse one record; the first list holds it, or is empty when the second is not."""
    try:
        plain = parse_strict(data)
    except StrictJsonError as error:
        return [], [Finding("json-malformed", f"{where} {error.where}", error.why, _HINT)]
    version = plain.get("schema_version") if isinstance(plain, dict) else None
    if version is not None and not (isinstance(version, str) and version in HISTORY):
        known = ", ".join(sorted(HISTORY))
        why = f"Expected schema version {known}, found {str(version)[:40]!a}."
        hint = "Use a newer k3-eval, or make the bundle with this one."
        return [], [Finding("schema-version", where, why, hint)]
    try:
        return [adapter.validate_json(data)], []
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        found = (_invalid(where, problem["loc"], problem) for problem in problems)
        return [], at_most(found, code="record-invalid", where=where)


def _invalid(where: str, loc: tuple[int | str, ...], problem: Mapping[str, Any]) -> Finding:
    path = "$" + "".join(
        f"[{step}]" if isinstance(step, int) else f".{_ascii(step)[:80]}" for step in loc
    )
    why = f"{_ascii(problem['msg'])}; found {_ascii(repr(problem.get('input'))[:80])}."
    return Finding("record-invalid", f"{where} {path}", why, _HINT)


def _ascii(text: str) -> str:
    """Keep look-alike letters and right-to-left marks out of messages."""
    return text.encode("ascii", "backslashreplace").decode()
