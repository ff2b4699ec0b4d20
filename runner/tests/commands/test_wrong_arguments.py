"""What a person gets wrong is a sentence at once, and no defect of k3-eval."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from k3runner.errors import MachineError, UsageError
from k3runner.registry_client import registry_client
from k3runner.reproduction import fetch_original

REGISTRY = ("--registry", "http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("status", "x" * 300, *REGISTRY), "cannot be looked at: File name too long."),
        (("submit", "x" * 300, *REGISTRY), "cannot be looked at: File name too long."),
        (("verify", "x" * 300), "cannot be looked at: File name too long."),
        (("status", "nope.k3b", *REGISTRY), "No bundle at nope.k3b."),
        (("status", "abc", *REGISTRY), "A submission's id has 64 hex digits"),
        (("status", "abc", "--registry", "http://[::1"), "The registry URL is no address"),
        (("compare", "a" * 64, "a" * 64, *REGISTRY), "Both are the same submission"),
    ],
)
def test_a_wrong_argument_is_a_sentence_at_once(
    arguments: tuple[str, ...], words: str, k3_eval: Callable[..., Any]
) -> None:
    outcome = k3_eval(*arguments)
    assert outcome.code == 2
    assert words in outcome.stderr
    assert "trying again" not in outcome.stderr


def test_resume_of_a_folder_that_is_no_run_looks_at_no_owner(
    k3_eval: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("k3runner.leftovers._owners", lambda *_: 1 / 0)
    outcome = k3_eval("resume", str(tmp_path))
    assert outcome.code == 2
    assert "is not a run folder" in outcome.stderr


class _Session:
    """A session whose every request fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def request(self, *_words: object, **_more: object) -> Any:
        raise self.error


async def _ask(error: Exception, said: list[str]) -> None:
    async def sleep(_seconds: float) -> None:
        raise asyncio.CancelledError

    async with registry_client("http://r.example", say=said.append) as client:
        client.__dict__.update(_session=_Session(error))
        object.__setattr__(client._patience, "sleep", sleep)
        await client.ask("GET", "/", "answer")


async def test_an_address_that_the_http_library_refuses_is_not_tried_again() -> None:
    said: list[str] = []
    with pytest.raises(UsageError, match="is no address that can be asked"):
        await _ask(aiohttp.InvalidURL("http://r.example"), said)
    assert said == []


async def test_a_name_that_is_not_found_is_told_in_its_own_words() -> None:
    said: list[str] = []
    cause = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    key: Any = None
    with pytest.raises(asyncio.CancelledError):
        await _ask(aiohttp.ClientConnectorDNSError(key, cause), said)
    assert "cannot be reached (name or service not known)" in said[0]


async def test_a_folder_of_runs_that_cannot_be_made_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(*_words: object) -> dict[str, str]:
        return {}

    monkeypatch.setattr("k3runner.reproduction.read_submission", read)
    (tmp_path / "file").write_text("")
    client: Any = None
    with pytest.raises(MachineError, match="cannot be made: Not a directory"):
        await fetch_original(client, "a" * 64, tmp_path / "file/runs")
