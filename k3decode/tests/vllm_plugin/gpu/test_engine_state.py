from types import SimpleNamespace

import torch

from k3decode.vllm_plugin.gpu.engine_state import AttentionLayer, engine_step, layer_states

from .fake_engine import kda_metadata, mla_metadata

ROWS = 3
PAGES = torch.tensor([5, 2, 0], dtype=torch.int32)
LENGTHS = torch.tensor([9, 4, 0], dtype=torch.int32)
TABLE = torch.tensor([[1, 2], [3, 0], [0, 0]], dtype=torch.int32)
SLOTS = torch.tensor([8, 3, -1, 77])


def _layers() -> list[AttentionLayer]:
    # Pages are further apart than their content, as where both kinds of cache share pages.
    pool = torch.zeros(6, 4096)
    taps = pool.view(torch.bfloat16)[:, : 3 * 96].unflatten(1, (3, 96))
    memory = pool[:, 1024 : 1024 + 2 * 16 * 16].unflatten(1, (2, 16, 16))
    kda = SimpleNamespace(prefix="a", in_proj_qkvgfab=None, kv_cache=[taps, memory])
    mla = SimpleNamespace(layer_name="b", kv_cache=torch.zeros(6, 8, 40))
    return [AttentionLayer(0, kda), AttentionLayer(1, mla)]


def test_state_is_the_engines_own_memory() -> None:
    layers = _layers()
    metadata = {"a": kda_metadata(PAGES), "b": mla_metadata(TABLE, LENGTHS)}
    states = layer_states(layers, metadata, {"b": SLOTS}, ROWS)
    taps, memory = layers[0].module.kv_cache
    assert states[0].kda_taps[0] is taps and states[0].kda_memory[0] is memory
    assert states[0].kda_slots.shape == (ROWS, 1)
    assert states[0].kda_slots.data_ptr() == PAGES.data_ptr()
    assert states[1].mla_pages[1] is layers[1].module.kv_cache
    assert states[1].table.data_ptr() == TABLE.data_ptr()
    assert states[1].lengths.data_ptr() == LENGTHS.data_ptr()
    assert states[1].cache_slots.tolist() == [8, 3, -1]


def test_a_step_is_told_by_its_metadata() -> None:
    layers = _layers()

    def step(metadata: object, rows: int = ROWS) -> tuple[str, bool]:
        found = engine_step(layers, metadata, rows, piecewise=False, given=False)
        return found.kind, found.one_row_each

    mla = mla_metadata(TABLE, LENGTHS)
    assert step({"a": kda_metadata(PAGES), "b": mla}) == ("decode", True)
    assert step({"a": kda_metadata(PAGES, prompts=1), "b": mla}) == ("mixed", True)
    assert step({"a": kda_metadata(PAGES, prompts=3), "b": mla}) == ("prefill", True)
    assert step({"a": kda_metadata(PAGES, drafts=3), "b": mla}) == ("verify", True)
    assert step({"a": kda_metadata(PAGES), "b": mla}, rows=4) == ("decode", False)
    # Attention reads short prompts as if they were decode steps: more rows than requests.
    mla.num_decode_tokens = 7
    assert step({"a": kda_metadata(PAGES), "b": mla}) == ("decode", False)
    assert step({"a": kda_metadata(PAGES)}) == ("dummy", True)
    assert step(None) == ("dummy", True)
