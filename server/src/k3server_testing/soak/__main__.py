"""`python -m k3server_testing.soak --out FILE`: the long versions, with their results as JSON.

Everything runs on loopback, ends by itself, and leaves nothing behind. The tests run a share of it.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from k3server_testing.soak.kills import run_kills
from k3server_testing.soak.pages import run_pages
from k3server_testing.soak.uploads import run_uploads

__all__ = ["main"]

_SEED: Final = 20261130


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for.

    Returns:
        Exit status.
    """
    parser = argparse.ArgumentParser(prog="python -m k3server_testing.soak", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="file of the results")
    parser.add_argument("--commit", default="unknown", help="what was measured")
    parser.add_argument("--only", action="append", choices=("uploads", "kills", "pages"))
    parser.add_argument("--uploads", type=int, default=200)
    parser.add_argument("--upload-mib", type=int, default=50)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--submissions", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=1000, help="requests per page")
    chosen = parser.parse_args(arguments)
    parts: dict[str, Callable[[Path], Any]] = {
        "uploads": lambda folder: run_uploads(
            folder,
            uploads=chosen.uploads,
            cut=max(1, chosen.uploads // 100),
            size_bytes=chosen.upload_mib << 20,
            seed=_SEED,
        ),
        "kills": lambda folder: run_kills(folder, kills=chosen.kills, seed=_SEED),
        "pages": lambda folder: run_pages(
            folder, count=chosen.submissions, requests=chosen.requests, seed=_SEED
        ),
    }
    results: dict[str, Any] = {}
    if chosen.out.exists():
        results = json.loads(chosen.out.read_text())
    for name in chosen.only or parts:
        folder = Path(tempfile.mkdtemp(prefix=f"k3-soak-{name}-"))
        started = time.monotonic()
        try:
            found = asdict(parts[name](folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        results[name] = {**found, **_birth(chosen.commit, time.monotonic() - started)}
        sys.stderr.write(f"{name}: {json.dumps(results[name])}\n")
        chosen.out.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    return 0


def _birth(commit: str, wall_s: float) -> dict[str, Any]:
    return {
        "commit": commit,
        "measured_at_utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "python": platform.python_version(),
        "cpu_count": len(os.sched_getaffinity(0)),
        "seed": _SEED,
        # Above the number of processors, other programs had a share of the times.
        "load_average": round(os.getloadavg()[0], 1),
        "whole_wall_s": round(wall_s, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
