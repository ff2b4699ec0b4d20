"""A scriptable NVML: any number of accelerators, any value, any refusal."""

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

__all__ = ["FakeFabric", "FakeGpu", "FakeNvml", "FakeNvmlError", "fake_fabric"]


class FakeNvmlError(Exception):
    """What the library raises."""


Answer = int | Callable[[], int] | FakeNvmlError


@dataclass
class FakeGpu:
    """One accelerator. An answer may be a function, asked each time, or an error."""

    name: str = "NVIDIA GB300"
    uuid: str = "GPU-00000000-0000-0000-0000-000000000000"
    memory_total_bytes: int = 288 << 30
    capability: tuple[int, int] = (10, 3)
    answers: dict[str, Answer] = field(default_factory=dict)
    """Name of a query -> answer; what is not named has an ordinary one."""
    fabric: "FakeFabric | None" = None
    """How it stands on the NVLink fabric; None: the driver refuses the question."""


class FakeFabric(ctypes.Structure):
    """The driver's structure, with the fields that are read."""

    _fields_ = (
        ("clusterUuid", ctypes.c_uint8 * 16),
        ("state", ctypes.c_uint),
        ("healthSummary", ctypes.c_uint8),
    )


def fake_fabric(state: int = 3, health: int = 1, cluster: int = 0) -> FakeFabric:
    """A structure as a driver would fill it; `cluster` 0: in none."""
    return FakeFabric((ctypes.c_uint8 * 16)(*[cluster] * 16), state, health)


_ORDINARY: Mapping[str, int] = {
    "sm_clock": 1965,
    "memory_clock": 3996,
    "power_mw": 700_000,
    "temperature": 55,
    "reasons": 0,
    "ecc_corrected": 0,
    "ecc_uncorrected": 0,
    "memory_used": 200 << 30,
    "busy": 97,
}


class FakeNvml:
    """Stands in for the module `pynvml`."""

    NVMLError: type[Exception] = FakeNvmlError
    c_nvmlGpuFabricInfo_v3_t = FakeFabric  # noqa: N815

    def __init__(self, *gpus: FakeGpu, start_error: str | None = None, cuda: int = 13_000) -> None:
        self.gpus = list(gpus)
        self.cuda = cuda
        self.start_error = start_error
        self.open = 0
        self.queries = 0

    def nvmlInit(self) -> None:  # noqa: D102, N802
        if self.start_error is not None:
            raise FakeNvmlError(self.start_error)
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: D102, N802
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: D102, N802
        return "580.95.05"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:  # noqa: D102, N802
        return self.cuda

    def nvmlDeviceGetGpuFabricInfoV(self, handle: FakeGpu, found: Any) -> None:  # noqa: D102, N802
        if handle.fabric is None:
            raise FakeNvmlError("Not Supported")
        ctypes.memmove(found, ctypes.byref(handle.fabric), ctypes.sizeof(FakeFabric))

    def nvmlDeviceGetCount(self) -> int:  # noqa: D102, N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:  # noqa: D102, N802
        return self.gpus[index]

    def nvmlDeviceGetName(self, handle: FakeGpu) -> str:  # noqa: D102, N802
        return handle.name

    def nvmlDeviceGetUUID(self, handle: FakeGpu) -> str:  # noqa: D102, N802
        return handle.uuid

    def nvmlDeviceGetMemoryInfo(self, handle: FakeGpu) -> Any:  # noqa: D102, N802
        used = self._answer(handle, "memory_used")
        return SimpleNamespace(used=used, total=handle.memory_total_bytes)

    def nvmlDeviceGetCudaComputeCapability(  # noqa: D102, N802
        self, handle: FakeGpu
    ) -> tuple[int, int]:
        return handle.capability

    def nvmlDeviceGetClockInfo(self, handle: FakeGpu, kind: int) -> int:  # noqa: D102, N802
        return self._answer(handle, {1: "sm_clock", 2: "memory_clock"}[kind])

    def nvmlDeviceGetPowerUsage(self, handle: FakeGpu) -> int:  # noqa: D102, N802
        return self._answer(handle, "power_mw")

    def nvmlDeviceGetTemperature(self, handle: FakeGpu, sensor: int) -> int:  # noqa: D102, N802
        if sensor != 0:
            raise FakeNvmlError("Invalid Argument")
        return self._answer(handle, "temperature")

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: FakeGpu) -> int:  # noqa: D102, N802
        return self._answer(handle, "reasons")

    def nvmlDeviceGetTotalEccErrors(  # noqa: D102, N802
        self, handle: FakeGpu, kind: int, counter: int
    ) -> int:
        if counter != 0:
            raise FakeNvmlError("Invalid Argument")
        return self._answer(handle, ("ecc_corrected", "ecc_uncorrected")[kind])

    def nvmlDeviceGetUtilizationRates(self, handle: FakeGpu) -> Any:  # noqa: D102, N802
        return SimpleNamespace(gpu=self._answer(handle, "busy"), memory=0)

    def _answer(self, gpu: FakeGpu, name: str) -> int:
        self.queries += 1
        answer = gpu.answers.get(name, _ORDINARY[name])
        if isinstance(answer, FakeNvmlError):
            raise answer
        return answer() if callable(answer) else answer
