"""What a kernel package tells that it must not: clean wherever it is written or shown."""

from pathlib import Path

import pytest

from k3bundle.archive import read_archive
from k3bundle.policy import Policy
from k3bundle.verify import verify
from k3runner.events import Event
from k3runner.run import run
from k3runner_testing.fake_kernels import FAKE_TOKEN
from k3runner_testing.kernel_case import config, result_of
from k3runner_testing.run_case import CHANGE, bundle_records, cell_result


@pytest.mark.usefixtures("gpu")
def test_b55_what_a_package_tells_is_nowhere_on_the_disk_as_it_told_it(tmp_path: Path) -> None:
    result = result_of(config(tmp_path, {"check": "tells_a_token"}))
    assert told(result.run_folder) == []
    assert not list((result.run_folder / "logs").glob("*.jsonl"))
    kept = (result.run_folder / "logs/boot-0.0.check.output").read_text("utf-8")
    assert "logged in with <hf-token>" in kept
    records = bundle_records(result.bundle_path)
    facts = next(one.facts for one in records.kernels if one.kind == "command")
    assert facts["hub"] == "logged in with <hf-token>"
    replaced = {rule.name: rule.replaced for rule in records.scrub.rules}
    assert replaced["Hugging Face token"] == 1


def told(folder: Path) -> list[Path]:
    """Files of a run folder that hold the token, in whatever case its letters are."""
    token = FAKE_TOKEN.lower().encode()
    found = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in found if token in path.read_bytes().lower()]


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    ("defect", "status"),
    [("token_in_case", "PASS"), ("token_in_name", "PASS"), ("token_in_op", "INVALID")],
)
def test_b55_a_token_in_a_name_costs_at_most_its_cell(
    defect: str, status: str, tmp_path: Path
) -> None:
    result = result_of(config(tmp_path, {"check": defect}))
    assert told(result.run_folder) == []
    assert cell_result(result.verdict, "check").status == status
    assert cell_result(result.verdict, "audit").status == "PASS"
    assert verify(read_archive(result.bundle_path), Policy()).findings == ()


@pytest.mark.usefixtures("gpu")
def test_b55_what_a_package_says_on_stderr_is_told_clean(tmp_path: Path) -> None:
    events: list[Event] = []
    result = result_of(config(tmp_path, {"check": "tells_on_stderr"}), events)
    assert told(result.run_folder) == []
    assert FAKE_TOKEN not in repr(events)
    assert "fatal: <hf-token> in <home>/x" in repr(events)
    assert "fatal: <hf-token> in <home>/x" in cell_result(result.verdict, "check").reason
    rules = {rule.name: rule.replaced for rule in bundle_records(result.bundle_path).scrub.rules}
    assert rules["Hugging Face token"] == 1


@pytest.mark.usefixtures("gpu")
def test_b55_nothing_of_a_package_is_on_the_disk_as_it_told_it_while_it_runs(
    tmp_path: Path,
) -> None:
    seen = []

    def look(event: Event) -> None:
        seen.append((type(event).__name__, told(tmp_path / "runs")))

    run(config(tmp_path, {"check": "tells_on_stderr"}), CHANGE, look)
    assert len(seen) > 8
    assert [one for one in seen if one[1]] == []
