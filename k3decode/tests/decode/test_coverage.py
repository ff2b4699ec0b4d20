import json

from k3decode.decode.coverage import Coverage


def test_counts_are_kept_by_kind_path_and_reason() -> None:
    coverage = Coverage()
    for _ in range(3):
        coverage.record("decode", "candidate", None)
    coverage.record("prefill", "stock", "too long")
    coverage.record("prefill", "candidate", None)
    report = json.loads(coverage.to_json("candidate"))
    assert report == {
        "schema": "k3decode.coverage/1",
        "source": "host",
        "configured_backend": "candidate",
        "counts": [
            {"kind": "decode", "path": "candidate", "reason": None, "count": 3},
            {"kind": "prefill", "path": "candidate", "reason": None, "count": 1},
            {"kind": "prefill", "path": "stock", "reason": "too long", "count": 1},
        ],
    }


def test_nothing_served_gives_no_counts() -> None:
    assert json.loads(Coverage().to_json("stock"))["counts"] == []


def test_rows_come_in_one_order_whatever_came_first() -> None:
    forwards, backwards = Coverage(), Coverage()
    steps = [("decode", None), ("prefill", None), ("decode", "why"), ("mixed", "why")]
    for kind, reason in steps:
        forwards.record(kind, "stock", reason)  # type: ignore[arg-type]
    for kind, reason in reversed(steps):
        backwards.record(kind, "stock", reason)  # type: ignore[arg-type]
    assert forwards.to_json("stock") == backwards.to_json("stock")
