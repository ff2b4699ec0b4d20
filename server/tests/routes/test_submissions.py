import asyncio

import httpx
import pytest

from k3bundle.subject import ChangeUnderTest
from k3server.errors import ProblemFinding
from k3server.ports import Refused
from k3server_testing.example_document import EXAMPLE_FINGERPRINT, example_document
from k3server_testing.example_verdict import example_verdict
from k3server_testing.registry import PUBLIC_URL, Registry


async def test_submit_answers_what_was_verified(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    document = example_document(example_verdict("FAIL"))
    answer = await registry.submit(client, document)
    assert answer.status_code == 201
    body = answer.json()
    digest = document.bundle_sha256
    assert body["submission_id"] == body["bundle_sha256"] == digest
    assert body["url"] == f"{PUBLIC_URL}/submissions/{digest}"
    assert body["verdict"] == "FAIL"
    assert [claim["name"] for claim in body["claims"]] == [
        "isolated",
        "bounded",
        "correct",
        "faster",
    ]
    assert body["received_at_utc"] == "2026-01-02T05:00:00.000000Z"
    assert (await client.get(f"/api/v1/submissions/{digest}")).json() == body
    assert registry.verifier.asked == [document.manifest.change]


async def test_submit_again_does_not_verify_again(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    document = example_document()
    first = await registry.submit(client, document)
    second = await registry.submit(client, document)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert len(registry.verifier.asked) == 1


async def test_submit_known_archive_for_another_change_is_verified_for_that(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    document = example_document()
    first = await registry.submit(client, document)
    claim = {**document.manifest.change.model_dump(), "pull_request": 99}
    await client.post(
        "/api/v1/submissions", json={"blob_sha256": first.json()["blob_sha256"], **claim}
    )
    assert [change.pull_request for change in registry.verifier.asked] == [7, 99]


async def test_submit_refused_tells_every_finding_and_indexes_nothing(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    document = example_document()
    archive = document.bundle_sha256.encode()
    findings = (
        ProblemFinding("file-digest", "plan.json", "Expected a, found b.", "Take it again."),
        ProblemFinding("number-mismatch", "verdict.json", "Expected 1, found 2.", "Seal it."),
    )
    registry.verifier.answers[archive] = Refused("The bundle was refused", findings)
    registry.verifier.accept = lambda *_: None  # type: ignore[method-assign]
    answer = await registry.submit(client, document)
    assert answer.status_code == 422
    problem = answer.json()
    assert [finding["code"] for finding in problem["findings"]] == [
        "file-digest",
        "number-mismatch",
    ]
    assert problem["detail"] == (
        "plan.json: Expected a, found b. Take it again. This is the first of 2 findings."
    )
    assert registry.index.latest(limit=9) == ()


async def test_submit_signed_by_a_known_key_reads_signed(registry: Registry) -> None:
    registry.limit(known_signers=frozenset({EXAMPLE_FINGERPRINT}))
    async with registry.client() as client:
        answer = await registry.submit(client, example_document())
    assert answer.json()["trust"] == "signed"


async def test_submit_more_than_the_queue_holds_is_503_and_later_succeeds(
    registry: Registry,
) -> None:
    registry.limit(verify_processes=1, verify_queue=2)
    registry.verifier.pause_s = 0.2
    documents = [example_document(run_id=f"{number:032x}") for number in range(4)]
    async with registry.client() as client:
        answers = await asyncio.gather(*(registry.submit(client, each) for each in documents))
        assert sorted(answer.status_code for answer in answers) == [201, 201, 503, 503]
        busy = next(answer for answer in answers if answer.status_code == 503)
        assert busy.headers["retry-after"] == "60"
        again = [await registry.submit(client, each) for each in documents]
    assert sorted(answer.status_code for answer in again) == [200, 200, 201, 201]


async def test_read_unknown_submission_is_404(client: httpx.AsyncClient) -> None:
    for path in ("", "/bundle"):
        answer = await client.get(f"/api/v1/submissions/{'ab' * 32}{path}")
        assert answer.status_code == 404
        assert answer.json()["title"] == "There is no such submission"


async def test_download_is_an_attachment_that_no_browser_runs(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    document = example_document()
    await registry.submit(client, document)
    answer = await client.get(f"/api/v1/submissions/{document.bundle_sha256}/bundle")
    assert answer.content == document.bundle_sha256.encode()
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == (
        f'attachment; filename="example-engine-7-{document.bundle_sha256[:16]}.k3b"'
    )
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_queries_find_by_pull_request_and_commit(registry: Registry) -> None:
    registry.limit(page_size=2)
    change = ChangeUnderTest(repository="Example/Engine", pull_request=7, commit_sha="ab" * 20)
    async with registry.client() as client:
        for number in range(3):
            document = example_document(run_id=f"{number:032x}", change=change)
            await registry.submit(client, document)
        base = "/api/v1/repositories/example/engine"
        first = (await client.get(f"{base}/pulls/7")).json()
        assert len(first["submissions"]) == 2
        rest = (await client.get(f"{base}/pulls/7?before={first['next_before']}")).json()
        assert len(rest["submissions"]) == 1
        assert rest["next_before"] is None
        commit = (await client.get(f"{base}/commits/{'ab' * 20}")).json()
        assert commit == first
        assert (await client.get(f"{base}/pulls/8")).json()["submissions"] == []
        short = await client.get(f"{base}/commits/abab")
    assert short.status_code == 422
    assert "full commit SHA" in short.json()["detail"]


@pytest.mark.parametrize(
    "address",
    ["07", "7.0", "+7", "7_0", "7?before=1.0", "7?before=01", "7?before=", "7?before=1&before=2"],
)
async def test_parameter_in_another_form_or_twice_is_refused(
    client: httpx.AsyncClient, address: str
) -> None:
    answer = await client.get(f"/api/v1/repositories/example/engine/pulls/{address}")
    assert answer.status_code == 422
    (finding,) = answer.json()["findings"]
    assert finding["code"] == "request-invalid"


async def test_nonce_is_drawn_anew_and_expires(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    change = example_document().manifest.change.model_dump()
    body = {**change, "plan_sha256": "cd" * 32, "signer": EXAMPLE_FINGERPRINT}
    first = await client.post("/api/v1/nonces", json=body)
    second = await client.post("/api/v1/nonces", json=body)
    assert first.status_code == second.status_code == 201
    assert first.json()["nonce"] != second.json()["nonce"]
    assert first.json()["expires_at_utc"] == "2026-01-09T05:00:00.000000Z"


async def test_health_answers(client: httpx.AsyncClient) -> None:
    answer = await client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_unknown_address_and_method_are_problems(client: httpx.AsyncClient) -> None:
    missing = await client.get("/api/v1/nothing")
    assert missing.status_code == 404
    assert missing.headers["content-type"] == "application/problem+json"
    wrong = await client.delete("/api/v1/submissions")
    assert wrong.status_code == 405
    assert "POST" in wrong.headers["allow"]
    assert "POST" in wrong.json()["detail"]


async def test_description_lists_every_route_with_its_problems(client: httpx.AsyncClient) -> None:
    description = (await client.get("/api/v1/openapi.json")).json()
    assert set(description["paths"]) == {
        "/api/v1/submissions/{submission_id}/retraction",
        "/api/v1/board",
        "/api/v1/board/{wanted_id}/claim",
        "/api/v1/board/{wanted_id}/release",
        "/api/v1/webhooks/github",
        "/metrics",
        "/readyz",
        "/api/v1/compare/{submission_id}/{other_id}",
        "/api/v1/uploads",
        "/api/v1/uploads/{upload_id}",
        "/api/v1/uploads/{upload_id}/complete",
        "/api/v1/uploads/{upload_id}/parts/{number}",
        "/api/v1/blobs/{sha256}",
        "/api/v1/submissions",
        "/api/v1/submissions/{submission_id}",
        "/api/v1/submissions/{submission_id}/bundle",
        "/api/v1/nonces",
        "/api/v1/repositories/{owner}/{name}/pulls/{pull_request}",
        "/api/v1/repositories/{owner}/{name}/commits/{commit_sha}",
        "/healthz",
    }
    post = description["paths"]["/api/v1/submissions"]["post"]
    assert set(post["responses"]) == {
        *("200", "201"),
        *("400", "401", "403", "404", "408", "411", "413", "422", "429", "503", "507"),
    }
    schema = post["requestBody"]["content"]["application/json"]["schema"]
    assert set(schema["required"]) == {"blob_sha256", "repository", "pull_request", "commit_sha"}
