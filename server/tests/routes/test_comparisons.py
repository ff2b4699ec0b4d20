import httpx

from k3bundle.subject import ChangeUnderTest
from k3server.document import SubmissionDocument
from k3server_testing.example_document import example_document
from k3server_testing.registry import Registry

ONE = example_document(run_id="1" * 32)
TWO = example_document(run_id="2" * 32)


def elsewhere() -> SubmissionDocument:
    document = example_document(run_id="3" * 32)
    environment = document.environment.model_copy(update={"cpu_model": "Another CPU <b>"})
    return document.model_copy(update={"environment": environment})


async def pair(
    client: httpx.AsyncClient, registry: Registry, *documents: SubmissionDocument
) -> str:
    for document in documents:
        assert (await registry.submit(client, document)).status_code == 201
    return "/".join(document.bundle_sha256 for document in documents)


async def test_compare_shows_both_with_every_cell_and_ratio(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    ids = await pair(client, registry, ONE, TWO)
    answer = (await client.get(f"/api/v1/compare/{ids}")).json()
    assert (answer["comparable"], answer["reasons"], answer["agree"]) == (True, [], True)
    assert answer["independent"] is False
    assert {cell["one"] for cell in answer["cells"]} == {"PASS", "SKIPPED"}
    assert answer["ratios"][0]["one"] == answer["ratios"][0]["other"]
    page = await client.get(f"/compare/{ids}")
    assert page.status_code == 200
    assert "serving-isl16-osl8-c2" in page.text
    assert "They agree within the stated margin" in page.text


async def test_compare_refuses_incomparable_ones_and_says_why(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    ids = await pair(client, registry, ONE, elsewhere())
    answer = (await client.get(f"/api/v1/compare/{ids}")).json()
    assert answer["comparable"] is False
    (reason,) = answer["reasons"]
    assert reason.startswith("The machines differ: ")
    assert answer["cells"] == answer["ratios"] == []
    page = (await client.get(f"/compare/{ids}")).text
    assert "These submissions cannot be compared" in page
    assert "Another CPU &lt;b&gt;" in page
    assert "serving-isl16-osl8-c2" not in page


async def test_compare_with_an_unknown_submission_is_404(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    await pair(client, registry, ONE)
    for prefix in ("/compare", "/api/v1/compare"):
        answer = await client.get(f"{prefix}/{ONE.bundle_sha256}/{'0' * 64}")
        assert answer.status_code == 404


async def test_configuration_shows_every_run_of_a_plan_and_neighbours_to_compare(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    other_commit = ChangeUnderTest(
        repository="example/engine", pull_request=9, commit_sha="cd" * 20
    )
    later = example_document(run_id="4" * 32, change=other_commit)
    await pair(client, registry, ONE, TWO, elsewhere(), later)
    plan = ONE.manifest.run.plan_sha256
    page = (await client.get(f"/configurations/{plan}")).text
    for document in (ONE, TWO, later):
        assert document.bundle_sha256 in page
    assert f"/compare/{TWO.bundle_sha256}/{later.bundle_sha256}" in page
    assert f"/compare/{ONE.bundle_sha256}/{TWO.bundle_sha256}" in page
    assert elsewhere().bundle_sha256 + "/" not in page
    assert (await client.get(f"/configurations/{'0' * 64}")).status_code == 404
