import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from k3bundle.subject import ChangeUnderTest
from k3bundle_testing.signers import example_signer
from k3runner.engine_probe import EngineProbe, EngineSilentError
from k3runner.errors import EngineError, RegistryError
from k3runner.nonce import choose_nonce
from k3runner_testing.serving import ServeFake

CHANGE = ChangeUnderTest(repository="a/b", pull_request=1, commit_sha="c" * 40)
Answer = Callable[[str, object], Awaitable[str]]


@pytest.fixture
async def answer_with() -> AsyncIterator[Answer]:
    """Serves one JSON value at one path of a POST endpoint."""
    running: list[TestServer] = []

    async def serve(path: str, value: object) -> str:
        async def handle(_: web.Request) -> web.Response:
            return web.json_response(value)

        app = web.Application()
        app.router.add_post(path, handle)
        server = TestServer(app, host="127.0.0.1")
        await server.start_server()
        running.append(server)
        return str(server.make_url("")).rstrip("/")

    yield serve
    for server in running:
        await server.close()


async def test_probe_reads_what_a_good_server_says(serve_fake: ServeFake) -> None:
    fake, url = await serve_fake(backend="candidate", chance_config=True)
    async with EngineProbe(url, 5.0) as probe:
        assert await probe.healthy()
        assert await probe.served_models() == ("k3-tiny",)
        assert await probe.version() == "0.0.fake"
        assert await probe.effective_config(("instance_id",)) == {
            "additional_config.k3decode.decode_backend": "candidate",
            "model_config.dtype": "float32",
            "model_config.max_model_len": "2048",
            "vllm_env.VLLM_USE_V1": "true",
        }
        assert await probe.reset_prefix_cache()
        assert fake.cache_resets == 1
        snapshot = await probe.coverage(
            "k3decode_coverage", boot_id="boot-0.0", cell_id="c", moment="before"
        )
        assert (snapshot.source, snapshot.configured_backend) == ("host", "candidate")
        counters = await probe.counters(boot_id="boot-0.0", cell_id="c", moment="after")
        assert counters.counters["vllm:prompt_tokens_total"] == 0.0
        assert "vllm:num_requests_running" not in counters.counters


async def test_probe_reports_as_absent_what_a_server_does_not_offer(
    serve_fake: ServeFake,
) -> None:
    _, url = await serve_fake(administrative=False)
    async with EngineProbe(url, 5.0) as probe:
        assert await probe.version() == "unknown"
        assert await probe.effective_config(()) == {}
        assert not await probe.reset_prefix_cache()
        snapshot = await probe.coverage("m", boot_id="boot-0.0", cell_id="c", moment="after")
        assert (snapshot.source, snapshot.counts) == ("unavailable", ())
        counters = await probe.counters(boot_id="boot-0.0", cell_id="c", moment="after")
        assert counters.counters == {}


async def test_probe_of_nothing_is_not_healthy() -> None:
    async with EngineProbe("http://127.0.0.1:9", 1.0) as probe:
        assert not await probe.healthy()


async def test_silence_is_an_error_and_not_an_absence() -> None:
    async with EngineProbe("http://127.0.0.1:9", 1.0) as probe:
        for ask in (
            probe.version(),
            probe.effective_config(()),
            probe.reset_prefix_cache(),
            probe.coverage("m", boot_id="boot-0.0", cell_id="c", moment="before"),
            probe.counters(boot_id="boot-0.0", cell_id="c", moment="before"),
        ):
            with pytest.raises(EngineSilentError, match="did not answer"):
                await ask


async def test_answer_that_takes_too_long_is_silence(serve_fake: ServeFake) -> None:
    _, url = await serve_fake(config_delay_s=1.0)
    async with EngineProbe(url, 0.2) as probe:
        with pytest.raises(EngineSilentError, match=r"GET /server_info.* within 0\.2 s"):
            await probe.effective_config(())
    async with EngineProbe(url, 5.0) as probe:
        assert await probe.effective_config(()) != {}


@pytest.mark.parametrize(
    "report",
    [
        "not JSON",
        json.dumps({"schema": "k3decode.coverage/2", "source": "host", "counts": []}),
        json.dumps(
            {
                "schema": "k3decode.coverage/1",
                "source": "host",
                "configured_backend": "stock",
                "counts": [{"kind": "decode", "path": "stock", "reason": None, "count": -1}],
            }
        ),
    ],
)
async def test_coverage_in_a_wrong_shape_is_an_error(answer_with: Answer, report: str) -> None:
    url = await answer_with("/collective_rpc", {"results": [report]})
    async with EngineProbe(url, 5.0) as probe:
        with pytest.raises(EngineError, match="step counts are not what is due"):
            await probe.coverage("m", boot_id="boot-0.0", cell_id="c", moment="before")


async def test_coverage_that_differs_between_ranks_is_an_error(answer_with: Answer) -> None:
    reports = [
        json.dumps(
            {
                "schema": "k3decode.coverage/1",
                "source": "host",
                "configured_backend": "stock",
                "counts": [{"kind": "decode", "path": "stock", "reason": None, "count": count}],
            }
        )
        for count in (5, 6)
    ]
    url = await answer_with("/collective_rpc", {"results": reports})
    async with EngineProbe(url, 5.0) as probe:
        with pytest.raises(EngineError, match="ranks"):
            await probe.coverage("m", boot_id="boot-0.0", cell_id="c", moment="before")


async def test_choose_nonce_takes_the_registrys(answer_with: Answer) -> None:
    url = await answer_with("/api/v1/nonces", {"nonce": "d" * 64, "expires_at_utc": "x"})
    nonce = await asyncio.to_thread(choose_nonce, url, CHANGE, "e" * 64, example_signer())
    assert (nonce.value, nonce.source) == ("d" * 64, "registry")


@pytest.mark.parametrize("answer", [{"nonce": "short"}, {}, []])
async def test_choose_nonce_that_is_none_is_refused(answer_with: Answer, answer: object) -> None:
    url = await answer_with("/api/v1/nonces", answer)
    with pytest.raises(RegistryError, match="gave no nonce"):
        await asyncio.to_thread(choose_nonce, url, CHANGE, "e" * 64, example_signer())


def test_choose_nonce_without_registry_is_local_and_new() -> None:
    first, second = (choose_nonce(None, CHANGE, "e" * 64, example_signer()) for _ in range(2))
    assert first.source == "local"
    assert first.value != second.value
