"""`doctor` prints checks with remedies, and judges recorded facts again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_doctor_on_a_bare_machine_lists_problems_with_remedies(
    k3_eval: Callable[..., Any],
) -> None:
    outcome = k3_eval("doctor")

    assert outcome.code == 5
    lines = outcome.stdout.splitlines()
    place = next(i for i, line in enumerate(lines) if "✕ problem  engine" in line)
    assert "No engine Python at" in lines[place]
    assert lines[place + 1].strip().startswith("→ Run `make eval`")
    assert lines[-1].startswith("Not ready: 2 problems")


def test_doctor_facts_are_judged_the_same_elsewhere(
    k3_eval: Callable[..., Any], tmp_path: Path
) -> None:
    probed = k3_eval("doctor", "--json")
    (tmp_path / "doctor.json").write_text(probed.stdout, "utf-8")

    replayed = k3_eval("doctor", "--facts", "doctor.json", "--json")

    assert replayed.code == probed.code == 5
    assert json.loads(replayed.stdout) == json.loads(probed.stdout)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "Cannot read"),
        ("not json", "is not JSON"),
        ("[]", "holds no facts"),
        ('{"facts": {"cpu_count": 0}}', "holds no facts"),
    ],
)
def test_doctor_with_a_wrong_facts_file_is_a_usage_error(
    k3_eval: Callable[..., Any], tmp_path: Path, content: str | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "facts.json").write_text(content, "utf-8")

    outcome = k3_eval("doctor", "--facts", "facts.json")

    assert outcome.code == 2
    assert outcome.stderr.count("\n") == 1
    assert words in outcome.stderr
    assert "k3-eval doctor --json > FILE" in outcome.stderr


def test_doctor_with_a_wrong_port_is_a_usage_error(
    k3_eval: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K3EVAL_ENGINE_PORT", "seventy")

    outcome = k3_eval("doctor")

    assert outcome.code == 2
    assert "K3EVAL_ENGINE_PORT" in outcome.stderr
