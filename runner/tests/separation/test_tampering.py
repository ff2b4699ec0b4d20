"""A whole run whose candidate writes where it must not, and one whose engines do not."""

from dataclasses import replace
from pathlib import Path

from k3bundle.policy import Policy
from k3bundle.verify_path import verify_path
from k3runner.events import Event, Remark
from k3runner.run import run
from k3runner_testing.run_case import CHANGE, bundle_records, claim, fake_config


def test_a_candidate_that_writes_a_file_of_the_run_fails_the_claim_isolated(
    tmp_path: Path,
) -> None:
    config = fake_config(tmp_path, candidate={"appends_to": "local.json"})
    # One cell is enough, and in the runner's own user the write succeeds.
    short = replace(config, tier=replace(config.tier, cells=config.tier.cells[:1]))
    told: list[Event] = []
    result = run(replace(short, engine_user="same"), CHANGE, told.append)
    assert result.verdict.status == "FAIL"
    sentence = claim(result.verdict, "isolated").sentence
    assert sentence.startswith("1 protected file was altered while boot-1.0 ran: <run>/local.json")
    records = bundle_records(result.bundle_path)
    altered = {one.boot_id: [file.path for file in one.alterations] for one in records.separation}
    assert altered == {
        "boot-0.0": [],
        "boot-1.0": ["<run>/local.json"],
        "boot-2.0": ["<run>/local.json"],
        "boot-3.0": [],
    }
    remarks = " ".join(event.text for event in told if isinstance(event, Remark))
    assert "K3EVAL_ENGINE_USER asks for the runner's own user." in remarks
    assert "While boot-1.0 ran, 1 protected file changed" in remarks
    _shows_the_machine(result.bundle_path)


def _shows_the_machine(bundle: Path) -> None:
    """The same bundle holds telemetry of every boot and cell, and verifies."""
    records = bundle_records(bundle)
    sources = [line.boot_id for line in records.telemetry if line.kind == "source"]
    assert sources == [f"boot-{slot}.0" for slot in range(4)]
    cells = {
        (line.boot_id, line.cell_id)
        for line in records.telemetry
        if line.kind == "sample" and line.host.memory_available_bytes
    }
    finished = {(one.boot_id, one.cell_id) for one in records.cells if one.event == "finished"}
    assert cells == finished
    assert verify_path(bundle, Policy()).findings == ()
