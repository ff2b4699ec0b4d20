"""Which token ids prompts may use."""

import json
from pathlib import Path

from k3runner.vocabulary import read_vocabulary


def _model(folder: Path, vocab: object, **config: object) -> Path:
    (folder / "config.json").write_text(json.dumps({"vocab_size": 64, **config}))
    tokenizer = {"model": {"vocab": vocab}, "added_tokens": [{"id": 0}]}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


def test_ids_that_are_part_of_a_character_are_left_out(tmp_path: Path) -> None:
    # "é" is the bytes C3 A9, which byte-level BPE writes as the letters Ã and ©; Ġ is a space.
    words = {"<s>": 0, "a": 1, "Ã": 2, "©": 3, "Ã©": 4, "ĠÃ": 5, "Ġhe": 6, "<0x41>": 7, "<0xE4>": 8}
    vocabulary = read_vocabulary(_model(tmp_path, words))
    assert vocabulary.special == {0, 2, 3, 5, 8}
    assert vocabulary.size == len(words) + 1


def test_words_that_are_no_bytes_are_text(tmp_path: Path) -> None:
    words = {"<s>": 0, "日本": 1, "\N{LOWER ONE EIGHTH BLOCK}the": 2}
    assert read_vocabulary(_model(tmp_path, words, eos_token_id=[2])).special == {0, 2}


def test_special_ids_of_every_file_are_left_out(tmp_path: Path) -> None:
    folder = _model(tmp_path, [["a", 0.0], ["b", 0.0]], pad_token_id=9)
    (folder / "generation_config.json").write_text('{"eos_token_id": [5, 6]}')
    assert read_vocabulary(folder).special == {0, 5, 6, 9}
