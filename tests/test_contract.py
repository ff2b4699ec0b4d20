"""What one part writes, another part reads: checked with the writers and readers themselves."""

import json
from pathlib import Path

import pytest
from aiohttp import web
from pydantic import ValidationError

from k3bundle import layout
from k3bundle.bundle import parse_records
from k3bundle.coverage import CoverageSnapshot
from k3bundle.subject import ChangeUnderTest
from k3bundle_testing import good_records, good_run_files
from k3decode.decode.coverage import Coverage
from k3house.change import parse_change
from k3house.problem import HouseError
from k3runner.engine_probe import EngineProbe
from k3runner.errors import EngineError
from k3runner.exit_code import ExitCode
from k3runner.journal import JOURNAL_FILES, Journal


async def _snapshot(answer: str) -> CoverageSnapshot:
    """What the runner records when the plugin's worker method answers with this text."""

    async def call(request: web.Request) -> web.Response:
        assert await request.json() == {"method": "k3decode_coverage"}
        return web.json_response({"results": [answer]})

    application = web.Application()
    application.router.add_post("/collective_rpc", call)
    server = web.AppRunner(application)
    await server.setup()
    site = web.TCPSite(server, "127.0.0.1", 0)
    await site.start()
    host, port = server.addresses[0][:2]
    try:
        async with EngineProbe(f"http://{host}:{port}", limit_s=10) as probe:
            return await probe.coverage(
                "k3decode_coverage", boot_id="boot-1.0", cell_id="greedy-c1", moment="after"
            )
    finally:
        await server.cleanup()


async def test_the_plugins_step_counts_become_a_record() -> None:
    counted = Coverage()
    for _ in range(3):
        counted.record("decode", "candidate", None)
    counted.record("prefill", "stock", "more than 512 tokens in one step")

    snapshot = await _snapshot(counted.to_json("candidate"))

    assert snapshot.source == "host"
    assert snapshot.configured_backend == "candidate"
    assert {(c.kind, c.path, c.reason, c.count) for c in snapshot.counts} == {
        ("decode", "candidate", None, 3),
        ("prefill", "stock", "more than 512 tokens in one step", 1),
    }


async def test_step_counts_of_another_schema_are_an_error_and_not_a_guess() -> None:
    answer = json.loads(Coverage().to_json("stock")) | {"schema": "k3decode.coverage/2"}
    with pytest.raises(EngineError, match=r"k3decode\.coverage/1"):
        await _snapshot(json.dumps(answer))


def test_lines_that_the_runner_writes_are_records_that_the_verifier_reads(tmp_path: Path) -> None:
    records = good_records()
    with Journal(tmp_path, lambda _name, record: record) as journal:
        for attempt in records.attempts:
            journal.attempt(attempt)
        for boot in records.boots:
            journal.boot(boot)
        journal.requests(records.requests)
        for snapshot in records.coverage:
            journal.coverage(snapshot)
        for counters in records.counters:
            journal.counters(counters)
        journal.telemetry(records.telemetry)
        journal.graphs(records.graphs)
        for record in records.separation:
            journal.separation(record)
        for cell in records.cells:
            journal.cell(cell)
    written = {name: (tmp_path / name).read_bytes() for name in JOURNAL_FILES}
    assert all(written[name] for name in (layout.REQUESTS, layout.TELEMETRY, layout.SEPARATION))

    files = dict(good_run_files())
    assert parse_records(files | written) == parse_records(files)


@pytest.mark.parametrize(
    ("repository", "pull_request", "commit"),
    [
        ("example/engine", "7", "a" * 40),
        ("example/engine", "0", "a" * 40),
        ("example/engine", "-1", "a" * 40),
        ("example/engine", "10000000", "a" * 40),
        ("example/engine", "10000001", "a" * 40),
        ("example/engine", "7", "abc1234"),
        ("example/engine", "7", "A" * 40),
        ("example", "7", "a" * 40),
        ("-example/engine", "7", "a" * 40),
        ("example/engine/more", "7", "a" * 40),
        ("example/engine\r", "7", "a" * 40),
        ("example/engine", "7", "a" * 40 + "\r"),
        ("example/engine", "7", "a" * 40 + "\n"),
    ],
)
def test_make_and_the_records_agree_on_what_a_change_is(
    repository: str, pull_request: str, commit: str
) -> None:
    def accepted_by_make() -> bool:
        try:
            parse_change(repository, pull_request, commit)
        except HouseError as error:
            assert error.exit_code == ExitCode.USAGE
            return False
        return True

    def accepted_by_record() -> bool:
        try:
            ChangeUnderTest(
                repository=repository, pull_request=int(pull_request), commit_sha=commit
            )
        except ValidationError:
            return False
        return True

    assert accepted_by_make() == accepted_by_record()
