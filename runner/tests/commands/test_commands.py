"""What each command prints, and where: data on stdout, words on stderr."""

import json
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from k3bundle.canonical import parse_strict, plan_sha256
from k3bundle.derive import derive
from k3bundle.plan import Plan
from k3bundle_testing import good_records, good_run_files
from k3bundle_testing.sealing import sealed_bundle
from k3runner.errors import EngineError
from k3runner.events import Event, RunStarted
from k3runner.exit_code import ExitCode
from k3runner.run import RunResult

SHA = "c0ffee" + "0" * 34
CHANGE = ("--repository", "example/engine", "--pull-request", "7", "--commit", SHA)


def test_plan_human_form_shows_boots_cells_gates_and_digest(k3_eval: Callable[..., Any]) -> None:
    shown = k3_eval("plan", "--tier", "smoke").stdout
    printed = k3_eval("plan", "--tier", "smoke", "--json").stdout
    plan = Plan.model_validate_json(printed)

    assert f"Plan digest {plan_sha256(plan)}" in shown
    for cell in plan.cells:
        assert cell.cell_id in shown
    boots = [line.split()[1] for line in shown.splitlines() if ", pair " in line]
    assert boots == [boot.arm for boot in plan.boots]
    assert parse_strict(printed.strip().encode()) == plan.model_dump(mode="json")


def test_plan_of_an_existing_server_says_that_nothing_is_compared(
    k3_eval: Callable[..., Any],
) -> None:
    outcome = k3_eval("plan", "--engine-url", "http://127.0.0.1:8000")

    assert outcome.code == 0
    assert "nothing is compared" in outcome.stdout


def test_verify_sound_bundle_prints_verdict_and_exits_0(
    k3_eval: Callable[..., Any], bundle: Path
) -> None:
    outcome = k3_eval("verify", str(bundle), *CHANGE)

    assert outcome.code == 0
    lines = outcome.stdout.splitlines()
    assert lines[0] == "sound: no finding"
    assert lines[1] == f"change   example/engine #7 {SHA}"
    assert lines[2].startswith("verdict  ✓ PASS: ")
    assert lines[3].startswith("standard the plan asks for all")
    assert lines[4].startswith("signer   SHA256:")


def test_verify_other_change_is_refused_with_the_finding(
    k3_eval: Callable[..., Any], bundle: Path
) -> None:
    outcome = k3_eval("verify", str(bundle), *CHANGE[:-1], "d" * 40)

    assert outcome.code == 4
    assert "refused: 1 finding" in outcome.stdout
    assert "verdict  none; a refused bundle is no evidence." in outcome.stdout
    assert "[change-mismatch]" in outcome.stdout


def test_verify_other_signer_is_refused(k3_eval: Callable[..., Any], bundle: Path) -> None:
    outcome = k3_eval("verify", str(bundle), "--signer", "SHA256:somebody", "--json")

    assert outcome.code == 4
    found = json.loads(outcome.stdout)
    assert found["sound"] is False
    assert [finding["code"] for finding in found["findings"]] == ["signer-not-allowed"]
    assert found["verdict"] == "PASS"


def test_verify_half_a_change_is_a_usage_error(k3_eval: Callable[..., Any], bundle: Path) -> None:
    outcome = k3_eval("verify", str(bundle), "--pull-request", "7")

    assert outcome.code == 2
    assert "Give all three, or none." in outcome.stderr


@pytest.mark.parametrize("place", [10, 900, -1])
def test_verify_flipped_byte_is_refused(
    k3_eval: Callable[..., Any], bundle: Path, place: int
) -> None:
    data = bytearray(bundle.read_bytes())
    data[place] ^= 1
    bundle.write_bytes(data)

    outcome = k3_eval("verify", str(bundle))

    assert outcome.code == 4
    assert outcome.stdout.startswith("refused: ")


def test_verify_folder_says_what_is_expected(k3_eval: Callable[..., Any], tmp_path: Path) -> None:
    outcome = k3_eval("verify", str(tmp_path))

    assert outcome.code == 2
    assert "is a folder" in outcome.stderr
    assert ".k3b" in outcome.stderr


def test_keygen_makes_a_key_once(k3_eval: Callable[..., Any], tmp_path: Path) -> None:
    key = tmp_path / "keys" / "id"

    first = k3_eval("keygen", "--key", str(key))
    second = k3_eval("keygen", "--key", str(key))

    assert first.code == 0
    assert first.stdout.startswith("ssh-ed25519 ")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert second.code == 2
    assert "never overwritten" in second.stderr


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def test_report_of_bundle_and_of_run_folder_say_how_far_they_are_trusted(
    k3_eval: Callable[..., Any], bundle: Path, tmp_path: Path
) -> None:
    write_files(tmp_path / "run", good_run_files())

    sealed = json.loads(k3_eval("report", str(bundle), "--json", "-").stdout)
    unsealed = json.loads(k3_eval("report", str(tmp_path / "run"), "--json", "-").stdout)

    assert (sealed["trust"], unsealed["trust"]) == ("self-reported", "unsealed")
    assert sealed["status"] == unsealed["status"] == "PASS"
    assert sealed["seal"]["signer"].startswith("SHA256:")
    assert unsealed["seal"] is None


def test_report_of_an_interrupted_run_shows_how_far_it_went(
    k3_eval: Callable[..., Any], tmp_path: Path
) -> None:
    files = dict(good_run_files())
    del files["scrub.json"]
    lines = files["cells.jsonl"].splitlines(keepends=True)
    files["cells.jsonl"] = b"".join(lines[:-1]) + lines[-1][:20]
    write_files(tmp_path / "run", files)

    outcome = k3_eval("report", str(tmp_path / "run"), "--json", "-")

    assert outcome.code == 0
    found = json.loads(outcome.stdout)
    assert (found["status"], found["trust"]) == ("INCOMPLETE", "unsealed")


def test_report_of_a_sealed_run_folder_is_a_report_of_its_bundle(
    k3_eval: Callable[..., Any], bundle: Path, tmp_path: Path
) -> None:
    write_files(tmp_path / "run", {**good_run_files(), "bundle/run.k3b": bundle.read_bytes()})

    outcome = k3_eval("report", str(tmp_path / "run"), "--json", "-")

    assert json.loads(outcome.stdout)["trust"] == "self-reported"


def test_report_without_flags_writes_a_page_beside_the_bundle(
    k3_eval: Callable[..., Any], bundle: Path
) -> None:
    outcome = k3_eval("report", str(bundle))

    page = bundle.parent / "report.html"
    assert outcome.code == 0
    assert outcome.stdout == ""
    assert str(page) in outcome.stderr
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_report_of_unsound_bundle_is_refused(k3_eval: Callable[..., Any], tmp_path: Path) -> None:
    from k3bundle.archive import archive_bytes  # noqa: PLC0415

    files = {**sealed_bundle(), "logs/extra.txt": b"not in the manifest"}
    path = tmp_path / "bad.k3b"
    path.write_bytes(archive_bytes(files))

    outcome = k3_eval("report", str(path), "--html", str(tmp_path / "page.html"))

    assert outcome.code == 4
    assert "[file-unlisted]" in outcome.stderr
    assert not (tmp_path / "page.html").exists()


def test_report_of_another_folder_is_a_usage_error(
    k3_eval: Callable[..., Any], tmp_path: Path
) -> None:
    outcome = k3_eval("report", str(tmp_path))

    assert outcome.code == 2
    assert "is not a run folder" in outcome.stderr


@pytest.mark.parametrize(
    ("first", "second"), [("{bundle}", None), ("page.html", "page.html"), ("-", "-")]
)
def test_report_over_its_bundle_or_over_itself_is_a_usage_error(
    k3_eval: Callable[..., Any], bundle: Path, first: str, second: str | None
) -> None:
    before = bundle.read_bytes()
    target = first.format(bundle=bundle)
    more = () if second is None else ("--json", second)

    outcome = k3_eval("report", str(bundle), "--html", target, *more)

    assert outcome.code == 2
    assert outcome.stdout == ""
    assert bundle.read_bytes() == before


def test_report_to_a_missing_folder_is_a_machine_error(
    k3_eval: Callable[..., Any], bundle: Path, tmp_path: Path
) -> None:
    outcome = k3_eval("report", str(bundle), "--html", str(tmp_path / "no" / "page.html"))

    assert outcome.code == 5
    assert "Cannot write the report" in outcome.stderr


def test_submit_without_registry_is_a_usage_error(
    k3_eval: Callable[..., Any], bundle: Path
) -> None:
    outcome = k3_eval("submit", str(bundle))

    assert outcome.code == 2
    assert "K3EVAL_REGISTRY" in outcome.stderr


def test_submit_of_damaged_bundle_is_refused_before_anything_is_sent(
    k3_eval: Callable[..., Any], bundle: Path
) -> None:
    data = bytearray(bundle.read_bytes())
    data[900] ^= 1
    bundle.write_bytes(data)

    # Nothing listens there: a request would end in exit code 7.
    outcome = k3_eval("submit", str(bundle), "--registry", "http://127.0.0.1:9")

    assert outcome.code == 4
    assert "[file-digest]" in outcome.stderr


@pytest.fixture
def ready(k3_eval: Callable[..., Any], tmp_path: Path) -> tuple[str, ...]:
    """Flags of a run whose engine and model exist as files."""
    (tmp_path / "python").write_text("", "utf-8")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}", "utf-8")
    return (*CHANGE, "--engine-python", "python", "--model", "model")


def fake_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ending: type[BaseException] | None
) -> None:
    """Replace the measuring part: it starts a run, then ends as told."""
    records = good_records(structured_output_broken=ending is None)

    def run(
        _config: object, _change: object, emit: Callable[[Event], None], *, isolation: object
    ) -> RunResult:
        assert isolation is None
        emit(RunStarted(tmp_path / "run", records.plan, "ab" * 32, resumed=False))
        if ending is EngineError:
            raise EngineError("The engine died.", "Read its log.")
        if ending is not None:
            raise ending
        return RunResult(tmp_path / "run", tmp_path / "run.k3b", "cd" * 32, derive(records))

    monkeypatch.setattr("k3runner.run.run", run)


def test_run_prints_one_json_line_and_the_verdict_is_the_exit_code(
    k3_eval: Callable[..., Any],
    ready: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    fake_run(monkeypatch, tmp_path, None)

    outcome = k3_eval(*ready)

    assert outcome.code == ExitCode.FAIL
    assert outcome.stdout.count("\n") == 1
    assert json.loads(outcome.stdout) == {
        "verdict": "FAIL",
        "bundle_path": str(tmp_path / "run.k3b"),
        "bundle_sha256": "cd" * 32,
        "run_folder": str(tmp_path / "run"),
    }
    assert "running tier smoke" in outcome.stderr


def test_run_events_come_as_json_lines_and_the_result_is_the_last(
    k3_eval: Callable[..., Any],
    ready: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    fake_run(monkeypatch, tmp_path, None)

    outcome = k3_eval(*ready, "--events")

    lines = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert [line["event"] for line in lines] == ["run_started", "result"]
    assert lines[0]["plan"]["tier"] == "smoke"
    assert outcome.stderr == ""


def test_run_interrupted_says_how_to_resume(
    k3_eval: Callable[..., Any],
    ready: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    fake_run(monkeypatch, tmp_path, KeyboardInterrupt)

    outcome = k3_eval(*ready)

    assert outcome.code == 130
    assert outcome.stdout == ""
    assert f"k3-eval resume {tmp_path / 'run'}" in outcome.stderr


def test_run_engine_error_is_exit_code_6(
    k3_eval: Callable[..., Any],
    ready: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    fake_run(monkeypatch, tmp_path, EngineError)

    outcome = k3_eval(*ready)

    assert outcome.code == 6
    assert outcome.stderr.splitlines()[-1] == "k3-eval: The engine died. Read its log."


@pytest.mark.parametrize(
    ("status", "code"),
    [("PASS", 0), ("FAIL", 1), ("INCONCLUSIVE", 3), ("INVALID", 3), ("INCOMPLETE", 3)],
)
def test_verdict_code_for_each_status(status: str, code: int) -> None:
    from k3runner.commands.watching import verdict_code  # noqa: PLC0415

    assert verdict_code(status) == code


def test_without_arguments_the_help_is_shown(k3_eval: Callable[..., Any]) -> None:
    outcome = k3_eval()
    assert outcome.code == 0
    assert outcome.stdout.startswith("Usage: k3-eval")
    assert "submit" in outcome.stdout
