"""Reads which token ids prompts may use from the model's folder.

Ids whose text is only a part of a character are left out: where a prompt ends in the middle of one,
vLLM 0.32's detokenizer streams the text of the prompt in front of the answer, in every arm.
"""

import json
import re
from pathlib import Path
from typing import Any

from k3runner.errors import MachineError
from k3runner.prompts import Vocabulary

__all__ = ["EXTERNAL_VOCABULARY", "read_vocabulary"]

EXTERNAL_VOCABULARY = Vocabulary(first=128, size=1000, special=frozenset())
"""For a server whose model folder is not known: ids that practically every vocabulary has."""
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


def read_vocabulary(model_folder: Path) -> Vocabulary:
    """Reads the vocabulary of a model folder.

    Args:
        model_folder: Folder with `config.json` and, where there is one, `tokenizer.json`.

    Raises:
        MachineError: The configuration names no vocabulary size.
    """
    config = _read(model_folder / "config.json")
    size = config.get("vocab_size") or config.get("text_config", {}).get("vocab_size")
    if not isinstance(size, int):
        raise MachineError(
            f"{model_folder / 'config.json'} names no vocab_size.", "Use a complete model folder."
        )
    special: set[int] = set()
    for name in ("config.json", "generation_config.json"):
        for key, value in _read(model_folder / name).items():
            if key.endswith("token_id"):
                special.update(value if isinstance(value, list) else [value])
    tokenizer = _read(model_folder / "tokenizer.json")
    special.update(token["id"] for token in tokenizer.get("added_tokens", []))
    words = tokenizer.get("model", {}).get("vocab")
    special.update(_partial_characters(words))
    # Padding rows of the embedding have no text; prompts stay inside the tokenizer.
    known = len(words) if isinstance(words, dict | list) and words else size
    return Vocabulary(
        first=0,
        size=min(size, known + len(tokenizer.get("added_tokens", []))),
        special=frozenset(one for one in special if isinstance(one, int)),
    )


def _partial_characters(words: object) -> set[int]:
    """Ids whose bytes are no whole characters, in vocabularies that name bytes.

    Args:
        words: `model.vocab` of a tokenizer.json: text -> id where texts are known, byte for byte in
            the printable letters of byte-level BPE, or `<0xE4>` for a single byte.
    """
    if not isinstance(words, dict):
        return set()
    byte_of = _byte_letters()
    return {
        token
        for word, token in words.items()
        if isinstance(token, int) and not _is_whole(_bytes_of(word, byte_of))
    }


def _bytes_of(word: str, byte_of: dict[str, int]) -> bytes:
    if _BYTE.fullmatch(word):
        return bytes.fromhex(word[3:5])
    if all(letter in byte_of for letter in word):
        return bytes(byte_of[letter] for letter in word)
    return word.encode("utf-8", "replace")


def _is_whole(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _byte_letters() -> dict[str, int]:
    """The printable letter of each byte in byte-level BPE: itself where it is printable."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(256 + place): byte for place, byte in enumerate(others)}


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise MachineError(f"{path} is not JSON: {error}.", "Make the model again.") from error
    return found if isinstance(found, dict) else {}
