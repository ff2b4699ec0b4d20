"""What whoever looks after a registry, and its clients' caches, rely on."""

import json
import re
from pathlib import Path

import httpx
import jsonschema
import pytest

from k3server.openapi_export import main
from k3server.ports import StoreUnavailableError
from k3server_testing.example_document import example_document
from k3server_testing.memory_store import MemoryStore
from k3server_testing.registry import Registry

DESCRIPTION = Path(__file__).parents[2] / "openapi.json"


class AbsentStore(MemoryStore):
    def size(self, sha256: str) -> int | None:
        del sha256
        raise StoreUnavailableError("The object store does not answer.")


async def test_metrics_count_requests_by_method_and_status(client: httpx.AsyncClient) -> None:
    for _ in range(3):
        await client.get("/api/v1/submissions/" + "0" * 64)
    await client.put("/api/v1/blobs/" + "0" * 64, content=b"x")
    text = (await client.get("/metrics")).text
    assert 'k3_registry_requests_total{method="GET",status="404"} 3\n' in text
    assert 'k3_registry_requests_total{method="PUT",status="422"} 1\n' in text
    assert 'k3_registry_request_seconds_count{method="GET"} 3\n' in text
    assert "k3_registry_outbox_waiting 0\n" in text
    counts = re.findall(r'seconds_bucket\{method="GET",le="[^"]+"\} (\d+)', text)
    assert [int(each) for each in counts] == sorted(int(each) for each in counts)
    for line in text.splitlines():
        assert re.fullmatch(r'#.*|[a-z0-9_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? \S+', line)


async def test_ready_needs_the_store_and_healthy_does_not(registry: Registry) -> None:
    registry.store = AbsentStore()
    async with registry.client() as client:
        ready, healthy = await client.get("/readyz"), await client.get("/healthz")
    assert (ready.status_code, healthy.status_code) == (503, 200)
    assert ready.headers["retry-after"] == "5"


@pytest.mark.parametrize("page", ["/", "/submissions/{}", "/api/v1/submissions/{}", "/feed.atom"])
async def test_answer_that_the_client_has_is_not_sent_again(
    client: httpx.AsyncClient, registry: Registry, page: str
) -> None:
    made = (await registry.submit(client, example_document())).json()
    address = page.format(made["submission_id"])
    first = await client.get(address)
    tag = first.headers["etag"]
    again = await client.get(address, headers={"If-None-Match": f'"x", W/{tag}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == tag
    other = await client.get(address, headers={"If-None-Match": '"other"'})
    assert (other.status_code, other.content) == (200, first.content)


async def test_tag_changes_with_the_content(client: httpx.AsyncClient, registry: Registry) -> None:
    before = (await client.get("/")).headers["etag"]
    await registry.submit(client, example_document())
    assert (await client.get("/")).headers["etag"] != before


async def test_download_keeps_the_tag_of_its_archive(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    made = (await registry.submit(client, example_document())).json()
    url = f"/api/v1/submissions/{made['submission_id']}/bundle"
    tag = f'"{made["blob_sha256"]}"'
    assert (await client.get(url)).headers["etag"] == tag
    assert (await client.get(url, headers={"If-None-Match": tag})).status_code == 304


async def test_problems_have_no_tag(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/v1/submissions/" + "0" * 64)
    assert "etag" not in answer.headers


def test_committed_description_is_what_the_routes_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(DESCRIPTION), "--check"]) == 0
    changed = tmp_path / "openapi.json"
    changed.write_text(DESCRIPTION.read_text().replace('"3.1.0"', '"3.0.0"'))
    assert main([str(changed), "--check"]) == 1
    assert "make schema" in capsys.readouterr().err


async def test_description_refers_to_records_that_it_has(client: httpx.AsyncClient) -> None:
    text = (await client.get("/api/v1/openapi.json")).text
    described = (await client.get("/api/v1/openapi.json")).json()["components"]["schemas"]
    named = set(re.findall(r"#/components/schemas/(\w+)", text))
    assert "ProblemAnswer" in named
    assert named <= set(described)


async def test_host_header_reaches_no_page(client: httpx.AsyncClient, registry: Registry) -> None:
    made = (await registry.submit(client, example_document())).json()
    for page in ("/", f"/submissions/{made['submission_id']}", "/feed.atom", "/board"):
        answer = await client.get(page, headers={"Host": "evil.example"})
        assert answer.status_code == 200
        assert "evil.example" not in answer.text + str(answer.headers)


def test_every_json_body_has_an_example_that_fits_its_schema() -> None:
    described = json.loads(DESCRIPTION.read_text())
    bodies = [
        operation["requestBody"]["content"]["application/json"]
        for path in described["paths"].values()
        for operation in path.values()
        if "application/json" in operation.get("requestBody", {}).get("content", {})
    ]
    assert len(bodies) == 5
    for body in bodies:
        jsonschema.validate(body["example"], body["schema"])


async def test_every_answer_and_body_in_json_has_an_example_that_fits(
    client: httpx.AsyncClient,
) -> None:
    description = (await client.get("/api/v1/openapi.json")).json()
    checked = 0
    for operations in description["paths"].values():
        for operation in operations.values():
            body = operation.get("requestBody", {"content": {}})
            for where in (body, *operation["responses"].values()):
                for kind, content in where.get("content", {}).items():
                    if "json" not in kind:
                        continue
                    schema = {**content["schema"], "components": description["components"]}
                    jsonschema.Draft202012Validator(schema).validate(content["example"])
                    checked += 1
    assert checked > 100
    problem = description["paths"]["/api/v1/nonces"]["post"]["responses"]["411"]
    assert problem["content"]["application/problem+json"]["example"]["status"] == 411


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        (f"/api/v1/blobs/{'0' * 64}", "HEAD, PUT"),
        ("/api/v1/board", "GET, POST"),
        ("/api/v1/nonces", "POST"),
        ("/board", "GET, HEAD"),
    ],
)
async def test_another_method_is_told_all_that_there_are(
    client: httpx.AsyncClient, path: str, methods: str
) -> None:
    answer = await client.request("DELETE", path)
    assert (answer.status_code, answer.headers["allow"]) == (405, methods)
    assert f"Expected {methods}, found another request." in answer.text
