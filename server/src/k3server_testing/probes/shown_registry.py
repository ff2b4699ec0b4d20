"""A registry that has something on every page."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import httpx

from k3bundle.canonical import sha256_hex
from k3bundle_testing.example_plan import EXAMPLE_CHANGE
from k3bundle_testing.sealing import sealed_archive
from k3server.account_ports import Scope
from k3server.adapters.sql.accounts import SqlAccounts
from k3server.adapters.sql.database import Database
from k3server.bearer import make_token
from k3server.cli import main as registry_command
from k3server_testing.process import RegistryProcess

__all__ = ["make_token_for", "shown_ids", "shown_pages"]

_SCOPES: Final[tuple[Scope, ...]] = ("submit", "claim", "moderate")
_CHANGE: Final = EXAMPLE_CHANGE.model_dump()
_PULL: Final = f"/{EXAMPLE_CHANGE.repository}/pull/{EXAMPLE_CHANGE.pull_request}"
_COMMIT: Final = f"/{EXAMPLE_CHANGE.repository}/commit/{EXAMPLE_CHANGE.commit_sha}"


class _Contributor:
    """Sends to one registry with one token."""

    def __init__(self, client: httpx.Client, token: str) -> None:
        self._client = client
        self._headers = {"Authorization": f"Bearer {token}"}

    def submit(self, *, anonymous: bool = False, **run: Any) -> str:
        """Send a made-up run; returns the submission's id."""
        archive = sealed_archive(**run)
        digest = sha256_hex(archive)
        self._client.put(f"/api/v1/blobs/{digest}", content=archive).raise_for_status()
        answer = self._client.post(
            "/api/v1/submissions",
            json={"blob_sha256": digest, **_CHANGE},
            headers={} if anonymous else self._headers,
        )
        answer.raise_for_status()
        found: str = answer.json()["submission_id"]
        return found

    def post(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send something else with the token."""
        answer = self._client.post(path, json=body, headers=self._headers)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found


@contextmanager
def shown_pages(folder: Path, token: str) -> Iterator[dict[str, str]]:
    """Name -> address of every page, while a registry in `folder` is at work.

    Args:
        folder: The data folder; made here.
        token: Text of a token with all scopes, which `folder` knows.
    """
    with RegistryProcess(folder) as registry, registry.client() as client:
        lab = _Contributor(client, token)
        passed = lab.submit()
        again = lab.submit(run_id="2" * 32, resumed=True)
        failed = lab.submit(run_id="3" * 32, greedy_differs=True)
        stock = lab.submit(run_id="4" * 32, candidate_path="stock")
        cut = lab.submit(run_id="5" * 32, missing_slots=(2,))
        standard = lab.submit(run_id="6" * 32, tier="standard", candidate_speed=1.3)
        nobody = lab.submit(run_id="7" * 32, anonymous=True)
        hidden = lab.submit(run_id="8" * 32)
        lab.post(f"/api/v1/submissions/{cut}/retraction", {"reason": "The wrong driver was used."})
        why = "--reason=A person looks at it first."
        registry_command(["decide", f"--data={folder}", "quarantine", hidden, why])
        for number, tier in enumerate(("full", "standard", "quick")):
            wanted = lab.post(
                "/api/v1/board",
                {**_CHANGE, "tier": tier, "subject": "k3-nvfp4", "note": "On a GB300, please."},
            )
            if number:
                lab.post(f"/api/v1/board/{wanted['wanted_id']}/claim")
        plan = client.get(f"/submissions/{passed}").text.split("/configurations/")[1][:64]
        paths = {
            "front": "/",
            "pull": _PULL,
            "commit": _COMMIT,
            "submission-pass": f"/submissions/{passed}",
            "submission-fail": f"/submissions/{failed}",
            "submission-invalid": f"/submissions/{stock}",
            "submission-retracted": f"/submissions/{cut}",
            "submission-standard": f"/submissions/{standard}",
            "submission-playground": f"/submissions/{nobody}",
            "compare": f"/compare/{passed}/{again}",
            "compare-disagree": f"/compare/{passed}/{failed}",
            "compare-incomparable": f"/compare/{passed}/{standard}",
            "configuration": f"/configurations/{plan}",
            "board": "/board",
            "playground": "/playground",
            "search": "/search",
            "search-found": f"/search?q={EXAMPLE_CHANGE.repository}",
            "search-nothing": "/search?q=nothing-like-it",
            "problem-missing": "/submissions/" + "0" * 64,
            "problem-quarantined": f"/submissions/{hidden}",
            "problem-invalid": "/submissions/short",
        }
        yield {name: registry.url + path for name, path in paths.items()}


@contextmanager
def shown_ids(folder: Path, token: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Address of a registry in `folder`, and ids of things that are there, by parameter.

    Args:
        folder: The data folder.
        token: Text of a token with all scopes, which `folder` knows.
    """
    # Deliveries are taken, so that one without a signature is refused for that.
    command = ("env", "GITHUB_WEBHOOK_SECRET=of-a-test", sys.executable, "-m", "k3server.cli")
    with (
        RegistryProcess(folder, "--behind-proxy", command=command) as registry,
        registry.client() as client,
    ):
        lab = _Contributor(client, token)
        one, other = lab.submit(), lab.submit(run_id="2" * 32)
        wanted = lab.post("/api/v1/board", {**_CHANGE, "tier": "full", "subject": "k3-nvfp4"})
        upload = lab.post("/api/v1/uploads", {"blob_sha256": "0" * 64, "size_bytes": 40_000_000})
        owner, _, name = EXAMPLE_CHANGE.repository.partition("/")
        yield (
            registry.url,
            {
                "submission_id": one,
                "other_id": other,
                "wanted_id": str(wanted["wanted_id"]),
                "upload_id": str(upload["upload_id"]),
                "owner": owner,
                "name": name,
            },
        )


def make_token_for(folder: Path) -> str:
    """Text of a new token with all scopes; makes the folder, whose registry will know it."""
    folder.mkdir(parents=True)
    database = Database.in_file(folder / "registry.sqlite3")
    text, token = make_token(
        "lab",
        _SCOPES,
        organisation=None,
        now=datetime.now(UTC),
        lifetime=timedelta(days=1),
        draw_hex=token_hex,
    )
    SqlAccounts(database).add(token, "operator:test")
    database.close()
    return text
