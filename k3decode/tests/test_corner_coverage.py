"""Every op reaches the corners that it ought to, and the page that says so is current."""

from pathlib import Path

import pytest

from k3decode.corner_coverage import EXPECTED, Corner, corners_of, main, missing_corners
from k3decode.registry import OPS, op_named

PAGE = Path(__file__).parents[1] / "docs" / "corners.md"


def test_every_op_reaches_its_corners_and_the_page_is_current(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([str(PAGE), "--check"]) == 0, capsys.readouterr().err


def test_each_op_is_said_before_its_cases_are_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    op = op_named("latent_norm")
    monkeypatch.setattr("k3decode.corner_coverage.OPS", (op,))
    assert main([str(tmp_path / "page.md")]) == 0
    count = sum(case.group in {"smoke", "corner"} for case in op.cases)
    assert capsys.readouterr().err == f"1 of 1, latent_norm: preparing {count} cases\n"


def test_every_corner_says_who_has_it_and_why_others_do_not() -> None:
    every = {op.name for op in OPS}
    assert set(EXPECTED) == set(Corner)
    for ops, why in EXPECTED.values():
        assert ops
        assert ops <= every
        assert bool(why) == (ops != every)


def test_a_corner_without_a_case_is_named() -> None:
    counts = {"kda": dict.fromkeys(Corner, 1) | {Corner.GATE_AT_BOUND: 0}}
    assert missing_corners(counts) == [
        "kda: expected a case with gate at its bound, found none: add one to ops/kda/cases.py"
    ]


@pytest.mark.parametrize(
    ("name", "case", "has", "lacks"),
    [
        ("kda", "null_slots", Corner.NULL_SLOT, Corner.GATE_AT_BOUND),
        ("kda", "gate_at_bound", Corner.GATE_AT_BOUND, Corner.NULL_SLOT),
        ("moe_tail", "denormals", Corner.DENORMAL, Corner.INFINITY),
        ("moe_tail", "padded_rows", Corner.STRIDED, Corner.DENORMAL),
        ("latent_norm", "one_row", Corner.ONE_ROW, Corner.NEGATIVE_ZERO),
    ],
)
def test_corners_are_seen_in_the_arguments(
    name: str, case: str, has: Corner, lacks: Corner
) -> None:
    op = op_named(name)
    (chosen,) = (one for one in op.cases if one.name == case)
    found = corners_of(op, chosen)
    assert has in found
    assert lacks not in found
