"""Reading accelerators: every value or its reason, and nothing that names one."""

from collections.abc import Iterator
from typing import Any

import pytest

from k3runner.telemetry.nvml import (
    GpuReader,
    NvmlAbsent,
    gpu_digest,
    hardware_digest,
    open_gpus,
)
from k3runner_testing.fake_nvml import FakeGpu, FakeNvml, FakeNvmlError

SALT = "ab" * 32


def _reader(*gpus: FakeGpu, visible: str | None = None) -> GpuReader:
    reader = open_gpus(visible, FakeNvml(*gpus))
    assert isinstance(reader, GpuReader)
    return reader


def test_a_sample_has_every_value_in_its_unit() -> None:
    (sample,) = _reader(FakeGpu(answers={"reasons": 0x4, "ecc_uncorrected": 2})).sample()
    assert sample.model_dump() == {
        "index": 0,
        "sm_clock_mhz": 1965.0,
        "memory_clock_mhz": 3996.0,
        "power_w": 700.0,
        "temperature_c": 55.0,
        "clock_event_reasons": 4,
        "ecc_corrected": 0,
        "ecc_uncorrected": 2,
        "memory_used_bytes": 200 << 30,
        "busy_share": 0.97,
    }


def test_what_a_driver_refuses_is_null_with_its_reason_and_never_zero() -> None:
    refused = FakeNvmlError("Not Supported")
    gpu = FakeGpu(answers={"power_mw": refused, "ecc_corrected": refused})
    reader = _reader(gpu)
    (sample,), (identity,) = reader.sample(), reader.identities(SALT)
    assert (sample.power_w, sample.ecc_corrected, sample.temperature_c) == (None, None, 55.0)
    assert identity.unread == ("power_w: Not Supported", "ecc_corrected: Not Supported")


def test_b16_a_gpu_that_falls_off_the_bus_gives_nulls_and_the_others_go_on() -> None:
    lost = FakeNvmlError("GPU is lost")
    names = ("sm_clock", "memory_clock", "power_mw", "temperature", "reasons", "ecc_corrected",
             "ecc_uncorrected", "memory_used", "busy")  # fmt: skip
    gone, well = _reader(FakeGpu(answers=dict.fromkeys(names, lost)), FakeGpu()).sample()
    assert set(gone.model_dump(exclude={"index"}).values()) == {None}
    assert well.power_w == 700.0


def test_b17_a_value_that_appears_later_is_read_when_it_does() -> None:
    answers: Iterator[int | FakeNvmlError] = iter([FakeNvmlError("Not Supported"), 4])

    def reasons() -> int:
        answer = next(answers)
        if isinstance(answer, FakeNvmlError):
            raise answer
        return answer

    reader = _reader(FakeGpu(answers={"reasons": reasons}))
    assert [reader.sample()[0].clock_event_reasons for _ in range(2)] == [None, 4]


def test_neither_uuid_nor_serial_is_in_a_record() -> None:
    uuid = "GPU-12345678-1234-1234-1234-123456789abc"
    reader = _reader(FakeGpu(uuid=uuid))
    (identity,), (facts,) = reader.identities(SALT), reader.facts()
    text = identity.model_dump_json() + facts.model_dump_json()
    assert "12345678" not in text
    assert identity.gpu == gpu_digest(SALT, uuid)
    assert identity.gpu != gpu_digest("cd" * 32, uuid)
    assert (facts.name, facts.compute_capability) == ("NVIDIA GB300", "10.3")


def test_an_accelerator_has_one_digest_in_every_run_and_no_other_has_it() -> None:
    first, second = _reader(FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b")).facts()
    (again,) = _reader(FakeGpu(uuid="GPU-a")).facts()
    assert first.hardware == again.hardware == hardware_digest("GPU-a")
    assert first.hardware != second.hardware
    (unknown,) = _reader(FakeGpu(uuid="")).facts()
    assert unknown.hardware is None


def test_two_equal_gpus_have_two_digests() -> None:
    reader = _reader(FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b"))
    first, second = reader.identities(SALT)
    assert first.gpu != second.gpu
    assert (first.index, second.index) == (0, 1)


@pytest.mark.parametrize(
    ("visible", "indexes"),
    [
        (None, [0, 1, 2]),
        ("2,0", [0, 2]),
        ("GPU-c", [2]),
        ("0,none,1", [0]),
        ("0,9", [0]),
        ("0,GPU-", [0]),
    ],
)
def test_only_gpus_that_the_engine_may_use_are_read(
    visible: str | None, indexes: list[int]
) -> None:
    gpus = [FakeGpu(uuid=f"GPU-{letter}") for letter in "abc"]
    assert [one.index for one in _reader(*gpus, visible=visible).sample()] == indexes


@pytest.mark.parametrize(
    ("library", "visible", "sentence"),
    [
        (
            FakeNvml(start_error="Driver Not Loaded"),
            None,
            "NVML does not start: Driver Not Loaded.",
        ),
        (FakeNvml(), None, "NVML shows no GPU."),
        (FakeNvml(FakeGpu()), "", "CUDA_VISIBLE_DEVICES is ''."),
    ],
)
def test_without_gpus_there_is_a_sentence(
    library: FakeNvml, visible: str | None, sentence: str
) -> None:
    assert open_gpus(visible, library) == NvmlAbsent(sentence)


def test_a_binding_that_is_not_installed_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    absent = open_gpus(None)
    assert isinstance(absent, NvmlAbsent)
    assert absent.reason.startswith("The NVML binding is not installed")


def test_the_older_name_of_the_query_for_reasons_is_used_too() -> None:
    class Older:
        """Everything of the fake, under the older name."""

        def __init__(self, fake: FakeNvml) -> None:
            self._fake = fake

        def __getattr__(self, name: str) -> Any:
            if name == "nvmlDeviceGetCurrentClocksEventReasons":
                raise AttributeError(name)
            older = name == "nvmlDeviceGetCurrentClocksThrottleReasons"
            found = "nvmlDeviceGetCurrentClocksEventReasons" if older else name
            return getattr(self._fake, found)

    reader = open_gpus(None, Older(FakeNvml(FakeGpu(answers={"reasons": 8}))))
    assert isinstance(reader, GpuReader)
    assert reader.sample()[0].clock_event_reasons == 8


def test_text_as_bytes_is_text_and_closing_lets_go() -> None:
    class Bytes(FakeNvml):
        def nvmlSystemGetDriverVersion(self) -> bytes:  # type: ignore[override] # noqa: N802
            return b"570.1"

    fake = Bytes(FakeGpu())
    reader = open_gpus(None, fake)
    assert isinstance(reader, GpuReader)
    assert reader.driver_version == "570.1"
    reader.close()
    assert fake.open == 0


def test_the_installed_binding_has_every_name_that_is_used() -> None:
    import pynvml  # noqa: PLC0415

    used = [name for name in dir(FakeNvml) if name.startswith("nvml")]
    assert len(used) == 17
    assert [name for name in used if not hasattr(pynvml, name)] == []
    assert issubclass(pynvml.NVMLError, Exception)
    constants = (pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM, pynvml.NVML_TEMPERATURE_GPU)
    assert constants == (1, 2, 0)
    ecc = (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
    assert (*ecc, pynvml.NVML_VOLATILE_ECC) == (0, 1, 0)
    fabric = pynvml.c_nvmlGpuFabricInfo_v3_t()
    assert len(bytes(fabric.clusterUuid)) == 16
    assert (fabric.state, fabric.healthSummary) == (0, 0)
    states = (pynvml.NVML_GPU_FABRIC_STATE_IN_PROGRESS, pynvml.NVML_GPU_FABRIC_STATE_COMPLETED)
    health = (
        pynvml.NVML_GPU_FABRIC_HEALTH_SUMMARY_HEALTHY,
        pynvml.NVML_GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY,
    )
    assert (*states, *health) == (2, 3, 1, 2)
