"""Recordings: what a launch gets comes back; a file that is none is refused in words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from k3decode.check import check_case, replayed_cases
from k3decode.op import Launch, Op
from k3decode.recording import (
    RecordedCall,
    RecordingError,
    read_recording,
    recorded,
    write_recording,
)
from k3decode.registry import op_named

from .ops import mla_torch_launches, moe_launches, projection_launches, torch_launches

CPU = torch.device("cpu")
LAUNCHES: dict[str, Launch] = {
    "attn_res": torch_launches.attn_res,
    "embedding": torch_launches.embed_rows,
    "experts": moe_launches.run_experts,
    "kda": torch_launches.kda_step,
    "latent_norm": moe_launches.normalise_latent,
    "mla_combine": mla_torch_launches.mla_combine,
    "mla_decode": mla_torch_launches.mla_decode,
    "mla_prepare": mla_torch_launches.mla_prepare,
    "mla_query": mla_torch_launches.mla_query,
    "moe_tail": moe_launches.add_shared,
    "projection": projection_launches.project,
    "router": torch_launches.route_rows,
    "situ": moe_launches.activate_rows,
}


def _case_calls(op: Op, name: str) -> list[RecordedCall]:
    (case,) = (case for case in op.cases if case.name == name)
    calls: list[RecordedCall] = []
    launch = recorded(op.name, LAUNCHES[op.name], calls, lambda: f"case {name}")
    case.prepare(launch, CPU).run()
    return calls


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("attn_res", "padded_rows"),
        ("attn_res", "first_m11"),
        ("embedding", "ids_outside"),
        ("experts", "skipped_slots"),
        ("experts", "least_scales_wide"),
        ("kda", "null_slots"),
        ("kda", "q4_dropped_states"),
        ("latent_norm", "padded_rows"),
        ("mla_combine", "parts_to_values_ragged"),
        ("mla_combine", "parts_to_latents_verify_q3"),
        ("mla_combine", "ranks_to_values_ragged"),
        ("mla_decode", "bf16_page_stride"),
        ("mla_decode", "bf16_verify_q3"),
        ("mla_decode", "e4m3_scales"),
        ("mla_prepare", "bf16_null_slots"),
        ("mla_prepare", "e4m3_scaled"),
        ("mla_query", "bf16_padded_rows"),
        ("mla_query", "e4m3_scaled"),
        ("moe_tail", "unbounded"),
        ("projection", "padded_rows_two_outputs"),
        ("projection", "fp32_only"),
        ("projection", "situ_padded"),
        ("router", "padded_rows"),
        ("situ", "padded_rows"),
    ],
)
def test_a_recorded_launch_is_judged_like_a_case(name: str, case: str, tmp_path: Path) -> None:
    path = tmp_path / "calls.pt"
    write_recording(path, _case_calls(op_named(name), case))
    ((op, replayed),) = replayed_cases(read_recording(path))
    report = check_case(op, replayed, LAUNCHES[name], CPU)
    assert report.outcome == "passed", report.line()
    assert (report.case, report.group) == (f"case {case}", "replay")

    def nothing(*tensors: object, **options: object) -> None:
        pass

    assert check_case(op, replayed, nothing, CPU).outcome == "failed"


def test_state_is_recorded_as_it_was_before_the_launch() -> None:
    def add_one(memory: torch.Tensor) -> None:
        memory += 1

    calls: list[RecordedCall] = []
    memory = torch.zeros(2)
    recorded("kda", add_one, calls, lambda: "first")(memory)
    assert memory.tolist() == [1, 1]
    assert calls[0].tensor("memory").tolist() == [0, 0]


def test_recorded_refuses_what_a_file_cannot_hold() -> None:
    def takes_a_hook(hook: object) -> None:
        pass

    launch = recorded("kda", takes_a_hook, [], lambda: "first")
    with pytest.raises(RecordingError, match="found function as 'hook'"):
        launch(takes_a_hook)


def _no_file(path: Path) -> None:
    path.unlink(missing_ok=True)


def _words(path: Path) -> None:
    path.write_text("not a recording")


def _other_schema(path: Path) -> None:
    torch.save({"schema": "k3decode.recording/0", "calls": []}, path)


def _no_calls(path: Path) -> None:
    torch.save({"schema": "k3decode.recording/1", "calls": []}, path)


def _odd_call(path: Path) -> None:
    call = {"op": "kda", "name": "a", "arguments": {"slots": [1]}}
    torch.save({"schema": "k3decode.recording/1", "calls": [call]}, path)


def _code(path: Path) -> None:
    torch.save({"schema": "k3decode.recording/1", "calls": [_code]}, path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_no_file, "expected a recording at"),
        (_words, "expected a file of plain tensors at"),
        (_other_schema, "expected schema k3decode.recording/1, found 'k3decode.recording/0'"),
        (_no_calls, "expected a list of calls, found none"),
        (_odd_call, "call 0 is not as recordings are, found the argument 'slots'"),
        (_code, "expected a file of plain tensors at"),
    ],
)
def test_read_recording_refuses_other_files(
    make: Callable[[Path], Any], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "calls.pt"
    make(path)
    with pytest.raises(RecordingError, match=words) as found:
        read_recording(path)
    # Torch's own words advise to run what is in the file.
    assert "weights_only" not in str(found.value)


def test_a_call_names_the_argument_it_lacks() -> None:
    call = RecordedCall(op="kda", name="layer 4", arguments={"eps": 1e-5, "flag": True})
    with pytest.raises(RecordingError, match="kda, layer 4: expected a tensor 'slots'"):
        call.tensor("slots")
    with pytest.raises(RecordingError, match="expected a number 'flag', found True"):
        call.number("flag")
    with pytest.raises(RecordingError, match="expected a whole number 'eps', found 1e-05"):
        call.whole("eps")
    assert call.number("eps") == 1e-5


def test_replayed_cases_refuse_ops_without_a_kernel() -> None:
    with pytest.raises(RecordingError, match="call 0, a: expected an op with a kernel"):
        replayed_cases([RecordedCall(op="nothing", name="a", arguments={})])
