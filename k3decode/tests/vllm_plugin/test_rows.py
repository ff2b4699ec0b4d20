"""Reading batch metadata; the engine's own object is stood in for by a bare namespace."""

from types import SimpleNamespace

import torch

from k3decode.decode.facts import StepFacts
from k3decode.vllm_plugin.rows import read_rows, step_facts


def metadata(**changes: object) -> SimpleNamespace:
    fields: dict[str, object] = {
        "num_spec_decodes": 0,
        "non_spec_query_start_loc": None,
        "non_spec_state_indices_tensor": None,
        "non_spec_token_indx": None,
        "has_initial_state": None,
        "spec_query_start_loc": None,
        "spec_state_indices_tensor": None,
        "spec_token_indx": None,
        "num_accepted_tokens": None,
    }
    return SimpleNamespace(**{**fields, **changes})


def test_decode_rows_form_one_run() -> None:
    rows = read_rows(
        metadata(
            non_spec_query_start_loc=torch.tensor([0, 1, 2, 3]),
            non_spec_state_indices_tensor=torch.tensor([7, 5, 9]),
        )
    )
    (run,) = rows.plain
    assert run.rows.tolist() == [[0], [1], [2]]
    assert run.pages.tolist() == [7, 5, 9]
    assert run.fresh.tolist() == [False] * 3
    assert step_facts(rows) == StepFacts(decode_requests=3)


def test_prompts_and_decodes_are_told_apart() -> None:
    rows = read_rows(
        metadata(
            non_spec_query_start_loc=torch.tensor([0, 1, 2, 6, 10]),
            non_spec_state_indices_tensor=torch.tensor([7, 5, 9, 4]),
            has_initial_state=torch.tensor([True, False, False, True]),
        )
    )
    single, chunks = rows.plain
    assert single.fresh.tolist() == [False, True]
    assert chunks.rows.tolist() == [[2, 3, 4, 5], [6, 7, 8, 9]]
    assert chunks.fresh.tolist() == [True, False]
    assert step_facts(rows) == StepFacts(decode_requests=1, prompt_requests=3, prompt_rows=9)


def test_padding_requests_are_left_out() -> None:
    rows = read_rows(
        metadata(
            non_spec_query_start_loc=torch.tensor([0, 1, 1, 1]),
            non_spec_state_indices_tensor=torch.tensor([7, 0, 0]),
        )
    )
    assert [run.pages.tolist() for run in rows.plain] == [[7]]
    assert step_facts(rows) == StepFacts(decode_requests=1)


def test_verify_rows_load_the_last_accepted_page_and_keep_each_state() -> None:
    rows = read_rows(
        metadata(
            num_spec_decodes=2,
            spec_query_start_loc=torch.tensor([0, 3, 6]),
            spec_state_indices_tensor=torch.tensor([[10, 11, 12, 13], [20, 21, 22, 23]]),
            spec_token_indx=torch.arange(6),
            num_accepted_tokens=torch.tensor([1, 3]),
        )
    )
    (run,) = rows.verify
    assert rows.plain == ()
    assert run.source_pages.tolist() == [10, 22]
    assert run.target_pages.tolist() == [[10, 11, 12], [20, 21, 22]]
    assert step_facts(rows) == StepFacts(verify_requests=2, verify_rows=6, longest_draft=2)


def test_mixed_rows_are_found_through_the_index() -> None:
    rows = read_rows(
        metadata(
            num_spec_decodes=2,
            non_spec_query_start_loc=torch.tensor([0, 2]),
            non_spec_state_indices_tensor=torch.tensor([30]),
            non_spec_token_indx=torch.tensor([3, 4]),
            has_initial_state=torch.tensor([False]),
            spec_query_start_loc=torch.tensor([0, 3, 4]),
            spec_state_indices_tensor=torch.tensor([[10, 11, 12], [20, 21, 22]]),
            spec_token_indx=torch.tensor([0, 1, 2, 5]),
            num_accepted_tokens=torch.tensor([2, 1]),
        )
    )
    assert [run.rows.tolist() for run in rows.plain] == [[[3, 4]]]
    assert [run.rows.tolist() for run in rows.verify] == [[[0, 1, 2]], [[5]]]
    assert step_facts(rows) == StepFacts(
        decode_requests=1,
        verify_requests=1,
        verify_rows=3,
        longest_draft=2,
        uniform_verify=False,
        prompt_requests=1,
        prompt_rows=2,
    )
