from pathlib import Path

import pytest

from k3decode.host.inputs import ARCHITECTURES
from k3decode.registry import OPS
from k3decode.result_table import latest_compiled, read_records
from k3decode.spill_allowance import (
    Place,
    SpillAllowanceError,
    read_allowed_spills,
    spill_problems,
)

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
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
    assert set(read_allowed_spills()) <= _known()


def test_every_variant_has_a_kept_record_whose_spills_are_listed() -> None:
    known, kept, spilling = _known(), set(), set()
    for record in latest_compiled(read_records(BENCHMARKS)):
        place = (record["op"], record["variant"], record["architecture"])
        kept.add(place)
        if record["spills"] and place in known:
            spilling.add(place)
    assert known - kept == set()
    assert spill_problems(spilling, known, read_allowed_spills()) == []


def _known() -> set[Place]:
    return {
        (op.name, variant, architecture)
        for op in OPS
        for variant in op.variants
        for architecture in ARCHITECTURES.values()
    }
