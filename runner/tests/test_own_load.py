"""Prompts and traces of one's own, from the flags to the bundle."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from k3bundle.canonical import sha256_hex
from k3bundle.plan import ServingCell
from k3bundle.traffic import TraceReplay
from k3runner.errors import UsageError
from k3runner.local_config import dump_local_config, load_local_config
from k3runner.run import run
from k3runner.run_folder import LOCAL_CONFIG
from k3runner.tiers import load_tier
from k3runner.tiers.own_files import load_tier_with, read_prompts
from k3runner.tiers.own_load import with_prompts, with_trace
from k3runner_testing.run_case import CHANGE, bundle_records, cell_result, fake_config

PROMPTS = b"".join(json.dumps({"prompt": [5, 6, at]}).encode() + b"\n" for at in range(40))
TRACE = b"".join(
    json.dumps({"timestamp": 20 * at, "input_length": 5 + at, "output_length": 3}).encode() + b"\n"
    for at in range(6)
)


def serving(name: str) -> list[ServingCell]:
    return [cell for cell in load_tier(name).cells if isinstance(cell, ServingCell)]


def test_with_prompts_names_the_file_in_every_serving_cell_that_it_fits() -> None:
    tier = with_prompts(load_tier("smoke"), PROMPTS, "p.jsonl")
    found = [cell for cell in tier.cells if isinstance(cell, ServingCell)]
    assert {cell.prompt_file_sha256 for cell in found} == {sha256_hex(PROMPTS)}
    assert len(found) == len(serving("smoke"))
    swept = with_prompts(load_tier("standard"), PROMPTS, "p.jsonl").sweeps
    assert {sweep.prompt_file_sha256 for sweep in swept} == {sha256_hex(PROMPTS)}


def test_with_prompts_that_fit_nowhere_is_an_error() -> None:
    chat = b'{"messages": [{"role": "user", "content": "a"}]}\n'
    with pytest.raises(UsageError, match=r"No serving cell of tier smoke .* in p\.jsonl"):
        with_prompts(load_tier("smoke"), chat, "p.jsonl")


def test_with_trace_adds_a_cell_that_must_not_be_slower() -> None:
    tier = with_trace(load_tier("smoke"), TRACE, "t.jsonl")
    *others, cell = tier.cells
    assert tuple(others) == load_tier("smoke").cells
    assert isinstance(cell, ServingCell)
    assert isinstance(cell.traffic, TraceReplay)
    assert cell.traffic.file_sha256 == sha256_hex(TRACE)
    assert (cell.request_count, cell.prompt_tokens, cell.output_tokens) == (6, 10, 3)
    assert cell.speed.kind == "non_inferiority"


def test_file_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_tier_with("smoke", tmp_path / "none.jsonl", None)
    assert read_prompts(None) == {}


def test_run_sends_the_prompts_and_replays_the_trace(tmp_path: Path) -> None:
    prompts, trace = tmp_path / "p.jsonl", tmp_path / "t.jsonl"
    prompts.write_bytes(PROMPTS)
    trace.write_bytes(TRACE)
    config = replace(
        fake_config(tmp_path),
        tier=load_tier_with("smoke", prompts, trace),
        prompt_file=prompts,
        trace_file=trace,
    )
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / LOCAL_CONFIG).write_bytes(dump_local_config(config))
    kept = load_local_config(tmp_path / "kept")
    assert (kept.tier, kept.prompt_file, kept.trace_file) == (config.tier, prompts, trace)

    result = run(config, CHANGE, lambda _: None)

    assert result.verdict.status == "PASS", result.verdict.sentence
    assert cell_result(result.verdict, "serving-trace").status == "PASS"
    records = bundle_records(result.bundle_path)
    replayed = [
        request
        for request in records.requests
        if (request.cell_id, request.variant, request.boot_id)
        == ("serving-trace", "measured", "boot-1.0")
    ]
    started = min(request.due_at_ns or 0 for request in replayed)
    due = sorted((request.due_at_ns or 0) - started for request in replayed)
    assert due == [20_000_000 * at for at in range(6)]
    assert all(request.sent_at_ns >= (request.due_at_ns or 0) for request in replayed)
    sent = {
        request.outcome.prompt_tokens
        for request in records.requests
        if request.cell_id.startswith("serving-isl") and request.outcome.status == "completed"
    }
    assert sent == {3}
