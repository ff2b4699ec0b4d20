"""The committed JSON Schemas are those of the records, and good bundles satisfy them."""

import json
from pathlib import Path

import jsonschema
import pytest

from k3bundle import layout
from k3bundle.schema_export import main, schema_files
from k3bundle_testing.sealing import sealed_bundle

SCHEMA = Path(__file__).parents[1] / "schema"


def test_committed_schemas_are_current() -> None:
    assert main([str(SCHEMA), "--check"]) == 0


def test_every_record_file_has_a_schema() -> None:
    records = (*layout.REQUIRED_FILES, *layout.OPTIONAL_FILES, layout.MANIFEST)
    names = {f"{n}.schema.json" for n in records}
    assert set(schema_files()) == names | {
        "attestation.dsse.json.schema.json",
        "statement.schema.json",
    }


def test_check_finds_changed_missing_and_left_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path), "--check"]) == 0
    (tmp_path / "plan.json.schema.json").write_text("{}")
    (tmp_path / "run.json.schema.json").unlink()
    (tmp_path / "old.schema.json").write_text("{}")
    assert main([str(tmp_path), "--check"]) == 1
    assert capsys.readouterr().err.count("\n") == 3


def test_usage_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Usage" in capsys.readouterr().err


@pytest.mark.parametrize("name", [*layout.REQUIRED_FILES, layout.MANIFEST, layout.ATTESTATION])
def test_good_bundle_satisfies_schema(name: str) -> None:
    schema = json.loads((SCHEMA / f"{name}.schema.json").read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    content = sealed_bundle()[name]
    records = content.splitlines() if name.endswith(".jsonl") else [content]
    assert records
    for record in records:
        jsonschema.Draft202012Validator(schema).validate(json.loads(record))
