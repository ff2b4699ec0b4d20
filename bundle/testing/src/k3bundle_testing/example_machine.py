"""What was watched beside an example run: a CPU machine, no alteration, an audited change."""

from collections.abc import Iterable
from typing import Final

from k3bundle.isolation_record import (
    AuditPolicy,
    IsolationAudit,
    SelectionPoint,
    StandardReturn,
    StateWrite,
    TouchedFile,
    TouchedSymbol,
)
from k3bundle.run import BootEvent, CellEvent
from k3bundle.separation import SeparationRecord
from k3bundle.subject import ChangeUnderTest
from k3bundle.telemetry import (
    GpuIdentity,
    GpuSample,
    HostSample,
    NumaSample,
    TelemetryLine,
    TelemetrySample,
    TelemetrySource,
    TelemetryUnavailable,
)

__all__ = ["example_isolation", "example_separation", "example_telemetry"]

_SAMPLES = 3
"""Fewest samples of a cell."""
_BEFORE_NS: Final = 100_000_000
"""Time of a cell before its measured part, in which it warms up."""
_GPU: Final = GpuIdentity(index=0, gpu="0123456789abcdef", name="Example GPU", unread=())
_GPU_SAMPLE: Final = GpuSample(
    index=0,
    sm_clock_mhz=1965.0,
    memory_clock_mhz=3201.0,
    power_w=612.0,
    temperature_c=58.0,
    clock_event_reasons=0,
    ecc_corrected=0,
    ecc_uncorrected=0,
    memory_used_bytes=70 << 30,
    busy_share=0.97,
)
_HOST: Final = HostSample(
    cpu_share=0.75,
    runner_cpu_share=0.125,
    memory_available_bytes=6 << 30,
    swap_used_bytes=0,
    memory_pressure_share=0.0,
    memory_full_pressure_share=0.0,
    cpu_pressure_share=0.25,
    numa=(NumaSample(node=0, cpu_share=0.75, memory_free_bytes=5 << 30),),
)
_MODEL = "vllm/models/kimi_k3/nvidia/model.py"


def example_telemetry(
    boots: Iterable[BootEvent], cells: Iterable[CellEvent], *, gpus: int, interval_ms: int = 500
) -> tuple[TelemetryLine, ...]:
    """Samples around every finished cell, and that there is no NVML where there is no GPU.

    Args:
        boots: What is known of the boots.
        cells: What is known of the cells.
        gpus: Accelerators of the machine.
        interval_ms: Time between samples.
    """
    lines: list[TelemetryLine] = [
        TelemetrySource(
            boot_id=event.boot_id,
            interval_ms=interval_ms,
            gpus=tuple(_identity(index) for index in range(gpus)),
            driver_version="600.1" if gpus else None,
            host_unread=("io pressure: /proc/pressure/io is not there",),
        )
        for event in boots
        if event.event == "started"
    ]
    sampled = tuple(_GPU_SAMPLE.model_copy(update={"index": index}) for index in range(gpus))
    for cell in cells:
        if cell.event == "finished":
            place = (cell.boot_id, cell.cell_id)
            if not gpus:
                absent = "The NVML binding is not installed: No module named 'pynvml'."
                lines.append(
                    TelemetryUnavailable(boot_id=place[0], cell_id=place[1], reason=absent)
                )
            end_ms = (_BEFORE_NS + cell.wall_ns) // 1_000_000
            for number in range(max(_SAMPLES, end_ms // interval_ms + 2)):
                lines.append(_sample(*place, number, number * interval_ms, sampled))
    return tuple(lines)


def _identity(index: int) -> GpuIdentity:
    return _GPU.model_copy(update={"index": index, "gpu": f"{index:01x}{_GPU.gpu[1:]}"})


def _sample(
    boot_id: str, cell_id: str, number: int, at_ms: int, gpus: tuple[GpuSample, ...]
) -> TelemetrySample:
    return TelemetrySample(
        boot_id=boot_id,
        cell_id=cell_id,
        at_utc=f"2026-01-02T03:30:{number % 60:02d}Z",
        at_ns=at_ms * 1_000_000,
        gpus=gpus,
        host=_HOST,
    )


def example_separation(boots: Iterable[BootEvent]) -> tuple[SeparationRecord, ...]:
    """One record for each boot that ended: another user, nothing altered."""
    return tuple(
        SeparationRecord(
            boot_id=event.boot_id,
            engine_user="other",
            why_same=None,
            protected_files=4096,
            alterations=(),
            alterations_left_out=0,
            wall_clock_shift_ms=0.5,
        )
        for event in boots
        if event.event == "stopped"
    )


def example_isolation(change: ChangeUnderTest) -> IsolationAudit:
    """An audit of a change that touches its model, one shared file and a test."""
    return IsolationAudit(
        policy=AuditPolicy(name="vllm", sha256="5" * 64),
        base_sha="b" * 40,
        head_sha=change.commit_sha,
        compared_sha="b" * 40,
        comparison="merge_base",
        files=(
            _file("tests/models/test_kimi_k3.py", "test", "tests"),
            _file("vllm/config/model.py", "shared", "configuration"),
            _file(_MODEL, "model_only", "kimi-k3"),
        ),
        selections=(SelectionPoint.model_validate({**_PLACE, **_SELECTION}),),
        writes=(StateWrite.model_validate({**_PLACE, **_WRITE}),),
        returns=(StandardReturn.model_validate({**_PLACE, **_RETURN}),),
        device_functions=2,
        notes=(),
    )


_PLACE: Final = {"path": _MODEL, "path_class": "model_only", "symbol": "KimiModel.plan"}
_SELECTION: Final = {
    "line": 40,
    "excerpt": 'if config.additional_config.get("decode_backend") == "fast":',
    "kind": "config_key",
    "name": "decode_backend",
    "branches": True,
}
_WRITE: Final = {
    "line": 52,
    "excerpt": "context.mailbox.fill_(0)",
    "kind": "in_place",
    "target": "context.mailbox.fill_",
}
_RETURN: Final = {
    "line": 61,
    "excerpt": "return None",
    "kind": "declines",
    "condition": "tokens not in self.prepared",
    "told": False,
}


def _file(path: str, path_class: str, area: str) -> TouchedFile:
    return TouchedFile.model_validate(
        {
            "path": path,
            "previous_path": None,
            "change": "changed",
            "path_class": path_class,
            "area": area,
            "rule": path,
            "content": "python",
            "added_lines": 9,
            "removed_lines": 1,
            "symbols": (TouchedSymbol(name="KimiModel.plan", change="changed", lines=10),),
            "unread": None,
        }
    )
