"""What a contributor asks a registry about: a submission, two of them, a thing on its board.

Answers come from elsewhere: they are read field by field, and texts are made visible.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from k3runner.errors import RegistryError, UsageError
from k3runner.registry_answer import error_of, object_of
from k3runner.registry_client import RegistryClient
from k3runner.visible import one_line

__all__ = [
    "change_claim",
    "download",
    "full_id",
    "read_comparison",
    "read_submission",
    "text_of",
    "texts_of",
    "wanted_id",
]

_OK: Final = 200
_ID: Final = re.compile(r"[0-9a-f]{64}")
_WANTED_ID: Final = re.compile(r"[0-9a-f]{16}")
_LONGEST: Final = 500
_MOST: Final = 200
_ANSWER: Final = "answer"


@dataclass(frozen=True)
class _Field:
    """A field that an answer must have, and what it must be."""

    name: str
    kind: type


_SUBMISSION: Final = (
    *(
        _Field(name, str)
        for name in (
            *("submission_id", "url", "repository", "commit_sha", "verdict", "sentence", "trust"),
            *("space", "state", "nonce"),
        )
    ),
    _Field("pull_request", int),
)
_COMPARISON: Final = (
    *(_Field(name, bool) for name in ("comparable", "agree", "independent")),
    *(_Field(name, list) for name in ("reasons", "disagreements", "cells", "ratios")),
    *(_Field(name, dict) for name in ("one", "other")),
)
_WANTED: Final = (
    *(_Field(name, str) for name in ("wanted_id", "repository", "tier", "subject", "state")),
    _Field("pull_request", int),
)


def full_id(text: str) -> str:
    """Return `text` when it is the whole id of a submission.

    Raises:
        UsageError: It is not.
    """
    if not _ID.fullmatch(text):
        raise UsageError(
            f"A submission's id has 64 hex digits, found `{one_line(text, 80)}`.",
            "Take it from the address of the submission's page, or from `k3-eval submit --json`.",
        )
    return text


def wanted_id(text: str) -> str:
    """Return `text` when it is the id of a thing on the board.

    Raises:
        UsageError: It is not.
    """
    if not _WANTED_ID.fullmatch(text):
        raise UsageError(
            f"A thing on the board has an id of 16 hex digits, found `{one_line(text, 80)}`.",
            "Take it from the registry's page /board.",
        )
    return text


async def read_submission(client: RegistryClient, submission_id: str) -> Mapping[str, Any]:
    """One submission.

    Raises:
        RegistryError: There is none, it is quarantined, or the registry cannot be reached.
    """
    return await _read(client, "GET", f"/api/v1/submissions/{submission_id}", _SUBMISSION)


async def read_comparison(client: RegistryClient, one: str, other: str) -> Mapping[str, Any]:
    """Two submissions side by side, or why they are not.

    Raises:
        RegistryError: One is not there, or the registry cannot be reached.
    """
    return await _read(client, "GET", f"/api/v1/compare/{one}/{other}", _COMPARISON)


async def change_claim(
    client: RegistryClient, wanted: str, act: Literal["claim", "release"]
) -> Mapping[str, Any]:
    """Claim a thing on the board, or give the claim back.

    Raises:
        RegistryError: It is not there, somebody else has it, the token may not, or the registry
            cannot be reached.
    """
    return await _read(client, "POST", f"/api/v1/board/{wanted}/{act}", _WANTED)


async def download(client: RegistryClient, submission: Mapping[str, Any], path: Path) -> None:
    """Write the archive of a submission to a file; the bytes must have the digest it names.

    Raises:
        RegistryError: It cannot be had, or other bytes came.
    """
    where = f"/api/v1/submissions/{submission['submission_id']}/bundle"
    answer = await client.ask("GET", where, "send the bundle", follow=True)
    if answer.status != _OK:
        raise error_of(answer.status, answer.body, client.registry)
    found = hashlib.sha256(answer.body).hexdigest()
    if found != submission.get("blob_sha256"):
        raise RegistryError(
            f"The registry at {client.registry} sent an archive with SHA-256 {found}, which is "
            "not the one that its submission names.",
            "Try again; tell the registry's operator if it stays.",
        )
    path.write_bytes(answer.body)


async def _read(
    client: RegistryClient, method: str, path: str, fields: tuple[_Field, ...]
) -> Mapping[str, Any]:
    answer = await client.ask(method, path, _ANSWER)
    if answer.status != _OK:
        raise error_of(answer.status, answer.body, client.registry)
    found = object_of(answer.body)
    lacking = [each.name for each in fields if not isinstance(found.get(each.name), each.kind)]
    if lacking:
        raise RegistryError(
            f"The answer of the registry at {client.registry} lacks {', '.join(lacking)}.",
            "Check that the address is a k3-eval registry of the same version.",
        )
    return found


def text_of(found: Mapping[str, Any], name: str) -> str:
    """A field as visible text on one line; empty where it is not there."""
    value = found.get(name)
    return "" if value is None else one_line(str(value), _LONGEST)


def texts_of(found: Mapping[str, Any], name: str) -> list[str]:
    """A list of texts, each visible and on one line."""
    return [one_line(str(each), _LONGEST) for each in found[name][:_MOST]]
