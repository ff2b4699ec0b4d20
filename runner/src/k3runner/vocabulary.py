"""Reads which token ids prompts may use from the model's folder."""

import json
from pathlib import Path
from typing import Any

from k3runner.errors import MachineError
from k3runner.prompts import Vocabulary

__all__ = ["EXTERNAL_VOCABULARY", "read_vocabulary"]

EXTERNAL_VOCABULARY = Vocabulary(first=128, size=1000, special=frozenset())
"""For a server whose model folder is not known: ids that practically every vocabulary has."""


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
    # Padding rows of the embedding have no text; prompts stay inside the tokenizer.
    known = len(words) if isinstance(words, dict | list) and words else size
    return Vocabulary(
        first=0,
        size=min(size, known + len(tokenizer.get("added_tokens", []))),
        special=frozenset(one for one in special if isinstance(one, int)),
    )


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise MachineError(f"{path} is not JSON: {error}.", "Make the model again.") from error
    return found if isinstance(found, dict) else {}
