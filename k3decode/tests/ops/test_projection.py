"""Reference, choice of a variant, refusals, and the lane mapping that the kernel rests on."""

from typing import Any

import pytest
import torch
from torch import Tensor

from k3decode.difference import relative_error
from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS, KernelInputError
from k3decode.ops.dense_mlp.reference import situ
from k3decode.ops.projection.cases import CASES
from k3decode.ops.projection.config import ProjectionConfig, SituBounds
from k3decode.ops.projection.launch import project
from k3decode.ops.projection.reference import (
    interleave_gate_up,
    projection,
    projection_situ,
)
from k3decode.ops.projection.shapes import ProjectionShape, k3_projections
from k3decode.ops.projection.tiles import TABLE, config_for

BF16 = torch.bfloat16
SHAPES = k3_projections(K3Dims())
# Streaming multiprocessors of an H200; a tile beyond them waits for a second wave.
MULTIPROCESSORS = 132
_SHARED_BYTES_OF_A_MULTIPROCESSOR = 228 * 1024


def test_projection_is_a_sum_over_columns() -> None:
    activation = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    weight = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])
    assert projection(activation, weight).tolist() == [[1.0, 2.0, -1.0], [3.0, 4.0, -1.0]]


def test_projection_situ_of_interleaved_rows_is_situ_of_two_projections() -> None:
    generator = torch.Generator().manual_seed(0)
    gate, up = (torch.randn(5, 8, generator=generator, dtype=torch.float64) for _ in range(2))
    x = torch.randn(3, 8, generator=generator, dtype=torch.float64)
    found = projection_situ(x, interleave_gate_up(gate, up), 4.0, 25.0, torch.float64)
    assert relative_error(found, situ(x @ gate.T, x @ up.T, 4.0, 25.0)) < 1e-15


def test_shapes_are_those_of_the_specification() -> None:
    rows = {name: (shape.rows, shape.columns) for name, shape in SHAPES.items()}
    assert rows["tp8_kda_in"] == (6288, 7168)
    assert rows["tp16_kda_in"] == (3216, 7168)
    assert rows["tp8_mla_in"] == (3648, 7168)
    assert rows["tp16_mla_in"] == (2880, 7168)
    assert rows["tp16_q_b"] == (1152, 1536)
    assert rows["tp8_router_latent"] == (560, 7168)
    assert rows["tp16_router_latent"] == (288, 7168)
    assert rows["tp16_shared_down"] == (7168, 384)
    assert rows["tp8_lm_head"] == (20480, 7168)
    assert rows["whole_router_latent"] == (4480, 7168)
    assert rows["whole_latent_up"] == (7168, 3584)


def _multiply_like_the_hardware(a: Tensor, b: Tensor) -> Tensor:
    """m16n8k16 from the registers of 32 lanes: a [32, 4, 2], b [32, 2, 2]; returns [16, 8].

    The positions of the values are those of the instruction's documentation.
    """
    rows, columns = torch.zeros(16, 16), torch.zeros(16, 8)
    for lane in range(32):
        group, pair = lane // 4, lane % 4
        for register in range(4):
            for j in range(2):
                row = group + 8 * (register % 2)
                rows[row, 2 * pair + 8 * (register // 2) + j] = a[lane, register, j]
        for register in range(2):
            for j in range(2):
                columns[2 * pair + 8 * register + j, group] = b[lane, register, j]
    return rows @ columns


def test_lanes_with_consecutive_columns_give_the_product_of_a_unit() -> None:
    """Lane 4 g + t takes columns 8 t to 8 t + 7 of rows g and g + 8, and of token g."""
    generator = torch.Generator().manual_seed(1)
    weight = torch.randint(-4, 5, (16, 64), generator=generator).float()
    tokens = torch.randint(-4, 5, (8, 64), generator=generator).float()
    total = torch.zeros(16, 8)
    for half in range(2):
        words = slice(32 * half, 32 * half + 32)
        low = weight[:8, words].reshape(8, 4, 4, 2)
        high = weight[8:, words].reshape(8, 4, 4, 2)
        own = tokens[:, words].reshape(8, 4, 4, 2)
        for step in range(2):
            registers = [low[:, :, 2 * step], high[:, :, 2 * step]]
            registers += [low[:, :, 2 * step + 1], high[:, :, 2 * step + 1]]
            a = torch.stack([part.reshape(32, 2) for part in registers], dim=1)
            b = own[:, :, 2 * step : 2 * step + 2].reshape(32, 2, 2)
            total += _multiply_like_the_hardware(a, b)
    assert torch.equal(total, weight @ tokens.T)


@pytest.mark.parametrize("name", SHAPES)
def test_every_projection_has_a_variant_whose_ctas_all_run_at_once(name: str) -> None:
    shape = SHAPES[name]
    bounds = SituBounds(4.0, 25.0) if shape.situ else None
    for tokens in range(1, MAX_ROWS + 1):
        config = config_for(shape.rows, shape.columns, tokens, bounds)
        assert config.tokens >= tokens
        assert (config.situ is not None) == shape.situ
        beside = _SHARED_BYTES_OF_A_MULTIPROCESSOR // (config.shared_bytes + 2048)
        ctas = -(-shape.rows // config.tile_rows) * config.split
        # The table is for shards; weights of the whole model run in several waves.
        assert name.startswith("tp1_") or ctas <= MULTIPROCESSORS * beside


def test_every_row_of_the_table_is_taken_by_a_production_case() -> None:
    taken = set()
    for case in CASES:
        if case.group == "production":
            name, tokens = case.name.rsplit("_m", 1)
            shape = SHAPES[name]
            taken.add(_row_for(shape.rows, shape.columns, int(tokens)))
    assert taken == set(range(len(TABLE)))


def _row_for(rows: int, columns: int, tokens: int) -> int:
    return next(
        place for place, row in enumerate(TABLE) if tokens <= row.tokens and row.fits(rows, columns)
    )


def _config(**changes: Any) -> ProjectionConfig:
    values: dict[str, Any] = {
        "tokens": 8,
        "blocks": 1,
        "warps_n": 2,
        "warps_k": 4,
        "stages": 3,
        "split": 1,
        "phase_units": 8,
    }
    return ProjectionConfig(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tokens": 12}, "multiple of 8 tokens, found 12"),
        ({"warps_n": 12}, "found 48 and 1"),
        ({"split": 9}, "found 8 and 9"),
        ({"stages": 1}, "found 1 and 8"),
        ({"phase_units": 9}, "found 3 and 9"),
        ({"phase_units": 112, "tokens": 64}, "fewer stages or shorter phases"),
    ],
)
def test_config_refuses_what_the_kernel_cannot_hold(changes: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        _config(**changes)


def test_config_counts_its_shared_memory() -> None:
    config = _config()
    ring = 8 * 3 * 16 * 64 * 2
    activations = 2 * 8 * (8 * 64 + 32) * 2
    assert config.shared_bytes == ring + activations
    assert _config(phase_units=4, stages=2, tokens=64).shared_bytes >= 4 * 64 * (32 + 4) * 4


def _arguments(rows: int = 16, columns: int = 64, tokens: int = 2) -> dict[str, Tensor]:
    return {
        "activation": torch.zeros(tokens, columns, dtype=BF16),
        "weight": torch.zeros(rows, columns, dtype=BF16),
        "out": torch.zeros(tokens, rows, dtype=BF16),
    }


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"weight": torch.zeros(16, 64)}, "weight: expected torch.bfloat16, found torch.float32"),
        (
            {"weight": torch.zeros(64, 16, dtype=BF16).T},
            "weight: expected stride 1 on axis 1, found 16",
        ),
        (
            {"weight": torch.zeros(16, 60, dtype=BF16)[:, :64]},
            r"weight: expected shape \[16, 64\], found \[16, 60\]",
        ),
        (
            {"activation": torch.zeros(2, 65, dtype=BF16)[:, 1:]},
            "activation: expected a stride that is a multiple of 8 on axis 0, found 65",
        ),
        (
            {"activation": torch.zeros(2 * 72, dtype=BF16)[4 : 4 + 128].view(2, 64)},
            "activation: expected a first element aligned to 16 bytes",
        ),
        ({"out": torch.zeros(2, 16)}, "out: expected torch.bfloat16, found torch.float32"),
        ({"out": None}, "out: expected 16 columns, found None"),
        (
            {"fp32_out": torch.zeros(2, 4)},
            "fp32_out: expected columns in a multiple of 8 up to 16, found 4",
        ),
        ({"situ": SituBounds(4.0, 25.0)}, r"out: expected shape \[2, 8\], found \[2, 16\]"),
        (
            {"situ": SituBounds(4.0, 25.0), "fp32_out": torch.zeros(2, 8)},
            "fp32_out: expected columns in a multiple of 8 up to 0, found 8",
        ),
        (
            {"plain_rows": 8},
            "plain_rows: expected a multiple of 8 with SiTU and 0 without, found 8",
        ),
        ({}, "activation: expected a CUDA device, found cpu"),
    ],
)
def test_project_refuses_in_words(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(KernelInputError, match=sentence):
        project(**{**_arguments(), **changes})


def test_project_names_everything_that_is_wrong() -> None:
    with pytest.raises(KernelInputError) as refusal:
        project(**_arguments(rows=12, columns=96, tokens=65))
    text = str(refusal.value)
    assert text.startswith("projection: ")
    assert f"expected 1 to {MAX_ROWS} rows, found 65" in text
    assert "expected columns in a multiple of 64, found 96" in text
    assert "expected rows in a multiple of 8, found 12" in text


def test_a_shape_that_is_no_k3_shape_has_a_variant() -> None:
    for rows, columns in ((8, 64), (40, 192), (1 << 17, 4096)):
        for tokens in (1, 2, 5, 64):
            assert config_for(rows, columns, tokens, None).tokens >= tokens
    assert ProjectionShape(8, 64).fp32_rows == 0
