"""`python -m k3server_testing.probes.api_cases --cases N --out FILE`: requests that are made up.

Schemathesis makes requests from the description of the API, good and bad ones, and sends them to a
real registry, half of them with a token and ids of things that are there. Nothing may be a 5xx, and
every answer must be as the description says.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx

from k3server_testing.probes.shown_registry import make_token_for, shown_ids
from k3server_testing.services.child import program

__all__ = ["CasesResult", "main", "run_cases"]

_CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
)
"""Left out is that every body which fits its schema is taken: JSON Schema calls 7.0 an integer."""
_ALL_PHASES: Final = "examples,coverage,fuzzing"
_GENERATED: Final = re.compile(r"(\d+) generated")
_COUNTED: Final = re.compile(r'k3_registry_requests_total\{method="\w+",status="(\d+)"\} (\d+)')
_FAILED: Final = re.compile(r"(?m)^- (ST\d+ .+|\w[\w ]+)$")
_SERVER_ERROR: Final = 500
_LIMIT_S: Final = 3600
_FOUND_FAILURES: Final = 1


@dataclass(frozen=True)
class CasesResult:
    """What came of the requests."""

    cases: int
    """Requests that were made up."""
    statuses: dict[str, int]
    """Status -> answers, as the registry itself counted them."""
    server_errors: int
    """Answers of 500 and above."""
    failures: tuple[str, ...]
    """What was not as the description says."""


def run_cases(
    folder: Path,
    description: Path,
    *,
    cases: int,
    examples: int,
    seed: int,
    phases: str = _ALL_PHASES,
) -> CasesResult:
    """Send requests until there were enough.

    Args:
        folder: Where the registry's data goes; it must not exist.
        description: The description of the API.
        cases: Requests at least.
        examples: Requests of each kind and operation in one round.
        seed: Of the first round; each has the next.
        phases: How requests are made up, as schemathesis calls it.
    """
    sent = rounds = 0
    failures: Counter[str] = Counter()
    token = make_token_for(folder)
    with shown_ids(folder, token) as (url, ids):
        while sent < cases:
            known = rounds % 2 == 1
            found = _round(
                url,
                description,
                # Another client each time: that one asks too often is not what is tried here.
                headers={"X-Forwarded-For": f"10.0.{rounds // 250}.{rounds % 250 + 1}"}
                | ({"Authorization": f"Bearer {token}"} if known else {}),
                ids=ids if known else {},
                examples=examples,
                seed=seed + rounds,
                phases=phases,
            )
            sent += found[0]
            failures.update(found[1])
            rounds += 1
        counted = httpx.get(f"{url}/metrics", timeout=60).text
    statuses: Counter[str] = Counter()
    for status, number in _COUNTED.findall(counted):
        statuses[status] += int(number)
    return CasesResult(
        cases=sent,
        statuses=dict(sorted(statuses.items())),
        server_errors=sum(n for s, n in statuses.items() if int(s) >= _SERVER_ERROR),
        failures=tuple(f"{number} x {what}" for what, number in failures.most_common()),
    )


def _round(
    url: str,
    description: Path,
    *,
    headers: Mapping[str, str],
    ids: Mapping[str, str],
    examples: int,
    seed: int,
    phases: str,
) -> tuple[int, list[str]]:
    """One run of the program: how many requests, and what failed."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "schemathesis.toml"
        lines = [f'"path.{name}" = "{value}"' for name, value in ids.items()]
        settings.write_text("[parameters]\n" + "\n".join(lines) + "\n" if lines else "")
        found = subprocess.run(
            [
                *(str(program("schemathesis", "probes")), "--config-file", str(settings)),
                *("run", str(description), "--url", url, "--no-color"),
                *("--checks", ",".join(_CHECKS), "--phases", phases),
                *("--continue-on-failure", "-n", str(examples), "--seed", str(seed)),
                *("--generation-database", "none", "--no-shrink", "--warnings", "off"),
                *(word for name, value in headers.items() for word in ("-H", f"{name}: {value}")),
            ],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
            cwd=folder,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
    count = _GENERATED.search(found.stdout)
    if count is None or found.returncode not in (0, _FOUND_FAILURES):
        raise RuntimeError(
            f"Expected schemathesis to run, found: {found.stdout[-2000:]}{found.stderr[-2000:]}"
        )
    failed = _FAILED.findall(found.stdout)
    if found.returncode and not failed:
        failed = [found.stdout[-2000:]]
    return int(count[1]), failed


def main(arguments: list[str] | None = None) -> int:
    """Send, and write what came of it.

    Returns:
        Exit status: 1 when something failed.
    """
    parser = argparse.ArgumentParser(
        prog="python -m k3server_testing.probes.api_cases", description=__doc__
    )
    parser.add_argument("--out", type=Path, required=True, help="file of the result")
    parser.add_argument("--description", type=Path, default=Path("server/openapi.json"))
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--examples", type=int, default=60, help="of each kind and operation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commit", default="unknown", help="what was tried")
    chosen = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="k3-cases-"))
    try:
        found = run_cases(
            folder / "data",
            chosen.description.absolute(),
            cases=chosen.cases,
            examples=chosen.examples,
            seed=chosen.seed,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kept: dict[str, Any] = {
        **vars(found),
        "seed": chosen.seed,
        "commit": chosen.commit,
        "measured_at_utc": at,
    }
    chosen.out.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    sys.stderr.write(f"{json.dumps(kept)}\n")
    return 1 if found.failures or found.server_errors else 0


if __name__ == "__main__":
    sys.exit(main())
