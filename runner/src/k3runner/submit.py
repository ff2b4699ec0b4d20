"""HTTP client of a registry: sends a bundle once, however often it has to try.

Every step may be repeated without harm: a blob is addressed by its digest, and a submission is
unique by the digest of its bundle. So a lost answer, a restart of the registry and a second
`k3-eval submit` all end in one submission.
"""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from k3bundle.subject import ChangeUnderTest
from k3runner.errors import RegistryError
from k3runner.parts_upload import PARTS_ABOVE_BYTES, upload_in_parts
from k3runner.registry_answer import error_of, object_of, refusal_of
from k3runner.registry_client import (
    TAKE,
    Answer,
    Patience,
    RegistryClient,
    TryAgainError,
    registry_client,
)
from k3runner.visible import one_line

__all__ = ["Receipt", "Sender", "file_sha256", "submit_bundle"]

_CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class Sender:
    """Who sends a bundle; nothing of it is in the bundle."""

    token: str | None = None
    """API token or identity token; None: none is sent."""
    github_account: str | None = None
    """Account that publishes the signing key; None: none is named."""


@dataclass(frozen=True)
class Receipt:
    """What a registry says about an accepted submission."""

    submission_id: str
    url: str
    bundle_sha256: str
    verdict: str
    trust: str
    already_there: bool

    def as_json(self) -> dict[str, Any]:
        """Return the receipt as JSON values."""
        return asdict(self)


async def submit_bundle(
    bundle: Path,
    registry: str,
    change: ChangeUnderTest,
    *,
    say: Callable[[str], None],
    patience: Patience | None = None,
    sender: Sender | None = None,
) -> Receipt:
    """Upload a bundle if the registry lacks it, submit it, and return the receipt.

    Args:
        bundle: The sealed bundle's file; it is only read.
        registry: Base URL, without a trailing slash.
        change: The change that the bundle is evidence for.
        say: Gets a sentence for each step and each new attempt.
        patience: How long to try.
        sender: Who sends it; None: nobody says so.

    Raises:
        RefusedError: The registry refused the bundle; its findings are in the error.
        RegistryError: The registry cannot be reached or answers with an error.
    """
    who = sender or Sender()
    digest = await asyncio.to_thread(file_sha256, bundle)
    async with registry_client(registry, say=say, patience=patience, token=who.token) as client:
        await _upload(client, bundle, digest)
        return await _submit(client, digest, change, who.github_account)


async def _upload(client: RegistryClient, bundle: Path, digest: str) -> None:
    """Make the registry hold the blob."""
    path = f"/api/v1/blobs/{digest}"
    size = bundle.stat().st_size

    async def once() -> bool:
        # Asked before every attempt: an upload whose answer was lost is there already.
        if (await client.request("HEAD", path)).status == 200:  # noqa: PLR2004
            return True
        with bundle.open("rb") as file:
            answer = await client.request("PUT", path, data=file)
        if answer.status in (200, 201):
            return False
        if answer.status == 422:  # noqa: PLR2004
            raise TryAgainError("the bytes changed on the way to the registry")
        raise error_of(answer.status, answer.body, client.registry)

    if size > PARTS_ABOVE_BYTES:
        there = await upload_in_parts(client, bundle, digest, size)
    else:
        there = await client.patiently(once, TAKE)
    client.say("The registry has the bundle already." if there else "Uploaded the bundle.")


async def _submit(
    client: RegistryClient, digest: str, change: ChangeUnderTest, account: str | None
) -> Receipt:
    """Register the uploaded blob as a submission."""
    body = {"blob_sha256": digest, **change.model_dump(mode="json")}
    if account is not None:
        body["github_account"] = account
    answer = await client.ask("POST", "/api/v1/submissions", TAKE, json=body)
    if answer.status in (200, 201):
        return _receipt(answer, client.registry)
    if answer.status == 422:  # noqa: PLR2004
        raise refusal_of(answer.body)
    raise error_of(answer.status, answer.body, client.registry)


def _receipt(answer: Answer, registry: str) -> Receipt:
    found = object_of(answer.body)
    keys = ("submission_id", "url", "bundle_sha256", "verdict", "trust")
    values = {key: found.get(key) for key in keys}
    lacking = [key for key, value in values.items() if not isinstance(value, str)]
    if lacking:
        raise RegistryError(
            f"The registry at {registry} accepted the bundle, but its answer lacks "
            f"{', '.join(lacking)}.",
            "Check that the address is a k3-eval registry of the same version.",
        )
    return Receipt(
        **{key: one_line(str(value), 500) for key, value in values.items()},
        already_there=answer.status == 200,  # noqa: PLR2004
    )


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, as hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
