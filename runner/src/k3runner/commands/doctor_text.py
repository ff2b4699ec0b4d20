"""What surrounds the doctor's judgement: places from flags, facts from a file, checks as text."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from k3runner.doctor.facts import DoctorFacts
from k3runner.doctor.judgement import Check
from k3runner.doctor.probes import Places
from k3runner.errors import UsageError
from k3runner.settings import (
    resolve_agent,
    resolve_engine_port,
    resolve_engine_python,
    resolve_key,
    resolve_model,
    resolve_registry,
    resolve_runs,
)
from k3runner.visible import visible
from k3runner.wording import plural

__all__ = ["answer_object", "check_lines", "facts_from_file", "places_from_flags"]

_MARKS: Final = {"ok": "✓ ok     ", "warning": "! warning", "problem": "✕ problem"}


def places_from_flags(
    engine_python: Path | None,
    model: Path | None,
    runs: Path | None,
    key: Path | None,
    registry: str | None,
) -> Places:
    """Resolve flags, environment and defaults the way a run would."""
    return Places(
        engine_python=resolve_engine_python(engine_python, os.environ),
        model=resolve_model(model, os.environ),
        runs=resolve_runs(runs, os.environ),
        key=resolve_key(key, os.environ),
        port=resolve_engine_port(os.environ),
        registry=resolve_registry(registry, os.environ),
        agent=resolve_agent(os.environ),
        engine_user=os.environ.get("K3EVAL_ENGINE_USER") or None,
        environ=os.environ,
    )


def facts_from_file(path: Path) -> DoctorFacts:
    """Read the facts that `k3-eval doctor --json` printed.

    Raises:
        UsageError: The file is not there or holds something else.
    """
    hint = "Make it with `k3-eval doctor --json > FILE`."
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.", hint) from error
    except ValueError as error:
        raise UsageError(f"{path} is not JSON.", hint) from error
    if isinstance(content, dict) and "facts" in content:
        content = content["facts"]
    try:
        return DoctorFacts.model_validate_json(json.dumps(content))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the top"
        raise UsageError(f"{path} holds no facts: {where}: {first['msg']}.", hint) from error


def check_lines(checks: tuple[Check, ...]) -> list[str]:
    """Return the checks as aligned lines, remedies below, and a last line that sums up."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        mark = _MARKS[check.outcome]
        lines.append(f"{mark}  {check.name:<{width}}  {visible(check.sentence)}")
        if check.remedy:
            lines.append(f"{'':<{len(mark)}}  {'':<{width}}  → {visible(check.remedy)}")
    problems = sum(check.outcome == "problem" for check in checks)
    warnings = sum(check.outcome == "warning" for check in checks)
    if problems:
        lines.append(f"Not ready: {plural(problems, 'problem')}, {plural(warnings, 'warning')}.")
    else:
        lines.append(f"Ready for `k3-eval run`: {plural(warnings, 'warning')}.")
    return lines


def answer_object(facts: DoctorFacts, checks: tuple[Check, ...]) -> dict[str, Any]:
    """Return facts and checks as JSON values."""
    return {
        "facts": facts.model_dump(mode="json"),
        "checks": [asdict(check) for check in checks],
    }
