import json
from pathlib import Path

import pytest
from pyarrow import parquet

from k3server.export import ExportFormat, export
from k3server.export_rows import NUMBER_COLUMNS, SUBMISSION_COLUMNS
from k3server_testing.example_document import example_document
from k3server_testing.example_verdict import example_verdict
from k3server_testing.registry import Registry


def rows_of(folder: Path, name: str, form: ExportFormat) -> list[dict[str, object]]:
    path = folder / f"{name}.{form}"
    if form == "parquet":
        found: list[dict[str, object]] = parquet.read_table(path).to_pylist()
        return found
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
async def test_export_holds_every_submission_and_number(
    registry: Registry, tmp_path: Path, form: ExportFormat
) -> None:
    async with registry.client() as client:
        await registry.submit(client, example_document(run_id="1" * 32))
        await registry.submit(client, example_document(example_verdict("FAIL")))
    written = export(registry.index, tmp_path, form=form)
    submissions = rows_of(tmp_path, "submissions", form)
    numbers = rows_of(tmp_path, "numbers", form)
    assert written == {f"submissions.{form}": 2, f"numbers.{form}": len(numbers)}
    assert [row["verdict"] for row in submissions] == ["FAIL", "PASS"]
    assert list(submissions[0]) == list(SUBMISSION_COLUMNS)
    assert list(numbers[0]) == list(NUMBER_COLUMNS)
    newest = submissions[0]["submission_id"]
    shown = {row["name"]: row["value"] for row in numbers if row["submission_id"] == newest}
    assert shown["greedy_identical_share"] == 0.875
    bounded = [row for row in numbers if row["lower"] is not None]
    assert bounded
    assert all(isinstance(row["pairs"], int) for row in bounded)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_export_of_nothing_is_empty_files(
    registry: Registry, tmp_path: Path, form: ExportFormat
) -> None:
    assert export(registry.index, tmp_path / "new", form=form) == {
        f"submissions.{form}": 0,
        f"numbers.{form}": 0,
    }
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        f"numbers.{form}",
        f"submissions.{form}",
    ]
    assert rows_of(tmp_path / "new", "submissions", form) == []
