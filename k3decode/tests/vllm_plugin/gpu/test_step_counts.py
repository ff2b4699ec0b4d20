import json

import torch

from k3decode.vllm_plugin.gpu.step_counts import (
    PathCounts,
    StepCounts,
    coverage_json,
    decode_coverage,
)


def test_counts_are_kept_by_path_kind_and_rows() -> None:
    counts = StepCounts(torch.device("cpu"))
    for _ in range(3):
        counts.add("candidate", "decode", 64)
    counts.add("stock", "decode", 65)
    counts.add("stock", "prefill", 700)
    assert set(counts.read()) == {
        PathCounts("candidate", "decode", 64, 3),
        PathCounts("stock", "decode", 0, 1),
        PathCounts("stock", "prefill", 0, 1),
    }
    assert decode_coverage(counts.read()) == 0.75
    counts.reset()
    assert counts.read() == () and decode_coverage(()) is None


def test_a_report_says_why_stock_served() -> None:
    found = (
        PathCounts("candidate", "decode", 4, 9),
        PathCounts("stock", "decode", 3, 1),
        PathCounts("stock", "prefill", 0, 2),
        PathCounts("stock", "dummy", 1, 5),
    )
    reasons = {("decode", 3): "no batch", ("prefill", 0): "prompt tokens", ("dummy", 1): "none"}
    report = json.loads(coverage_json(found, reasons, "candidate"))  # type: ignore[arg-type]
    assert (report["schema"], report["source"]) == ("k3decode.coverage/1", "device")
    assert report["counts"] == [
        {"kind": "decode", "path": "candidate", "reason": None, "count": 9},
        {"kind": "decode", "path": "stock", "reason": "no batch", "count": 1},
        {"kind": "prefill", "path": "stock", "reason": "prompt tokens", "count": 2},
    ]
