from pathlib import Path

import pytest

from k3bundle.plan import FeatureCell
from k3runner.errors import MachineError
from k3runner.load.planned import plan_requests, request_body
from k3runner.prompts import Vocabulary, chat_message, sampling_seed, token_prompt
from k3runner.vocabulary import read_vocabulary

VOCABULARY = Vocabulary(first=0, size=40, special=frozenset({0, 7, 39}))
NONCE, OTHER = "a" * 64, "b" * 64


def test_token_prompt_is_the_same_on_every_machine() -> None:
    # Written down once: a change here changes every prompt of every run.
    assert token_prompt(NONCE, "cell", 0, 8, VOCABULARY) == KNOWN


def test_token_prompt_changes_with_nonce_cell_and_index() -> None:
    prompts = {
        token_prompt(nonce, cell, index, 32, VOCABULARY)
        for nonce in (NONCE, OTHER)
        for cell in ("one", "two")
        for index in (0, 1)
    }
    assert len(prompts) == 8


def test_token_prompt_avoids_special_ids_and_uses_all_others() -> None:
    drawn = set(token_prompt(NONCE, "cell", 0, 2000, VOCABULARY))
    assert drawn == set(range(40)) - {0, 7, 39}


def test_chat_message_is_words_and_depends_on_the_nonce() -> None:
    message = chat_message(NONCE, "cell", 3, words=6)
    assert len(message.split()) == 6
    assert message != chat_message(OTHER, "cell", 3, words=6)
    assert message == chat_message(NONCE, "cell", 3, words=6)


def test_sampling_seed_other_differs_and_both_fit_31_bits() -> None:
    first = sampling_seed(NONCE, "cell", 0, other=False)
    other = sampling_seed(NONCE, "cell", 0, other=True)
    assert first != other
    assert 0 <= first < 2**31 > other


def feature(name: str) -> FeatureCell:
    schema = {"type": "object"} if name == "structured_output" else None
    return FeatureCell.model_validate(
        {
            "cell_id": "cell",
            "feature": name,
            "request_count": 2,
            "output_tokens": 9,
            "json_schema": schema,
        }
    )


@pytest.mark.parametrize(
    ("name", "variants"),
    [
        ("structured_output", ["stream"] * 2),
        ("sampling", ["seeded", "seeded_repeat", "other_seed"] * 2),
        ("streaming", ["stream", "block"] * 2),
        ("chat", ["stream", "block"] * 2),
    ],
)
def test_plan_requests_feature_sends_its_variants(name: str, variants: list[str]) -> None:
    measured = plan_requests(feature(name), NONCE, VOCABULARY).measured
    assert [one.variant for one in measured] == variants


def test_request_body_structured_output_is_asked_in_both_ways() -> None:
    chat, completions = (
        request_body(one, "m")
        for one in plan_requests(feature("structured_output"), NONCE, VOCABULARY).measured
    )
    assert chat["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert completions["structured_outputs"] == {"json": {"type": "object"}}
    assert "ignore_eos" not in chat


def test_request_body_seeded_repeat_equals_seeded() -> None:
    seeded, repeat, other = (
        request_body(one, "m")
        for one in plan_requests(feature("sampling"), NONCE, VOCABULARY).measured[:3]
    )
    assert seeded == repeat
    assert {key for key in seeded if seeded[key] != other[key]} == {"seed"}
    assert seeded["temperature"] == 1.0


def test_request_body_block_asks_for_no_stream() -> None:
    stream, block = (
        request_body(one, "m")
        for one in plan_requests(feature("chat"), NONCE, VOCABULARY).measured[:2]
    )
    assert stream["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert block["stream"] is False
    assert "stream_options" not in block


def test_read_vocabulary_leaves_out_special_and_padding_ids(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"vocab_size": 100, "eos_token_id": [3, 4]}')
    (tmp_path / "generation_config.json").write_text('{"pad_token_id": 5, "temperature": 1}')
    (tmp_path / "tokenizer.json").write_text(
        '{"added_tokens": [{"id": 90}], "model": {"vocab": {"a": 0, "b": 1, "c": 2}}}'
    )
    found = read_vocabulary(tmp_path)
    assert found == Vocabulary(first=0, size=4, special=frozenset({3, 4, 5, 90}))


def test_read_vocabulary_without_size_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(MachineError, match="names no vocab_size"):
        read_vocabulary(tmp_path)


KNOWN = (22, 19, 20, 16, 25, 22, 30, 24)
