"""What the layer bench works out on paper: bytes, intervals, draws, clocks, spans."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from k3decode.decode.layer_weights import DecodeLayer
from k3decode.decode.packing import pack_layer
from k3decode.decode.random_weights import random_layer
from k3decode.decode.shard import shard_dims
from k3decode.dims import K3Dims
from k3decode.layer_bench.clocks import summary
from k3decode.layer_bench.draws import TraceError, drawn_experts, traced_experts
from k3decode.layer_bench.layer_bytes import StepShape, layer_bytes
from k3decode.layer_bench.pairs import median_interval, per_layer_us
from k3decode.layer_bench.stacks import stack_dims
from k3decode.layer_bench.timeline import named_spans, shares
from k3decode.ops.experts.packing import PackedExperts

CPU = torch.device("cpu")
DIMS = K3Dims(
    num_hidden_layers=8,
    hidden_size=256,
    num_attention_heads=2,
    q_lora_rank=64,
    dense_intermediate_size=128,
    num_experts=8,
    num_experts_per_token=2,
    latent_size=512,
    expert_intermediate_size=192,
    shared_intermediate_size=64,
)
# Norms and biases are not counted: a few KB.
UNCOUNTED = {"direction", "output_norm", "query_norm", "latent_norm", "correction_bias", "a_log"}
UNCOUNTED |= {"o_norm"}


def _weight_bytes(part: object) -> int:
    total = 0
    for field in dataclasses.fields(part):  # type: ignore[arg-type]
        value = getattr(part, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, PackedExperts):
            total += _weight_bytes(value)
        if isinstance(value, torch.Tensor) and field.name not in UNCOUNTED:
            total += value.numel() * value.element_size()
    return total


@pytest.mark.parametrize("number", [0, 1, 3])
def test_bytes_of_weights_are_those_of_the_packed_tensors(number: int) -> None:
    tensors, experts = random_layer(DIMS, number, 0, CPU)
    layer: DecodeLayer = pack_layer(tensors, experts, DIMS, number)
    counted = layer_bytes(DIMS, number, StepShape(0, 0), distinct_experts=0)
    padding = 0 if DIMS.is_mla(number) else 2 * 256 * (layer.attention.in_proj.shape[0] - 1154)
    assert counted == _weight_bytes(layer) - padding


def test_bytes_of_an_expert_are_those_of_its_packed_share() -> None:
    tensors, experts = random_layer(DIMS, 1, 0, CPU)
    packed = pack_layer(tensors, experts, DIMS, 1).feed_forward.experts  # type: ignore[union-attr]
    stored = sum(
        getattr(packed, f.name).numel()
        for f in dataclasses.fields(packed)
        if isinstance(getattr(packed, f.name), torch.Tensor)
    )
    one, none = (layer_bytes(DIMS, 1, StepShape(0, 0), distinct_experts=n) for n in (1, 0))
    assert one - none == stored // DIMS.num_experts


def test_floor_of_the_mix_is_that_of_the_specification() -> None:
    """One row: 68 us for three KDA and one MLA layer that read everything whole, 16 experts."""
    dims = shard_dims(K3Dims(), 8)
    step = StepShape(requests=1, context=1024)
    moved = [layer_bytes(dims, i, step, distinct_experts=16) for i in (4, 5, 6, 7)]
    assert sum(moved) / 4 / 4.3e6 == pytest.approx(67.7, abs=0.2)


def test_a_rank_with_peers_reads_its_own_rows_only() -> None:
    """One row: 45.8 us for KDA with MoE, 39.0 for MLA with MoE at 1024 tokens."""
    dims = shard_dims(K3Dims(), 8)
    step = StepShape(requests=1, context=1024, peers_of=8)
    for number, floor in ((1, 45.8), (3, 39.0)):
        moved = layer_bytes(dims, number, step, distinct_experts=16)
        assert moved / 4.3e6 == pytest.approx(floor, abs=0.2)


def test_drafts_write_a_state_each() -> None:
    one, two = (layer_bytes(DIMS, 1, StepShape(1, 8, tokens=t), distinct_experts=0) for t in (1, 2))
    assert two - one == 2 * 128 * 128 * 4 + 2 * 3 * 256


def test_an_uneven_shard_is_refused() -> None:
    with pytest.raises(ValueError, match="divides num_attention_heads, dense_inter"):
        shard_dims(K3Dims(), 7)


def test_the_interval_encloses_the_median_of_most_samples() -> None:
    generator = torch.Generator().manual_seed(0)
    inside = 0
    for _ in range(400):
        low, high = median_interval(torch.randn(40, generator=generator).tolist())
        inside += low <= 0.0 <= high
    assert 0.93 <= inside / 400 <= 0.99


def test_few_values_have_no_interval() -> None:
    with pytest.raises(ValueError, match="at least six values for an interval, found 5"):
        median_interval([1.0] * 5)


def test_a_layer_is_the_difference_of_pairs() -> None:
    shallow = [100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0]
    deep = [one + 160.0 for one in shallow]
    layer = per_layer_us(deep, shallow, 16)
    assert (layer.median_us, layer.low_us, layer.high_us) == (10.0, 10.0, 10.0)


@pytest.mark.parametrize("draw", ["uniform", "skewed"])
def test_a_row_draws_no_expert_twice(draw: str) -> None:
    experts, weights = drawn_experts(draw, (3, 64, 16), 896, seed=1)  # type: ignore[arg-type]
    assert experts.dtype == torch.int32 and int(experts.max()) < 896
    assert bool((experts.sort(-1).values.diff(dim=-1) > 0).all())
    assert torch.allclose(weights.sum(-1), torch.ones(3, 64))


def test_a_skewed_draw_has_fewer_experts() -> None:
    uniform, skewed = (
        drawn_experts(d, (1, 64, 16), 896, seed=2)[0].unique().numel()
        for d in ("uniform", "skewed")
    )
    assert 580 <= uniform <= 640
    assert skewed < 0.7 * uniform


def test_a_trace_gives_rows_that_follow_each_other(tmp_path: Path) -> None:
    path, layers = tmp_path / "trace.jsonl", []
    for layer in range(2):
        layers.append([[(7 * i + layer + j) % 32 for j in range(3)] for i in range(9)])
        with path.open("a") as file:
            file.write(json.dumps({"layer": layer, "experts": layers[-1]}) + "\n")
    experts, weights = traced_experts(path, (3, 4, 3), 32, seed=5)
    first = layers[0].index(experts[0, 0].tolist())
    for i, taken in enumerate(experts.tolist()):
        assert taken == layers[i % 2][first : first + 4]
    assert torch.allclose(weights.sum(-1), torch.ones(3, 4))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{}", "line 1: expected {\"layer\": ...*found '{}'"),
        ('{"layer": 0, "experts": [[1, 1]]}', "rows of 2 different experts below 8"),
        ('{"layer": 0, "experts": [[1, 8]]}', "rows of 2 different experts below 8"),
        ('{"layer": 0, "experts": [[1, 2]]}', "at least 2 rows in every layer, found 1 in one"),
        ("", "at least 2 rows in every layer, found 0 in one"),
    ],
)
def test_a_wrong_trace_is_refused(tmp_path: Path, line: str, sentence: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(line)
    with pytest.raises(TraceError, match=sentence.replace("{", "[{]").replace("...*", ".*")):
        traced_experts(path, (1, 2, 2), 8, seed=0)


@pytest.mark.parametrize(
    ("stack", "mla", "dense"),
    [("kda_dense", 0, 30), ("kda_moe", 0, 0), ("mla_moe", 30, 0), ("mix", 7, 1)],
)
def test_layers_of_a_stack_are_of_its_kind(stack: str, mla: int, dense: int) -> None:
    dims = stack_dims(K3Dims(), stack)  # type: ignore[arg-type]
    assert sum(dims.is_mla(i) for i in range(30)) == mla
    assert sum(dims.is_dense(i) for i in range(30)) == dense


def test_clocks_are_summed_up_and_unreadable_lines_counted() -> None:
    lines = ["1980, 3201, 500.1, 40, 0x0000000000000000", "1755, 3201, 690, 50, 0x4", "[N/A]", ""]
    found = summary(lines)
    assert found["sm_clock_mhz"] == [1755.0, 1867.5, 1980.0]
    assert found["event_reasons"] == ["0x0000000000000000", "0x4"]
    assert (found["samples"], found["unread_lines"]) == (2, 2)
    assert summary(["no"]) == {"samples": 0, "unread_lines": 1}


def test_spans_take_the_names_of_the_launches_in_order() -> None:
    names = [("a", 0), ("b", 0)]
    events = [
        {"ts": 0.0, "dur": 4.0},
        {"ts": 3.0, "dur": 3.0},
        {"ts": 20.0, "dur": 5.0},
        {"ts": 26.0, "dur": 1.0},
    ]
    replays = named_spans(events[::-1], names)
    assert [[span.launch for span in one] for one in replays] == [["a", "b"], ["a", "b"]]
    assert shares(replays) == {"a.0": (4.5, 4.5, 0.0), "b.0": (2.0, 2.0, 0.5)}
