"""Reads NVIDIA accelerators through NVML, and says in a sentence what it cannot read."""

import hashlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, cast

from k3bundle.environment import GpuFacts
from k3bundle.telemetry import GpuIdentity, GpuSample
from k3runner.telemetry.nvml_fabric import GpuFabric, read_fabric
from k3runner.visible import one_line

__all__ = [
    "GpuReader",
    "NvmlAbsent",
    "NvmlLibrary",
    "gpu_digest",
    "hardware_digest",
    "open_gpus",
]

Value = TypeVar("Value")
_CLOCK_SM: Final = 1
_CLOCK_MEMORY: Final = 2
_TEMPERATURE_GPU: Final = 0
_ECC_CORRECTED: Final = 0
_ECC_UNCORRECTED: Final = 1
_ECC_VOLATILE: Final = 0
"""Constants of nvml.h, which the library also has under longer names."""
_MILLI: Final = 1e-3
_DIGEST_DIGITS: Final = 16
_HARDWARE_DIGITS: Final = 32


class NvmlLibrary(Protocol):
    """The part of NVML's Python binding that is used, under the binding's own names."""

    NVMLError: type[Exception]
    """Base of every error of the library."""

    def nvmlInit(self) -> None: ...  # noqa: D102, N802
    def nvmlShutdown(self) -> None: ...  # noqa: D102, N802
    def nvmlSystemGetDriverVersion(self) -> str | bytes: ...  # noqa: D102, N802
    def nvmlSystemGetCudaDriverVersion_v2(self) -> int: ...  # noqa: D102, N802
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: D102, N802
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...  # noqa: D102, N802
    def nvmlDeviceGetName(self, handle: Any) -> str | bytes: ...  # noqa: D102, N802
    def nvmlDeviceGetUUID(self, handle: Any) -> str | bytes: ...  # noqa: D102, N802
    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any: ...  # noqa: D102, N802
    def nvmlDeviceGetCudaComputeCapability(  # noqa: D102, N802
        self, handle: Any
    ) -> tuple[int, int]: ...
    def nvmlDeviceGetClockInfo(self, handle: Any, kind: int) -> int: ...  # noqa: D102, N802
    def nvmlDeviceGetPowerUsage(self, handle: Any) -> int: ...  # noqa: D102, N802
    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> int: ...  # noqa: D102, N802
    def nvmlDeviceGetTotalEccErrors(  # noqa: D102, N802
        self, handle: Any, kind: int, counter: int
    ) -> int: ...
    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any: ...  # noqa: D102, N802


@dataclass(frozen=True)
class NvmlAbsent:
    """There is no accelerator to read."""

    reason: str
    """Why, in a sentence."""


@dataclass(frozen=True)
class _Device:
    index: int
    handle: Any
    uuid: str
    name: str


class GpuReader:
    """The accelerators of this node that the engine may use."""

    def __init__(self, library: NvmlLibrary, devices: tuple[_Device, ...]) -> None:
        self._library = library
        self._devices = devices

    @property
    def driver_version(self) -> str | None:
        """Version of the driver; None when it does not say."""
        value, _ = self._ask(self._library.nvmlSystemGetDriverVersion)
        return None if value is None else _text(value)[:80]

    @property
    def cuda_version(self) -> tuple[int, int] | None:
        """Newest CUDA that the driver serves, major and minor; None when it does not say."""
        value, _ = self._ask(self._library.nvmlSystemGetCudaDriverVersion_v2)
        return None if value is None else (value // 1000, value % 1000 // 10)

    def fabrics(self) -> tuple[GpuFabric | None, ...]:
        """How each accelerator stands on the NVLink fabric; None where nothing says."""
        return tuple(read_fabric(self._library, device.handle) for device in self._devices)

    def facts(self) -> tuple[GpuFacts, ...]:
        """What the accelerators are; of a serial identity only a digest."""
        return tuple(self._facts(device) for device in self._devices)

    def identities(self, salt: str) -> tuple[GpuIdentity, ...]:
        """Each accelerator with a salted digest and what its driver does not give."""
        return tuple(
            GpuIdentity(
                index=device.index,
                gpu=gpu_digest(salt, device.uuid),
                name=device.name[:160],
                unread=self._read(device)[1],
            )
            for device in self._devices
        )

    def sample(self) -> tuple[GpuSample, ...]:
        """All accelerators now; what cannot be read is None."""
        return tuple(self._read(device)[0] for device in self._devices)

    def close(self) -> None:
        """Lets go of the library."""
        self._ask(self._library.nvmlShutdown)

    def _facts(self, device: _Device) -> GpuFacts:
        memory, _ = self._ask(self._library.nvmlDeviceGetMemoryInfo, device.handle)
        capability, _ = self._ask(self._library.nvmlDeviceGetCudaComputeCapability, device.handle)
        return GpuFacts(
            name=device.name[:160],
            memory_bytes=0 if memory is None else int(memory.total),
            compute_capability="unknown" if capability is None else "{}.{}".format(*capability),
            hardware=hardware_digest(device.uuid) if device.uuid else None,
        )

    def _read(self, device: _Device) -> tuple[GpuSample, tuple[str, ...]]:
        """A sample and, for each value that is missing, the name and the driver's reason."""
        library, handle = self._library, device.handle
        unread: list[str] = []

        def ask(name: str, function: Callable[..., Value], *arguments: object) -> Value | None:
            value, reason = self._ask(function, handle, *arguments)
            if reason is not None:
                unread.append(f"{name}: {reason}")
            return value

        sm_clock = ask("sm_clock_mhz", library.nvmlDeviceGetClockInfo, _CLOCK_SM)
        memory_clock = ask("memory_clock_mhz", library.nvmlDeviceGetClockInfo, _CLOCK_MEMORY)
        power_mw = ask("power_w", library.nvmlDeviceGetPowerUsage)
        temperature = ask("temperature_c", library.nvmlDeviceGetTemperature, _TEMPERATURE_GPU)
        reasons = ask("clock_event_reasons", _clock_event_reasons(library))
        corrected, uncorrected = (
            ask(name, library.nvmlDeviceGetTotalEccErrors, kind, _ECC_VOLATILE)
            for name, kind in (
                ("ecc_corrected", _ECC_CORRECTED),
                ("ecc_uncorrected", _ECC_UNCORRECTED),
            )
        )
        memory = ask("memory_used_bytes", library.nvmlDeviceGetMemoryInfo)
        rates = ask("busy_share", library.nvmlDeviceGetUtilizationRates)
        sample = GpuSample(
            index=device.index,
            sm_clock_mhz=_number(sm_clock),
            memory_clock_mhz=_number(memory_clock),
            power_w=None if power_mw is None else int(power_mw) * _MILLI,
            temperature_c=_number(temperature),
            clock_event_reasons=None if reasons is None else int(reasons),
            ecc_corrected=None if corrected is None else int(corrected),
            ecc_uncorrected=None if uncorrected is None else int(uncorrected),
            memory_used_bytes=None if memory is None else int(memory.used),
            busy_share=None if rates is None else min(1.0, int(rates.gpu) / 100),
        )
        return sample, tuple(unread)

    def _ask(
        self, function: Callable[..., Value], *arguments: object
    ) -> tuple[Value | None, str | None]:
        try:
            return function(*arguments), None
        except (self._library.NVMLError, AttributeError) as error:
            return None, one_line(str(error) or type(error).__name__, 120)


def open_gpus(
    visible_devices: str | None, library: NvmlLibrary | None = None
) -> GpuReader | NvmlAbsent:
    """Opens the accelerators that the engine may use.

    Args:
        visible_devices: Value of CUDA_VISIBLE_DEVICES; None: all. Names that are neither an index
            nor the start of a UUID are passed over, as CUDA does with what follows them.
        library: The binding; None: the installed one.

    Returns:
        The reader, or why there is none.
    """
    found = library or _installed()
    if isinstance(found, NvmlAbsent):
        return found
    try:
        found.nvmlInit()
        devices = tuple(_device(found, index) for index in range(found.nvmlDeviceGetCount()))
    except found.NVMLError as error:
        return NvmlAbsent(f"NVML does not start: {one_line(str(error), 160)}.")
    used = _visible(devices, visible_devices)
    if not used:
        why = "shows no GPU" if not devices else f"is {one_line(visible_devices or '', 80)!r}"
        source = "NVML" if not devices else "CUDA_VISIBLE_DEVICES"
        return NvmlAbsent(f"{source} {why}.")
    return GpuReader(found, used)


def gpu_digest(salt: str, uuid: str) -> str:
    """The name of an accelerator in records: it tells two apart, and nothing else.

    Args:
        salt: The run's nonce.
        uuid: UUID that the driver gives.
    """
    return hashlib.sha256(f"{salt}:{uuid}".encode()).hexdigest()[:_DIGEST_DIGITS]


def hardware_digest(uuid: str) -> str:
    """What tells whether two runs used one accelerator: the same in every run, unlike `gpu_digest`.

    Args:
        uuid: UUID that the driver gives; random enough that nobody guesses it from its digest.
    """
    return hashlib.sha256(f"k3-eval accelerator:{uuid}".encode()).hexdigest()[:_HARDWARE_DIGITS]


def _installed() -> NvmlLibrary | NvmlAbsent:
    try:
        module = importlib.import_module("pynvml")
    except ImportError as error:
        return NvmlAbsent(f"The NVML binding is not installed: {one_line(str(error), 120)}.")
    return cast("NvmlLibrary", module)


def _device(library: NvmlLibrary, index: int) -> _Device:
    handle = library.nvmlDeviceGetHandleByIndex(index)
    uuid, name = library.nvmlDeviceGetUUID(handle), library.nvmlDeviceGetName(handle)
    return _Device(index=index, handle=handle, uuid=_text(uuid), name=_text(name))


def _visible(devices: tuple[_Device, ...], wanted: str | None) -> tuple[_Device, ...]:
    if wanted is None:
        return devices
    found: list[_Device] = []
    for word in wanted.split(","):
        name = word.strip()
        match = [
            device
            for device in devices
            if (name.isdigit() and device.index == int(name))
            or (name.startswith("GPU-") and device.uuid.startswith(name))
        ]
        if len(match) != 1:
            break
        found += match
    return tuple(sorted(found, key=lambda device: device.index))


def _clock_event_reasons(library: NvmlLibrary) -> Callable[[Any], int]:
    """The query under its present name, or under the one that older bindings have."""

    def query(handle: Any) -> int:
        for name in (
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
        ):
            function = getattr(library, name, None)
            if function is not None:
                return int(function(handle))
        raise AttributeError("the binding has no query for it")

    return query


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
