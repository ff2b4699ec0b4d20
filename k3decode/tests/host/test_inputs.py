"""What all launches check alike: the GPU, rows, strides, devices, all faults in one sentence."""

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from k3decode.host.inputs import InputCheck, KernelInputError, UnsupportedGpuError


def _rows_on(device: str) -> Tensor:
    """A tensor that says it is on a device, which need not be there."""
    with FakeTensorMode():
        return torch.empty(2, 8, dtype=torch.int32, device=device)


def _target(rows: Tensor) -> str:
    check = InputCheck("router")
    check.tensor("rows", rows, dtype=torch.int32, shape=[2, None])
    return check.finish()


@pytest.mark.parametrize(
    ("capability", "target"), [((9, 0), "sm_90a"), ((10, 0), "sm_100a"), ((10, 3), "sm_103a")]
)
def test_a_supported_gpu_gives_its_compilation_target(
    capability: tuple[int, int], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _: capability)
    assert _target(_rows_on("cuda")) == target


@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (12, 0)])
def test_a_gpu_without_kernels_is_refused_by_name(
    capability: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _: capability)
    with pytest.raises(UnsupportedGpuError) as refusal:
        _target(_rows_on("cuda"))
    assert str(refusal.value) == (
        "router: expected a GPU of sm_90a, sm_100a, sm_103a, found compute capability "
        f"{capability[0]}.{capability[1]}: use the engine's own kernels"
    )


def test_wrong_inputs_come_before_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _: (8, 0))
    check = InputCheck("router")
    check.rows(65)
    check.tensor("rows", _rows_on("cuda"), dtype=torch.bfloat16, shape=[2, 9])
    check.tensor("other", torch.empty(2, 8), dtype=torch.float32, shape=[2, 8])
    with pytest.raises(KernelInputError) as refusal:
        check.finish()
    text = str(refusal.value)
    assert "expected 1 to 64 rows, found 65" in text
    assert "rows: expected torch.bfloat16, found torch.int32" in text
    assert "rows: expected shape [2, 9], found [2, 8]" in text


def test_rows_that_are_written_may_not_overlap_and_rows_that_are_read_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _: (9, 0))
    with FakeTensorMode():
        one, same, halves, apart = (
            torch.empty_strided((rows, 16), (stride, 1), dtype=torch.int32, device="cuda")
            for rows, stride in ((1, 16), (2, 0), (2, 8), (2, 32))
        )
    for rows, found in ((same, 0), (halves, 8)):
        check = InputCheck("router")
        check.tensor("out", rows, dtype=torch.int32, shape=[2, 16])
        with pytest.raises(KernelInputError) as refusal:
            check.finish()
        assert str(refusal.value) == (
            "router: out: expected rows that do not overlap, 16 elements apart or more, "
            f"found {found}"
        )
    for name, rows in (("out", apart), ("out", one), ("rows", same), ("rows", halves)):
        check = InputCheck("router")
        check.tensor(name, rows, dtype=torch.int32, shape=[None, 16])
        assert check.finish() == "sm_90a"
