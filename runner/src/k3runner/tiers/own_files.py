"""Reads the prompts and the trace that a tier is to be run with."""

from collections.abc import Mapping
from pathlib import Path

from k3bundle.canonical import sha256_hex
from k3runner.errors import UsageError
from k3runner.load.prompt_file import FilePrompt, parse_prompts
from k3runner.tiers.loading import Tier, load_tier
from k3runner.tiers.own_load import with_prompts, with_trace

__all__ = ["load_tier_with", "read_prompts"]


def load_tier_with(name: str, prompts: Path | None, trace: Path | None) -> Tier:
    """Loads a tier by name, with prompts or a trace of one's own.

    Args:
        name: Name of the tier.
        prompts: File that prompts of serving cells come from; None: made from the nonce.
        trace: Trace that one more serving cell replays; None: none does.

    Raises:
        UsageError: The tier does not exist, or a file is not there or not what is due.
    """
    tier = load_tier(name)
    if prompts is not None:
        tier = with_prompts(tier, _read(prompts), prompts.name)
    if trace is not None:
        tier = with_trace(tier, _read(trace), trace.name)
    return tier


def read_prompts(path: Path | None) -> Mapping[str, tuple[FilePrompt, ...]]:
    """Digest of the file -> its prompts; nothing where no file is given.

    Raises:
        UsageError: It is not there or not what is due.
    """
    if path is None:
        return {}
    content = _read(path)
    return {sha256_hex(content): parse_prompts(content, path.name)}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.", "Give the path of a file."
        ) from error
