"""Writes the JSON Schema of every record file.

Usage: python -m k3bundle.schema_export FOLDER [--check]
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from k3bundle import layout
from k3bundle.coverage import CoverageSnapshot, EngineCounters
from k3bundle.dsse import Envelope
from k3bundle.earlier_record import EarlierRuns
from k3bundle.environment import NodeFacts
from k3bundle.graph_record import GraphEvent
from k3bundle.isolation_record import IsolationAudit
from k3bundle.kernel_record import KernelLine
from k3bundle.manifest import Manifest, Statement
from k3bundle.plan import Plan
from k3bundle.request import RequestRecord
from k3bundle.run import AttemptRecord, BootEvent, CellEvent, RunIdentity
from k3bundle.scrub import ScrubReport
from k3bundle.separation import SeparationRecord
from k3bundle.subject import SubjectFacts
from k3bundle.telemetry import TelemetryLine
from k3bundle.verdict import Verdict

__all__ = ["main", "schema_files"]

_RECORDS: Final[dict[str, Any]] = {
    layout.ATTEMPTS: AttemptRecord,
    layout.ATTESTATION: Envelope,
    layout.BOOTS: BootEvent,
    layout.CELLS: CellEvent,
    layout.COUNTERS: EngineCounters,
    layout.COVERAGE: CoverageSnapshot,
    layout.EARLIER: EarlierRuns,
    layout.ENVIRONMENT: NodeFacts,
    layout.GRAPHS: GraphEvent,
    layout.ISOLATION: IsolationAudit,
    layout.KERNELS: KernelLine,
    layout.MANIFEST: Manifest,
    layout.PLAN: Plan,
    layout.REQUESTS: RequestRecord,
    layout.RUN: RunIdentity,
    layout.SCRUB_REPORT: ScrubReport,
    layout.SEPARATION: SeparationRecord,
    layout.SUBJECT: SubjectFacts,
    layout.TELEMETRY: TelemetryLine,
    layout.VERDICT: Verdict,
    "statement": Statement,
}


def schema_files() -> dict[str, bytes]:
    """The schemas.

    Returns:
        File name -> indented JSON; one schema for each record file, where a `.jsonl` file's
        schema is that of one line, and one for the statement inside the attestation.
    """
    return {f"{name}.schema.json": _schema(name, record) for name, record in _RECORDS.items()}


def _schema(name: str, record: Any) -> bytes:
    schema = TypeAdapter[Any](record).json_schema(by_alias=True)
    titled = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:k3-eval:v1:{name}",
        **schema,
    }
    return json.dumps(titled, indent=2, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def main(arguments: list[str]) -> int:
    """Write the schemas, or with `--check` compare them with the committed ones.

    Returns:
        0 when written or equal, 1 when `--check` found a difference, 2 on wrong usage.
    """
    check = "--check" in arguments
    folders = [argument for argument in arguments if argument != "--check"]
    if len(folders) != 1:
        sys.stderr.write("Usage: python -m k3bundle.schema_export FOLDER [--check]\n")
        return 2
    folder = Path(folders[0])
    wanted = schema_files()
    if not check:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in wanted.items():
            (folder / name).write_bytes(content)
        return 0
    found = {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}
    stale = sorted(n for n in wanted.keys() | found.keys() if wanted.get(n) != found.get(n))
    for name in stale:
        sys.stderr.write(
            f"Expected {folder / name} as the records give it, found it different, missing or "
            f"left over. Run: python -m k3bundle.schema_export {folder}\n"
        )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
