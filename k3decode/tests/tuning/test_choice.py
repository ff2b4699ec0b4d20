"""A launch goes the measured way on a GPU with a table, else the rule's, and never another."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS
from k3decode.ops.mla_combine.forms import combine_form
from k3decode.ops.mla_combine.launch import config_for
from k3decode.ops.mla_combine_many.config import many_form
from k3decode.ops.mla_decode.parts import chosen_parts
from k3decode.ops.projection.choices import Asked, candidates, rule_config, tuned_configs
from k3decode.ops.projection.config import SituBounds
from k3decode.ops.projection.shapes import k3_projections
from k3decode.tuning import choice
from k3decode.tuning.choice import Question, choose, forced
from k3decode.tuning.table import TuningTableError, read_tables

from .table_lines import GPU, write_table

WAYS = {"few_rows": 1, "many_rows": 2}
DEVICE = torch.device("cuda")
SHAPE = "parts_to_values_12_heads"


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A GPU of some name, whose table has these lines."""

    def of(name: str, *changes: dict[str, Any]) -> None:
        write_table(tmp_path, *changes)
        rows = read_tables(tmp_path)
        monkeypatch.setattr(choice, "kept_rows", lambda: rows)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device: name)

    _forget()
    yield of
    _forget()


def _forget() -> None:
    for function in (
        choice._gpu_name,
        choice._measured,
        choice._rows_of,
        choice._say_that_it_is_a_default,
    ):
        function.cache_clear()


def _chosen(rows: int, rule: str = "many_rows", shape: str = SHAPE) -> int:
    return choose(Question("mla_combine", shape, rows), WAYS, rule, DEVICE)


def test_the_measured_way_is_taken_up_to_the_rows_it_was_measured_at(on_gpu: Any) -> None:
    on_gpu(GPU, {"rows": 9, "choice": "many_rows"}, {"rows": 17})
    assert [_chosen(rows, "few_rows") for rows in (5, 9, 10, 17, 18)] == [2, 2, 1, 1, 1]
    assert [_chosen(rows, "few_rows") for rows in (1, 4)] == [1, 1]
    assert _chosen(18, "many_rows") == 2
    assert _chosen(17, "many_rows", shape="parts_to_values_6_heads") == 2


def test_an_unknown_gpu_goes_by_the_rule_and_says_so_once(
    on_gpu: Any, caplog: pytest.LogCaptureFixture
) -> None:
    on_gpu("NVIDIA Unknown", {})
    with caplog.at_level(logging.WARNING):
        assert [_chosen(rows) for rows in (1, 17, 33)] == [2, 2, 2]
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("k3decode: expected a tuning table for NVIDIA Unknown, found none: ")
    assert said.endswith("measure with python -m k3decode.tune")


def test_a_known_gpu_says_nothing(on_gpu: Any, caplog: pytest.LogCaptureFixture) -> None:
    on_gpu(GPU, {})
    with caplog.at_level(logging.WARNING):
        _chosen(64)
    assert caplog.records == []


def test_a_choice_that_is_no_candidate_is_refused(on_gpu: Any) -> None:
    on_gpu(GPU, {"choice": "in_the_middle"})
    with pytest.raises(TuningTableError, match="found 'in_the_middle' in the table of NVIDIA Te"):
        _chosen(17)
    # Measured at more rows, where other candidates may be: no mistake, and nothing to take.
    assert _chosen(16) == 2


def test_a_cpu_goes_by_the_rule() -> None:
    question = Question("mla_combine", SHAPE, 17)
    assert choose(question, WAYS, "few_rows", torch.device("cpu")) == 1


def test_what_is_forced_is_taken_and_what_was_asked_is_known(on_gpu: Any) -> None:
    on_gpu(GPU, {})
    with forced("mla_combine", "many_rows") as asked:
        assert _chosen(17, "few_rows") == 2
    assert asked.answers == {
        Question("mla_combine", SHAPE, 17): (("few_rows", "many_rows"), "few_rows")
    }
    with forced("mla_combine", "nothing"), pytest.raises(ValueError, match="found 'nothing'"):
        _chosen(17)
    with forced("projection", "nothing") as others:
        assert _chosen(17) == 1
    assert others.answers == {}
    with pytest.raises(ValueError, match="expected a rule among few_rows, many_rows, found 'no'"):
        _chosen(17, "no")


@pytest.mark.parametrize("architecture", ["sm_90a", "sm_103a"])
def test_every_projection_has_its_rule_among_candidates_with_room(architecture: str) -> None:
    bounds = SituBounds(4.0, 25.0)
    for shape in k3_projections(K3Dims()).values():
        situ = bounds if shape.situ else None
        for tokens in (1, 2, 3, 8, 9, 17, 33, MAX_ROWS):
            asked = Asked(shape.rows, shape.columns, tokens, situ, shape.fp32_rows)
            found = candidates(asked, architecture)
            assert rule_config(asked, architecture).name in found
            assert all(one.tokens >= tokens and one.situ == situ for one in found.values())
            assert all(name == one.name for name, one in found.items())
            wide = any(name.startswith("wide") for name in found)
            assert not wide or architecture == "sm_90a"
            assert set(tuned_configs(asked, architecture)) <= set(found)


def test_shapes_that_differ_in_what_is_compiled_have_names_of_their_own() -> None:
    bounds = SituBounds(4.0, 25.0)
    asked = [
        Asked(1536, 7168, 8),
        Asked(1536, 7168, 8, bounds),
        Asked(1536, 7168, 8, None, 112),
        Asked(1536, 7168, 8, bounds, 112),
    ]
    assert len({one.question for one in asked}) == len(asked)


CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("most", "rows", "together", "expected"),
    [
        (132, 9, 1, {66, 99, 115, 123, 126, 132}),
        (132, 64, 8, {66, 99, 115, 123, 128, 132}),
        (4, 8, 1, {2, 3, 4}),
        (1, 8, 1, {1}),
    ],
)
def test_parts_fill_the_gpu_unless_fewer_were_faster(
    most: int, rows: int, together: int, expected: set[int]
) -> None:
    with forced("mla_decode") as asked:
        assert chosen_parts(most, "bf16", rows, (12, together), CPU) == most
    ((names, rule),) = asked.answers.values()
    assert set(names) == {f"{count}_parts" for count in expected}
    assert rule == f"{most}_parts"
    for name in names:
        with forced("mla_decode", name):
            found = chosen_parts(most, "bf16", rows, (12, together), CPU)
        assert f"{found}_parts" == name


def test_what_combines_many_rows_is_taken_by_the_rule_from_17_on() -> None:
    values = config_for(K3Dims(), "parts", "values")
    assert combine_form(values, 16, 12, CPU) is None
    assert combine_form(values, 17, 12, CPU) == many_form(values)
    with forced("mla_combine", "few_rows"):
        assert combine_form(values, 17, 12, CPU) is None
    latents = config_for(K3Dims(), "parts", "latents")
    with forced("mla_combine") as asked:
        assert combine_form(latents, 64, 12, CPU) is None
    assert asked.answers == {}
