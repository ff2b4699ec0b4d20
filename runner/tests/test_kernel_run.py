"""The kernels tier, end to end: a fake package on a fake GPU, from plan to sealed bundle."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from k3bundle.archive import read_archive
from k3bundle.policy import Policy
from k3bundle.sign import SigningKeyError
from k3bundle.verdict import CellInvalid
from k3bundle.verify import verify
from k3bundle_testing import example_signer
from k3runner.cli import run_command_line
from k3runner.errors import MachineError, UsageError
from k3runner.events import Event, Remark
from k3runner.node_facts import read_node_facts
from k3runner.plan import build_plan
from k3runner.report.files import ReportFiles, write_reports
from k3runner.report.source import load_run
from k3runner.run import ConfigOverrides, resume, run
from k3runner.subjects import load_subject
from k3runner.tiers import load_tier
from k3runner_testing.fake_kernels import write_fake_package
from k3runner_testing.kernel_case import config, result_of
from k3runner_testing.run_case import CHANGE, bundle_records, cell_result, claim


@pytest.mark.usefixtures("gpu")
def test_a_right_package_ends_in_a_bundle_that_verifies_and_a_report(tmp_path: Path) -> None:
    result = result_of(config(tmp_path))
    assert result.verdict.status == "PASS"
    report = verify(read_archive(result.bundle_path), Policy(require_standard=True))
    assert report.findings == ()
    records = bundle_records(result.bundle_path)
    assert records.plan.pairing == "package"
    assert records.subject.engine.name == "k3-runner-testing"
    assert {line.kind for line in records.kernels} == {"case", "audit", "timing", "command"}
    facts = next(line.facts for line in records.kernels if line.kind == "command")
    assert facts["commit"] == CHANGE.commit_sha
    watched = {line.cell_id for line in records.telemetry if line.kind == "sample"}
    assert watched == {"check", "audit", "bench"}
    assert len(records.separation) == 1

    forms = ReportFiles(
        tmp_path / "r.html", tmp_path / "r.md", tmp_path / "r.json", tmp_path / "r.csv"
    )
    write_reports(load_run(result.bundle_path), forms, echo=print)
    page, text = (tmp_path / "r.html").read_text(), (tmp_path / "r.md").read_text()
    assert "Kernels, op by op" in page
    assert "attn_res: 40 % of the speed of light" in page
    assert "| `router` | 3 of 3 | 0.25 |" in text
    assert "| `router` | tp8\\_m1 | 25 us |" in text
    assert "router.tp8_m1.bandwidth_gb_per_s,2000.0" in (tmp_path / "r.csv").read_text()
    conditions = tmp_path / "c.md"
    write_reports(load_run(result.bundle_path), ReportFiles(conditions=conditions), echo=print)
    assert "| Kernels | bench of 2 ops | ✓ measured |" in conditions.read_text()


@pytest.mark.usefixtures("gpu")
def test_a_second_run_of_the_plan_in_a_new_folder_says_that_it_is_one(tmp_path: Path) -> None:
    found = replace(config(tmp_path), state_folder=tmp_path / "state")
    first = result_of(found)
    assert not any("started" in limit for limit in first.verdict.limits)
    second = result_of(found)
    assert second.run_folder != first.run_folder
    assert "This plan was started 1 time here before: 1 PASS." in second.verdict.limits
    earlier = bundle_records(second.bundle_path).earlier
    assert earlier is not None
    assert [run.run_id for run in earlier.runs] == [first.bundle_path.stem]


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    ("task", "defect", "status", "words"),
    [
        ("check", "wrong_case", "FAIL", "router corner_m1: out: expected 1, found 2"),
        ("audit", "early_read", "FAIL", "without a wait"),
        ("check", "leaves_out_an_op", "INVALID", "declared ops have no answer: router"),
        ("bench", "leaves_out_an_op", "INVALID", "declared ops have no answer: router"),
        ("bench", "too_fast", "INVALID", "5.00 times the speed of light"),
        ("bench", "crashes", "INCOMPLETE", "an illegal memory access"),
    ],
)
def test_a_defect_of_the_package_is_found(
    task: str, defect: str, status: str, words: str, tmp_path: Path
) -> None:
    verdict = result_of(config(tmp_path, {task: defect})).verdict
    assert verdict.status == status
    cell = cell_result(verdict, task)
    assert cell.status == ("FAIL" if status == "FAIL" else "INVALID")
    assert words in cell.reason
    assert claim(verdict, "faster").status == "NOT_CLAIMED"


@pytest.mark.usefixtures("gpu")
def test_a_command_that_hangs_is_ended_and_the_others_still_answer(tmp_path: Path) -> None:
    verdict = result_of(config(tmp_path, {"audit": "hangs"}, limit_s=3)).verdict
    audit = cell_result(verdict, "audit")
    assert isinstance(audit, CellInvalid)
    assert audit.cause == "missing_boots"
    assert "HANG: the command had not ended after 3 s" in audit.reason
    assert cell_result(verdict, "bench").status == "PASS"
    assert verdict.status == "INCOMPLETE"


@pytest.mark.usefixtures("gpu")
def test_lines_that_are_no_answers_are_told(tmp_path: Path) -> None:
    events: list[Event] = []
    result = result_of(config(tmp_path, {"check": "chatters"}), events)
    assert result.verdict.status == "PASS"
    said = [event.text for event in events if isinstance(event, Remark)]
    assert "check: not read: 2 lines of the package." in said


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    ("defect", "words"),
    [("another_version", "must be of version 1 of the contract"), ("no_field", "`latency_us`")],
)
def test_an_adapter_of_another_form_costs_its_cell_and_not_the_run(
    defect: str, words: str, tmp_path: Path
) -> None:
    events: list[Event] = []
    result = result_of(config(tmp_path, {"bench": defect}), events)
    bench = cell_result(result.verdict, "bench")
    assert isinstance(bench, CellInvalid)
    assert bench.cause == "unreadable_answer"
    assert words in bench.reason
    assert cell_result(result.verdict, "check").status == "PASS"
    assert result.verdict.status == "INVALID"
    assert verify(read_archive(result.bundle_path), Policy()).findings == ()
    assert any(words in event.text for event in events if isinstance(event, Remark))


@pytest.mark.usefixtures("gpu")
def test_a_package_of_another_commit_is_found_by_what_it_says(tmp_path: Path) -> None:
    verdict = result_of(config(tmp_path, {"check": "other_commit"})).verdict
    check = cell_result(verdict, "check")
    assert isinstance(check, CellInvalid)
    assert check.cause == "other_commit"
    assert claim(verdict, "correct").status == "INVALID"


@pytest.mark.usefixtures("gpu")
def test_a_package_that_prints_without_end_is_ended_and_the_others_still_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("k3runner.kernel_run._LARGEST_OUTPUT", 3_000_000)
    result = result_of(config(tmp_path, {"check": "never_ends"}))
    assert "bytes, and at most 3000000 are read" in cell_result(result.verdict, "check").reason
    assert cell_result(result.verdict, "audit").status == "PASS"
    assert result.verdict.status == "INCOMPLETE"


@pytest.mark.usefixtures("gpu")
def test_a_package_that_writes_the_referees_files_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target.txt"
    target.write_text("the referee's\n")
    target.chmod(0o666)
    tmp_path.chmod(0o755)
    monkeypatch.setattr("k3runner.run_watch.referee_files", lambda: (target,))
    events: list[Event] = []
    found = config(tmp_path, {"check": "writes_elsewhere"})
    verdict = run(replace(found, engine_user="same"), CHANGE, events.append).verdict
    assert verdict.status == "FAIL"
    assert claim(verdict, "isolated").status == "FAIL"
    assert "target.txt (content)" in claim(verdict, "isolated").sentence


@pytest.mark.usefixtures("gpu")
def test_an_interrupted_run_is_resumed_from_the_task_that_is_missing(tmp_path: Path) -> None:
    class Stopped(BaseException):
        pass

    def stop_at_audit(event: Event) -> None:
        if getattr(event, "cell_id", None) == "audit":
            raise Stopped

    with pytest.raises(Stopped):
        run(config(tmp_path), CHANGE, stop_at_audit)
    (folder,) = (tmp_path / "runs").iterdir()
    events: list[Event] = []
    result = resume(folder, ConfigOverrides(), events.append)
    assert result.verdict.status == "PASS"
    assert result.verdict.resumed
    records = bundle_records(result.bundle_path)
    boots = {line.cell_id: line.boot_id for line in records.kernels}
    assert boots == {"check": "boot-0.0", "audit": "boot-0.1", "bench": "boot-0.1"}


@pytest.mark.usefixtures("gpu")
def test_a_key_that_is_gone_at_the_end_costs_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone:
        public_key = example_signer().public_key

        def sign(self, _message: bytes) -> bytes:
            raise SigningKeyError("Expected the agent, found that it ended. Start one.")

    events: list[Event] = []
    found = config(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("k3runner.run.prepare_signer", lambda *_: (Gone(), False))
        with pytest.raises(MachineError, match=r"could not be signed: .* found that it ended"):
            run(found, CHANGE, events.append)
    (folder,) = (tmp_path / "runs").iterdir()
    before = (folder / "kernels.jsonl").read_bytes()
    result = resume(folder, ConfigOverrides(), events.append)
    assert result.verdict.status == "PASS"
    assert (folder / "kernels.jsonl").read_bytes() == before


def test_without_a_gpu_nothing_runs_and_a_sentence_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(MachineError, match=r"needs 1 GPUs of compute capability 10\.3.*has none"):
        result_of(config(tmp_path))
    assert not (tmp_path / "runs").exists()
    assert run_command_line(["plan", "--tier", "kernels"]) == 5
    assert "this machine has none" in capsys.readouterr().err


@pytest.mark.usefixtures("gpu")
def test_plan_of_the_shipped_package_names_its_ops_and_no_engine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command_line(["plan", "--tier", "kernels"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Tier kernels, subject kimi-k3-k3decode, a kernel package")
    assert "check of 13 ops, smoke and corner and production cases" in text
    assert run_command_line(["plan", "--tier", "kernels", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [cell["task"] for cell in plan["cells"]] == ["check", "audit", "bench"]
    assert len(plan["boots"]) == 1


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--subject", "k3-tiny"], "declares no kernel package"),
        (["--engine-url", "http://127.0.0.1:1"], "asks a package and no server"),
        (["--deployment", "tp8"], "there is no deployment to choose"),
        (["--trace", "trace.jsonl"], "sends no requests"),
    ],
)
def test_flags_that_do_not_fit_a_package_are_refused(
    flags: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    trace = '{"timestamp": 0, "input_length": 6, "output_length": 5, "hash_ids": []}'
    (tmp_path / "trace.jsonl").write_text(trace + "\n")
    assert run_command_line(["plan", "--tier", "kernels", *flags]) == 2
    assert words in capsys.readouterr().err


def test_a_subject_that_is_a_package_alone_boots_no_engine(tmp_path: Path) -> None:
    subject = load_subject(str(write_fake_package(tmp_path)))
    assert subject.kernels is not None
    with pytest.raises(UsageError, match="is a kernel package without an engine"):
        build_plan(load_tier("quick"), subject, read_node_facts(), "paired")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('ops = ["attn_res", "router"]', 'ops = ["router", "router"]', "name every op once"),
        ('audit = ["-m"', 'audit_ = ["-m"', "unknown key `audit_`"),
        ('distribution = "k3-runner-testing"', "", "`distribution` is missing"),
    ],
)
def test_a_package_that_is_declared_wrongly_is_refused(
    old: str, new: str, words: str, tmp_path: Path
) -> None:
    path = write_fake_package(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(UsageError, match=words):
        load_subject(str(path))
    shutil.rmtree(tmp_path)
