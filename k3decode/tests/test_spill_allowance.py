from pathlib import Path

import pytest

from k3decode.host.inputs import ARCHITECTURES
from k3decode.registry import OPS
from k3decode.spill_allowance import SpillAllowanceError, read_allowed_spills, spill_problems

PLACE = ("kda", "tp8_12_heads", "sm_90a")


def test_a_spill_needs_an_entry_and_an_entry_needs_a_spill() -> None:
    assert spill_problems({PLACE}, {PLACE}, {PLACE}) == []
    (unknown,) = spill_problems({PLACE}, {PLACE}, set())
    assert unknown.startswith("kda tp8_12_heads sm_90a spills registers")
    (outdated,) = spill_problems(set(), {PLACE}, {PLACE})
    assert outdated.endswith("does not spill: remove the entry")
    assert spill_problems(set(), set(), {PLACE}) == []


def test_an_entry_without_a_reason_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "allowed.toml"
    path.write_text(
        '[[allowed]]\nop = "kda"\nvariant = "a"\narchitecture = "sm_90a"\nreason = " "\n'
    )
    with pytest.raises(SpillAllowanceError, match="say why it spills"):
        read_allowed_spills(path)


def test_every_entry_names_a_variant_that_exists() -> None:
    known = {
        (op.name, variant, architecture)
        for op in OPS
        for variant in op.variants
        for architecture in ARCHITECTURES.values()
    }
    assert set(read_allowed_spills()) <= known
