"""References of MLA's kernels against the model's reference, and costs against tensor sizes."""

import pytest
import torch

from k3decode.difference import relative_error
from k3decode.dims import K3Dims
from k3decode.formats import pack_e4m3
from k3decode.ops.mla.case_inputs import PageLayout, paged_rows
from k3decode.ops.mla.reference import MlaWeights, absorb_queries, mla_absorbed, mla_project
from k3decode.ops.mla_combine.cost import mla_combine_cost
from k3decode.ops.mla_combine.launch import config_for as combine_config
from k3decode.ops.mla_combine.reference import combine, lift_and_gate
from k3decode.ops.mla_decode.cost import mla_decode_cost
from k3decode.ops.mla_decode.launch import config_for
from k3decode.ops.mla_decode.reference import attend, attend_rounded
from k3decode.ops.mla_prepare.reference import prepare_rows
from k3decode.ops.mla_query.reference import absorb
from k3decode.tolerance import judge_e4m3

HIDDEN, HEADS, RANK, LATENT, NOPE, SHARED, VALUE = 24, 3, 8, 32, 4, 16, 5


def weights_of(generator: torch.Generator) -> MlaWeights:
    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64) / shape[-1] ** 0.5

    return MlaWeights(
        in_proj=draw(RANK + LATENT + SHARED + HEADS * VALUE, HIDDEN),
        q_a_layernorm=1 + draw(RANK),
        q_b_proj=3 * draw(HEADS * (NOPE + SHARED), RANK),
        kv_a_layernorm=1 + draw(LATENT),
        kv_b_proj=3 * draw(HEADS * (NOPE + VALUE), LATENT),
        o_proj=draw(HIDDEN, HEADS * VALUE),
        num_heads=HEADS,
        nope=NOPE,
        scale=(NOPE + SHARED) ** -0.5,
        norm_eps=1e-5,
    )


def test_the_chain_of_the_kernels_is_one_step_of_the_model() -> None:
    generator = torch.Generator().manual_seed(0)
    weights = weights_of(generator)
    x = torch.randn(1, HIDDEN, generator=generator, dtype=torch.float64)
    cache = torch.randn(50, LATENT + SHARED, generator=generator, dtype=torch.float64)
    expected, rows = mla_absorbed(x, weights, cache)

    projection = x @ weights.in_proj.T
    prepared = prepare_rows(projection, weights.q_a_layernorm, weights.kv_a_layernorm, SHARED, 1e-5)
    assert relative_error(torch.cat([cache, prepared.row]), rows) < 1e-12
    query = (prepared.query @ weights.q_b_proj.T).view(1, HEADS, -1)
    absorbed = absorb(query, weights.key_up())
    assert relative_error(absorbed, absorb_queries(mla_project(x, weights).query, weights)) < 1e-12
    # In three parts of unequal length, as splits or as ranks would have it.
    found = [attend(absorbed[0], part, LATENT, weights.scale) for part in rows.split([7, 40, 4])]
    whole = combine(
        torch.stack([one.latents for one in found]), torch.stack([one.lse for one in found])
    )
    gate = projection[0, RANK + LATENT + SHARED :]
    gated = lift_and_gate(whole.latents, weights.value_up(), gate, rounded=False)
    assert relative_error(gated @ weights.o_proj.T, expected[0]) < 1e-12


def test_combine_gives_zeros_without_tokens_and_ignores_empty_partials() -> None:
    latents = torch.tensor([[[1.0, 2.0]], [[torch.nan, torch.nan]]])
    lse = torch.tensor([[0.5], [-torch.inf]])
    found = combine(latents, lse)
    assert torch.equal(found.latents, latents[0])
    assert torch.equal(found.lse, lse[0])
    for empty in (combine(latents[1:], lse[1:]), combine(latents[:0], lse[:0])):
        assert torch.equal(empty.latents, torch.zeros(1, 2))
        assert torch.equal(empty.lse, torch.tensor([-torch.inf]))


@pytest.mark.parametrize(("dtype", "bound"), [(torch.bfloat16, 2.0**-8), (torch.float16, 2.0**-11)])
def test_rounded_shares_are_within_their_format(dtype: torch.dtype, bound: float) -> None:
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(4, 48, generator=generator)
    rows = torch.rand(300, 48, generator=generator)
    exact = attend(query.double(), rows.double(), 32, 0.2)
    rounded = attend_rounded(query, rows, 32, 0.2, dtype)
    error = (rounded.latents - exact.latents).abs() / exact.latents
    assert 0 < float(error.max()) < bound
    assert relative_error(rounded.lse, exact.lse) < 1e-6


def test_a_cache_of_cases_traps_everything_that_is_no_token() -> None:
    generator = torch.Generator().manual_seed(2)
    pages, table = paged_rows([40, 0, 16], PageLayout(16, 32), 8, "bf16", generator)
    assert pages.stride(0) == 16 * 8 + 32
    used = [int(page) for page in (*table[0, :3], table[2, 0])]
    assert len(set(used)) == 4
    assert bool(pages[used[:2]].isfinite().all())
    assert bool(pages[used[2], :8].isfinite().all())
    assert bool(pages[used[2], 8:].isnan().all())
    others = [page for page in range(pages.shape[0]) if page not in used]
    assert others
    assert bool(pages[others].isnan().all())
    assert bool((table[1].abs() == 1 << 30).all())


def test_codes_next_to_the_right_one_are_wrong() -> None:
    values = torch.linspace(-500, 500, 64, dtype=torch.float64)[None]
    rounded = values.to(torch.bfloat16)
    codes = pack_e4m3(rounded.float(), 0.5)
    right = judge_e4m3("x", codes, reference=values, same_dtype=rounded, scale=0.5)
    assert right.passed
    wrong = codes.clone()
    wrong[0, 20] -= 1
    assert not judge_e4m3("x", wrong, reference=values, same_dtype=rounded, scale=0.5).passed


def test_costs_are_the_bytes_of_the_tensors() -> None:
    config = config_for(K3Dims(), "e4m3")
    cost = mla_decode_cost(
        config, lengths=[100, 0], visible=[100, 0], heads=6, page_tokens=64, pieces=2
    )
    queries = torch.empty(2, 6, config.width, dtype=torch.uint8).nbytes
    assert cost.read_bytes == 100 * config.width + queries + 4 * (2 + 2)
    assert cost.write_bytes == torch.empty(2, 6, config.latent + 1).nbytes
    values = combine_config(K3Dims(), "parts", "values")
    read = mla_combine_cost(values, 3, 6, partials=9).read_bytes
    up = torch.empty(6, values.value, values.latent, dtype=torch.bfloat16).nbytes
    gate = torch.empty(3, 6, values.value, dtype=torch.bfloat16).nbytes
    assert read == torch.empty(9, 6, values.latent + 1).nbytes + up + gate
