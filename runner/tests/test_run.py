import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from k3bundle import layout
from k3bundle.archive import read_archive
from k3bundle.policy import Policy
from k3bundle.run import BootReady, BootStarted, BootStopped, CellAborted
from k3bundle.verify import verify
from k3runner import events
from k3runner.errors import EngineError, RegistryError
from k3runner.load.planned import plan_requests
from k3runner.run import RunResult, run
from k3runner.settings import RunConfig, resolve
from k3runner.tiers import load_tier
from k3runner.vocabulary import EXTERNAL_VOCABULARY
from k3runner_testing.run_case import CHANGE, bundle_records, cell_result, claim, fake_config
from k3runner_testing.serving import ServeFake


class Listener:
    """Keeps all events, and may interrupt the run at one of them."""

    def __init__(
        self,
        interrupt_in_slot: int | None = None,
        interrupt_at: type[events.Event] = events.CellStarted,
    ) -> None:
        self.seen: list[events.Event] = []
        self._interrupt_in_slot = interrupt_in_slot
        self._interrupt_at = interrupt_at

    def __call__(self, event: events.Event) -> None:
        self.seen.append(event)
        waited_for = self._interrupt_in_slot is not None and isinstance(event, self._interrupt_at)
        if waited_for and getattr(event, "slot", None) == self._interrupt_in_slot:
            self._interrupt_in_slot = None
            os.kill(os.getpid(), signal.SIGINT)

    def remarks(self) -> str:
        return " ".join(one.text for one in self.seen if isinstance(one, events.Remark))


def run_fake(config: RunConfig) -> tuple[RunResult, Listener]:
    listener = Listener()
    return run(config, CHANGE, listener), listener


def engines_left(folder: Path) -> list[int]:
    """Processes whose command line names a folder of this test."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in line:
                found.append(int(entry.name))
    return found


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, Listener, Path]:
    """One good run; the tests that use it only read."""
    folder = tmp_path_factory.mktemp("good")
    varying = {"chance_config": True}
    return *run_fake(fake_config(folder, baseline=varying, candidate=varying)), folder


def test_run_good_engines_pass_and_the_bundle_verifies(
    good: tuple[RunResult, Listener, Path],
) -> None:
    result, listener, folder = good
    assert result.verdict.status == "PASS", result.verdict.sentence
    assert result.bundle_path.name.endswith(layout.BUNDLE_SUFFIX)
    files = read_archive(result.bundle_path)
    report = verify(files, Policy(change=CHANGE, minimum_tier="smoke", allowed_signers=None))
    assert report.findings == ()
    assert [type(one).__name__ for one in listener.seen][-2:] == ["RunFinished", "BundleSealed"]
    assert engines_left(folder) == []


def test_run_records_hold_no_path_of_this_machine(
    good: tuple[RunResult, Listener, Path],
) -> None:
    result, _, folder = good
    records = bundle_records(result.bundle_path)
    started = [one for one in records.boots if isinstance(one, BootStarted)]
    assert [one.arm for one in started] == ["baseline", "candidate", "candidate", "baseline"]
    assert started[0].command[0] == "<engine-python>"
    assert "<model>" in started[0].command
    assert "<port>" in started[0].command
    for name, content in read_archive(result.bundle_path).items():
        assert str(folder).encode() not in content, name


def test_run_equal_boots_have_equal_configurations_and_prompts(
    good: tuple[RunResult, Listener, Path],
) -> None:
    result, _, _ = good
    records = bundle_records(result.bundle_path)
    configs = [one.effective_config for one in records.boots if isinstance(one, BootReady)]
    assert configs[0] == configs[3]
    different = {key for key in configs[0] if configs[0][key] != configs[1][key]}
    assert different == {"additional_config.k3decode.decode_backend"}
    prompts: dict[tuple[str, int], set[str]] = {}
    for record in records.requests:
        prompts.setdefault((record.cell_id, record.index), set()).add(record.prompt_sha256)
    assert all(len(digests) == 1 for digests in prompts.values())
    # Serving prompts are never sent twice in a boot.
    serving = [key for key in prompts if key[0].startswith("serving")]
    assert len({tuple(prompts[key]) for key in serving}) == len(serving)


def test_b21_candidate_served_by_stock_measures_stock(tmp_path: Path) -> None:
    result, _ = run_fake(fake_config(tmp_path, candidate={"served_path": "stock"}))
    assert result.verdict.status == "INVALID"
    cell = cell_result(result.verdict, "greedy-c1")
    assert cell.status == "INVALID"
    assert cell.reason.startswith("measures stock")


def test_candidate_booted_with_the_stock_backend_cannot_pass(tmp_path: Path) -> None:
    result, _ = run_fake(fake_config(tmp_path, candidate_backend="stock"))
    assert result.verdict.status != "PASS"
    assert cell_result(result.verdict, "greedy-c1").reason.startswith("measures stock")


def test_candidate_with_wrong_answers_fails_where_they_are_wrong(tmp_path: Path) -> None:
    candidate = {"wrong_token_at": 5, "unseeded": True, "breaks_schema": True}
    result, _ = run_fake(fake_config(tmp_path, candidate=candidate))
    assert result.verdict.status == "FAIL"
    assert claim(result.verdict, "correct").status == "FAIL"
    for cell_id in ("greedy-c1", "greedy-c4", "sampling", "structured-output"):
        assert cell_result(result.verdict, cell_id).status == "FAIL", cell_id
    assert cell_result(result.verdict, "chat").status == "PASS"


def test_b8_warm_prefix_cache_invalidates_serving(tmp_path: Path) -> None:
    result, _ = run_fake(fake_config(tmp_path, candidate={"cached_share": 0.62}))
    cell = cell_result(result.verdict, "serving-isl64-osl32-c1")
    assert cell.status == "INVALID"
    assert cell.cause == "warm_prefix_cache"


def test_b11_short_answers_invalidate_serving(tmp_path: Path) -> None:
    result, _ = run_fake(fake_config(tmp_path, candidate={"fault": "short"}))
    cell = cell_result(result.verdict, "serving-isl64-osl32-c1")
    assert cell.status == "INVALID"
    assert cell.cause == "wrong_length"


def test_b6_failed_requests_invalidate_serving(tmp_path: Path) -> None:
    sent = 0
    for cell in load_tier("smoke").cells:
        requests = plan_requests(cell, "0" * 64, EXTERNAL_VOCABULARY)
        if cell.kind == "serving":
            break
        sent += len(requests.measured)
    candidate = {
        "fault": "http_500",
        "faulty_from": sent + sum(len(batch) for batch in requests.warmup),
        "faulty_count": 2,
    }
    result, _ = run_fake(fake_config(tmp_path, candidate=candidate))
    failed = cell_result(result.verdict, cell.cell_id)
    assert failed.status == "INVALID"
    assert failed.cause == "failed_requests"


def test_engine_that_always_crashes_is_started_twice_and_the_run_goes_on(tmp_path: Path) -> None:
    candidate = {"fault": "exit", "faulty_from": 15}
    result, listener = run_fake(fake_config(tmp_path, candidate=candidate))
    assert result.verdict.status in ("INVALID", "INCOMPLETE")
    records = bundle_records(result.bundle_path)
    started = [one.boot_id for one in records.boots if isinstance(one, BootStarted)]
    assert started == ["boot-0.0", "boot-1.0", "boot-1.1", "boot-2.1", "boot-2.2", "boot-3.2"]
    ends = {one.boot_id: one.how for one in records.boots if isinstance(one, BootStopped)}
    assert [boot for boot, how in ends.items() if how == "crashed"] == started[1:5]
    aborted = [one for one in records.cells if isinstance(one, CellAborted)]
    assert "status 3" in aborted[0].reason
    assert "started once more" in listener.remarks()
    # The first boot finished the first cell, so the second boot starts with the next one.
    finished = {(one.boot_id, one.cell_id) for one in records.cells if one.event == "finished"}
    assert ("boot-1.0", "greedy-c1") in finished
    assert ("boot-1.1", "greedy-c1") not in finished


def test_b43_hang_aborts_the_cell_and_kills_the_engine(tmp_path: Path) -> None:
    candidate = {"fault": "hang", "faulty_from": 12}
    result, _ = run_fake(fake_config(tmp_path, candidate=candidate, request_idle_s=0.5))
    records = bundle_records(result.bundle_path)
    aborted = [one for one in records.cells if isinstance(one, CellAborted)]
    assert aborted[0].cause == "hang"
    assert aborted[0].reason.startswith("HANG: nothing came for 0.5 s on any of 4 streams, after ")
    assert engines_left(tmp_path) == []
    # The baseline's boots are measured all the same, and the hang is no crash of the engine's own.
    finished = {(one.slot, one.cell_id) for one in records.cells if one.event == "finished"}
    assert {slot for slot, cell_id in finished if cell_id == "chat"} == {0, 3}
    ends = {one.boot_id: one for one in records.boots if isinstance(one, BootStopped)}
    assert ends["boot-1.0"].how == "killed"
    assert "hung" in ends["boot-1.0"].detail
    files = read_archive(result.bundle_path)
    dump = files[f"{layout.LOG_PREFIX}boot-1.0.hang-greedy-c4.log"].decode()
    assert "Fatal Python error: Aborted" in dump
    assert "fake_engine.py" in dump
    assert "tasks of the referee" in dump


def test_engine_that_dies_at_start_is_a_sentence_with_its_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        run_fake(fake_config(tmp_path, candidate={"start": "dies"}))
    assert "ValueError: decode_backend must be one of stock, candidate" in caught.value.problem
    (folder,) = (tmp_path / "runs").iterdir()
    assert '"never_ready"' in (folder / layout.BOOTS).read_text("utf-8")
    assert not list(folder.glob("bundle/*"))


def test_b22_variable_that_the_engine_does_not_know_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="VLLM_NEW_NAME"):
        run_fake(fake_config(tmp_path, baseline={"unknown_variable": "VLLM_NEW_NAME"}))
    assert engines_left(tmp_path) == []


def test_ctrl_c_leaves_nothing_running_and_a_folder_to_resume(tmp_path: Path) -> None:
    config = fake_config(tmp_path, candidate={"ignores_sigterm": True, "children": 1})
    with pytest.raises(KeyboardInterrupt):
        run(config, CHANGE, Listener(interrupt_in_slot=1))
    assert engines_left(tmp_path) == []
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / layout.RUN).is_file()
    assert '"stopped"' in (folder / layout.BOOTS).read_text("utf-8").splitlines()[-1]


def test_ctrl_c_while_an_engine_starts_does_not_blame_the_engine(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(fake_config(tmp_path), CHANGE, Listener(1, events.BootStarting))
    assert engines_left(tmp_path) == []
    (folder,) = (tmp_path / "runs").iterdir()
    last = (folder / layout.BOOTS).read_text("utf-8").splitlines()[-1]
    assert '"how":"killed"' in last
    assert "Interrupted while it started." in last


def test_run_registry_that_is_not_there_stops_before_any_boot(tmp_path: Path) -> None:
    config = fake_config(tmp_path)
    with pytest.raises(RegistryError, match="gave no nonce"):
        run(replace(config, registry_url="http://127.0.0.1:9"), CHANGE, Listener())
    assert not (tmp_path / "runs").exists()


async def test_single_server_measures_and_claims_nothing(
    tmp_path: Path, serve_fake: ServeFake
) -> None:
    fake, url = await serve_fake(administrative=False, token_ids=False)
    config = resolve(environ={}, engine_url=url, runs=tmp_path / "runs", key=tmp_path / "key")
    # `run` has an event loop of its own, so it gets a thread of its own here.
    result = await asyncio.to_thread(run, config, CHANGE, Listener())
    assert result.verdict.status == "INCOMPLETE", result.verdict.sentence
    records = bundle_records(result.bundle_path)
    assert all(one.source == "unavailable" for one in records.coverage)
    assert records.subject.engine.files_checked == 0
    assert len(fake.bodies) == len(records.requests)
