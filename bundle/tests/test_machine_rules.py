"""Records that a bundle may lack must agree with the run where they are there."""

from dataclasses import replace
from typing import Any, Literal

import pytest

from k3bundle.bundle import RunRecords, parse_records
from k3bundle.finding import Finding
from k3bundle.graph_record import GraphRow, GraphTable, KernelProfile
from k3bundle.isolation_record import IsolationAudit
from k3bundle.separation import SeparationRecord
from k3bundle.telemetry import HostSample, TelemetrySample, TelemetrySource, TelemetryUnavailable
from k3bundle.verify import consistency_findings
from k3bundle_testing.sealing import sealed_bundle

BOOT = "boot-0.0"


def _records(**optional: Any) -> RunRecords:
    nothing: dict[str, Any] = {"telemetry": (), "graphs": (), "separation": (), "isolation": None}
    return replace(parse_records(sealed_bundle()), **{**nothing, **optional})


def _findings(**optional: Any) -> list[Finding]:
    return consistency_findings(_records(**optional), None)


def _cell() -> str:
    return next(cell.cell_id for cell in _records().plan.cells if cell.kind == "serving")


def _sample(at_ns: int, *, boot_id: str = BOOT, cell_id: str | None = None) -> TelemetrySample:
    host = HostSample(cpu_share=None, memory_available_bytes=None, memory_pressure_share=None)
    return TelemetrySample(
        boot_id=boot_id,
        cell_id=cell_id or _cell(),
        at_utc="2026-01-01T00:00:00Z",
        at_ns=at_ns,
        gpus=(),
        host=host,
    )


def _source(boot_id: str = BOOT) -> TelemetrySource:
    return TelemetrySource(
        boot_id=boot_id, interval_ms=500, gpus=(), driver_version=None, host_unread=()
    )


def _table(moment: Literal["before", "after"], *counts: int, boot_id: str = BOOT) -> GraphTable:
    rows = tuple(
        GraphRow(unpadded_tokens=1, padded_tokens=1, mode="FULL", count=count) for count in counts
    )
    return GraphTable(
        boot_id=boot_id, cell_id=_cell(), moment=moment, capture_sizes=(1,), rows=rows
    )


def _separation(**changes: Any) -> SeparationRecord:
    fields = {
        "boot_id": BOOT,
        "engine_user": "same",
        "why_same": "The runner is not root.",
        "protected_files": 1,
        "alterations": (),
        "alterations_left_out": 0,
        "wall_clock_shift_ms": 0.0,
    }
    return SeparationRecord.model_validate({**fields, **changes})


def _profile(boot_id: str = BOOT, graph_steps: int = 1) -> KernelProfile:
    return KernelProfile(
        boot_id=boot_id, unpadded_tokens=1, steps=1, graph_steps=graph_steps, kernels=("a",)
    )


def test_records_that_agree_have_no_finding() -> None:
    absent = TelemetryUnavailable(boot_id=BOOT, cell_id=_cell(), reason="No NVML.")
    found = _findings(
        telemetry=(_source(), absent, _sample(0), _sample(5), _sample(5)),
        graphs=(_table("before", 3), _table("after", 4), _profile()),
        separation=(_separation(),),
    )
    assert found == []


@pytest.mark.parametrize(
    ("telemetry", "code", "why"),
    [
        ((_source("boot-99.0"),), "boot-out-of-plan", "found boot-99.0"),
        ((_source(), _source()), "records-inconsistent", "one source of boot-0.0"),
        ((_sample(0, boot_id="boot-99.0"),), "boot-out-of-plan", "found boot-99.0"),
        ((_sample(0, cell_id="other"),), "cell-out-of-plan", "found other"),
        ((_sample(9), _sample(8)), "records-inconsistent", "9 ns or later, found 8 ns"),
    ],
)
def test_telemetry_that_contradicts_the_run_is_found(
    telemetry: tuple[Any, ...], code: str, why: str
) -> None:
    (finding,) = _findings(telemetry=telemetry)
    assert (finding.code, finding.where) == (code, f"telemetry.jsonl line {len(telemetry)}")
    assert why in finding.why


@pytest.mark.parametrize(
    ("graphs", "why"),
    [
        ((_table("before", 4), _table("after", 3)), "at least 4 FULL steps of 1 tokens, found 3"),
        ((_table("before", 4), _table("after")), "at least 4 FULL steps of 1 tokens, found 0"),
        ((_table("before"), _table("before")), "one table per boot, cell and moment"),
        ((_table("before", 1, 2),), "one row per size and mode"),
        ((_table("before", boot_id="boot-99.0"),), "a started boot"),
        ((_profile("boot-99.0"),), "a started boot"),
        ((_profile(graph_steps=2),), "at most 1 graph steps, found 2"),
    ],
)
def test_graphs_that_contradict_the_run_are_found(graphs: tuple[Any, ...], why: str) -> None:
    (finding,) = _findings(graphs=graphs)
    assert finding.where == f"graphs.jsonl line {len(graphs)}"
    assert why in finding.why


@pytest.mark.parametrize(
    ("separation", "why"),
    [
        ((_separation(), _separation()), "one record of boot-0.0"),
        ((_separation(boot_id="boot-99.0"),), "a started boot"),
        ((_separation(why_same=None),), "a reason exactly when the user is the same"),
        ((_separation(engine_user="other"),), "a reason exactly when the user is the same"),
    ],
)
def test_separation_that_contradicts_the_run_is_found(
    separation: tuple[SeparationRecord, ...], why: str
) -> None:
    (finding,) = _findings(separation=separation)
    assert why in finding.why


def test_an_audit_of_another_commit_is_found() -> None:
    head = _records().subject.change.commit_sha
    fields: dict[str, Any] = {
        "policy": {"name": "vllm", "sha256": "0" * 64},
        "base_sha": "1" * 40,
        "head_sha": head,
        "compared_sha": "1" * 40,
        "comparison": "merge_base",
        "files": (),
        "selections": (),
        "writes": (),
        "returns": (),
        "device_functions": 0,
        "notes": (),
    }
    assert _findings(isolation=IsolationAudit.model_validate(fields)) == []
    other = IsolationAudit.model_validate({**fields, "head_sha": "2" * 40})
    (finding,) = _findings(isolation=other)
    assert (finding.code, finding.where) == ("change-mismatch", "isolation.json $.head_sha")
