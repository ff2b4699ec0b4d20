"""Real bundles through the real verifier's process, real store and real index."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from k3bundle import layout
from k3bundle.archive import archive_bytes
from k3bundle.bundle import parse_records
from k3bundle.canonical import sha256_hex
from k3bundle.derive import derive
from k3bundle.plan import TierName
from k3bundle.seal import assemble, bundle_sha256
from k3bundle_testing import good_run_files
from k3bundle_testing.example_plan import EXAMPLE_CHANGE, example_plan
from k3bundle_testing.sealing import SEALED_AT_UTC, sealed_archive, sealed_bundle
from k3bundle_testing.signers import example_signer, signer_fingerprint

CLAIM = EXAMPLE_CHANGE.model_dump()


async def put(client: httpx.AsyncClient, archive: bytes) -> httpx.Response:
    return await client.put(f"/api/v1/blobs/{sha256_hex(archive)}", content=archive)


async def submit(client: httpx.AsyncClient, archive: bytes, **changes: Any) -> httpx.Response:
    body = {"blob_sha256": sha256_hex(archive), **CLAIM, **changes}
    return await client.post("/api/v1/submissions", json=body)


async def codes_of_refusal(client: httpx.AsyncClient, archive: bytes, **changes: Any) -> set[str]:
    assert (await put(client, archive)).status_code == 201
    answer = await submit(client, archive, **changes)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["title"] == "The bundle was refused"
    assert problem["findings"]
    latest = await client.get("/")
    assert "Nothing has been submitted yet" in latest.text
    return {finding["code"] for finding in problem["findings"]}


@pytest.mark.parametrize("tier", ["smoke", "standard"])
async def test_submit_of_a_tier_without_its_gates_is_refused_with_the_gate(
    tier: TierName, real_client: httpx.AsyncClient
) -> None:
    plan = example_plan(tier=tier)
    gates = plan.gates.model_copy(update={"maximum_error_rate": 0.5})
    archive = sealed_archive(tier=tier, plan=plan.model_copy(update={"gates": gates}))
    assert await codes_of_refusal(real_client, archive) == {"plan-digest-mismatch"}
    answer = await submit(real_client, archive)
    assert "maximum_error_rate is 0.5" in answer.json()["detail"]


async def test_submit_good_bundle_is_indexed_and_shown(real_client: httpx.AsyncClient) -> None:
    files = sealed_bundle()
    archive = archive_bytes(files)
    assert (await put(real_client, archive)).status_code == 201
    answer = await submit(real_client, archive)
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert body["submission_id"] == bundle_sha256(files)
    assert body["verdict"] == json.loads(files[layout.VERDICT])["status"]
    assert body["trust"] == "self-reported"
    assert body["nonce"] == "local"
    page = await real_client.get(f"/submissions/{body['submission_id']}")
    assert page.status_code == 200
    assert signer_fingerprint() in page.text
    download = await real_client.get(f"/api/v1/submissions/{body['submission_id']}/bundle")
    assert download.content == archive
    assert download.headers["content-disposition"].startswith("attachment; ")


async def test_submit_again_is_the_same_submission(real_client: httpx.AsyncClient) -> None:
    archive = sealed_archive()
    assert (await put(real_client, archive)).status_code == 201
    first = await submit(real_client, archive)
    assert (await put(real_client, archive)).status_code == 200
    second = await submit(real_client, archive)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()


async def test_submit_at_once_makes_one_submission(real_client: httpx.AsyncClient) -> None:
    archive = sealed_archive()
    puts = await asyncio.gather(*(put(real_client, archive) for _ in range(4)))
    assert sorted(answer.status_code for answer in puts) == [200, 200, 200, 201]
    posts = await asyncio.gather(*(submit(real_client, archive) for _ in range(3)))
    assert sorted(answer.status_code for answer in posts) == [200, 200, 201]
    assert len({answer.text for answer in posts}) == 1


async def test_submit_flipped_byte_names_the_damage(real_client: httpx.AsyncClient) -> None:
    archive = bytearray(sealed_archive())
    archive[len(archive) // 2] ^= 1
    codes = await codes_of_refusal(real_client, bytes(archive))
    assert codes & {"archive-framing", "file-digest"}


async def test_submit_edited_headline_number_is_refused(real_client: httpx.AsyncClient) -> None:
    codes = await codes_of_refusal(real_client, forged_archive())
    assert "number-mismatch" in codes


async def test_submit_for_another_pull_request_is_refused(real_client: httpx.AsyncClient) -> None:
    codes = await codes_of_refusal(real_client, sealed_archive(), pull_request=8)
    assert codes == {"change-mismatch"}


async def test_submit_archive_that_is_no_bundle_is_refused(real_client: httpx.AsyncClient) -> None:
    codes = await codes_of_refusal(real_client, b"This is a letter, not a bundle.")
    assert codes == {"archive-framing"}


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"commit_sha": "c0ffee"}, "request-invalid", "full commit SHA of 40"),
        ({"repository": "no-slash"}, "request-invalid", "owner/name"),
        ({"pull_request": 0}, "request-invalid", "from 1 to"),
        ({"pull_request": "7"}, "request-invalid", "'7' (1 characters)"),
        ({"surprise": 1}, "request-invalid", "only known fields"),
    ],
)
async def test_submit_malformed_claim_is_a_sentence(
    client: httpx.AsyncClient, changes: dict[str, Any], code: str, words: str
) -> None:
    answer = await submit(client, b"x", **changes)
    assert answer.status_code == 422
    (finding,) = answer.json()["findings"]
    assert finding["code"] == code
    assert finding["where"] == next(iter(changes))
    assert words in finding["why"]


async def test_submit_unknown_blob_says_to_send_it_first(client: httpx.AsyncClient) -> None:
    answer = await submit(client, b"never sent")
    assert answer.status_code == 404
    assert f"PUT /api/v1/blobs/{sha256_hex(b'never sent')}" in answer.json()["detail"]


async def test_submit_nonce_issued_here_counts_once(real_client: httpx.AsyncClient) -> None:
    plan_digest = json.loads(sealed_bundle()[layout.RUN])["plan_sha256"]
    asked = await real_client.post(
        "/api/v1/nonces",
        json={**CLAIM, "plan_sha256": plan_digest, "signer": signer_fingerprint()},
    )
    assert asked.status_code == 201
    nonce = asked.json()["nonce"]
    standings = []
    for run_id in ("ab" * 16, "cd" * 16):
        archive = sealed_archive(nonce=nonce, nonce_source="registry", run_id=run_id)
        assert (await put(real_client, archive)).status_code == 201
        answer = await submit(real_client, archive)
        assert answer.status_code == 201, answer.text
        standings.append(answer.json()["nonce"])
    assert standings == ["issued-here", "reused"]
    pages = await real_client.get(f"/submissions/{answer.json()['submission_id']}")
    assert "nonce: issued here, but already used by another bundle" in pages.text


def forged_archive() -> bytes:
    """A better headline number, with every digest and the signature made to fit."""
    files = good_run_files()
    records = parse_records(files)
    verdict = derive(records)
    first = verdict.headline[0]
    better = first.model_copy(update={"value": first.value / 2 + 0.25})
    forged = verdict.model_copy(update={"headline": (better, *verdict.headline[1:])})
    return archive_bytes(assemble(files, records, forged, example_signer(), SEALED_AT_UTC))
