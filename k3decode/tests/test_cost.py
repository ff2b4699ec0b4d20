import pytest

from k3decode.cost import Cost, roofline_us
from k3decode.hardware import GPUS, gpu_named


def test_roofline_us_takes_the_slower_of_bytes_and_arithmetic() -> None:
    h200 = gpu_named("NVIDIA H200")
    moving = Cost(flops=0, read_bytes=2_400_000, write_bytes=2_400_000)
    assert roofline_us(moving, h200) == pytest.approx(1.0)
    computing = Cost(flops=989_400_000, read_bytes=1, write_bytes=0)
    assert roofline_us(computing, h200) == pytest.approx(1.0)


def test_cost_adds_and_refuses_negative_counts() -> None:
    both = Cost(flops=1, read_bytes=2, write_bytes=3) + Cost(flops=4, read_bytes=5, write_bytes=6)
    assert both == Cost(flops=5, read_bytes=7, write_bytes=9)
    assert both.bytes == 16
    with pytest.raises(ValueError, match="negative"):
        Cost(flops=0, read_bytes=-1, write_bytes=0)


@pytest.mark.parametrize("name", ["B200", "GB200", "B300", "GB300", "H100", "H200"])
def test_gpu_named_tells_similar_names_apart(name: str) -> None:
    assert gpu_named(f"NVIDIA {name}").name == name


def test_gpu_named_refuses_an_unknown_gpu() -> None:
    with pytest.raises(ValueError, match="found 'NVIDIA A100'"):
        gpu_named("NVIDIA A100")


def test_every_gpu_names_its_source() -> None:
    assert all(gpu.source and gpu.memory_gb_per_s > 0 for gpu in GPUS)
