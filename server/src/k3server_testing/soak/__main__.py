"""`python -m k3server_testing.soak --out FILE`: the long versions, with their results as JSON.

Everything runs on loopback, ends by itself, and leaves nothing behind. The tests run a share of it.
"""

import argparse
import json
import math
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from k3server_testing.soak.adding import added, slice_start
from k3server_testing.soak.full_disk import run_full_disk
from k3server_testing.soak.kills import run_kills
from k3server_testing.soak.large_bundle import run_large_bundle
from k3server_testing.soak.malformed import run_malformed
from k3server_testing.soak.outages import run_outages
from k3server_testing.soak.pages import run_pages
from k3server_testing.soak.uploads import run_uploads

__all__ = ["main"]

_SEED: Final = 20261130
_PARTS: Final = (
    "pages",
    "uploads",
    "full-disk-embedded",
    "full-disk-full",
    "outages-database",
    "outages-store",
    "kills-embedded",
    "kills-full",
    "large-bundle",
    "malformed",
)


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for.

    Returns:
        Exit status.
    """
    chosen = _flags().parse_args(arguments)
    for name in chosen.only or _PARTS:
        earlier = _results(chosen.out).get(name) if chosen.add else None
        part = _parts(chosen, first=slice_start(earlier))[name]
        folder = chosen.data or Path(tempfile.mkdtemp(prefix=f"k3-soak-{name}-"))
        started = time.monotonic()
        try:
            found = asdict(part(folder / "data"))
        finally:
            if chosen.data is None:
                shutil.rmtree(folder, ignore_errors=True)
        result = {**found, **_birth(chosen.commit, time.monotonic() - started)}
        sys.stderr.write(f"{name}: {json.dumps(result)}\n")
        # Read again each time: another process may run other parts meanwhile.
        results = _results(chosen.out)
        results[name] = result if earlier is None else added(earlier, result)
        chosen.out.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    return 0


def _results(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m k3server_testing.soak", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="file of the results")
    parser.add_argument("--commit", default="unknown", help="what was measured")
    parser.add_argument("--only", action="append", choices=_PARTS, help="repeatable")
    parser.add_argument("--data", type=Path, help="folder that stays; pages are filled in once")
    parser.add_argument(
        "--add", action="store_true", help="add kills or malformed bundles to those in the file"
    )
    parser.add_argument("--uploads", type=int, default=200)
    parser.add_argument("--upload-mib", type=int, default=50)
    parser.add_argument("--kills", type=int, default=200, help="on each stack")
    parser.add_argument(
        "--kill-minutes", type=float, default=math.inf, help="no further kill on a stack after that"
    )
    parser.add_argument("--outages", type=int, default=20, help="of the database, of the store")
    parser.add_argument("--full-disks", type=int, default=100, help="on each stack")
    parser.add_argument("--malformed", type=int, default=100_000)
    parser.add_argument("--malformed-sent", type=int, default=200, help="of those, to a registry")
    parser.add_argument("--large-mib", type=int, default=1024)
    parser.add_argument("--submissions", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=1000, help="requests per page")
    return parser


def _parts(chosen: argparse.Namespace, *, first: int) -> dict[str, Callable[[Path], Any]]:
    within_s = 60 * chosen.kill_minutes
    kills = partial(run_kills, kills=chosen.kills, seed=_SEED + first, within_s=within_s)
    outages = partial(run_outages, outages=chosen.outages, seed=_SEED)
    full_disk = partial(run_full_disk, rounds=chosen.full_disks, seed=_SEED)
    return {
        "pages": partial(run_pages, count=chosen.submissions, requests=chosen.requests, seed=_SEED),
        "uploads": partial(
            run_uploads,
            uploads=chosen.uploads,
            cut=max(1, chosen.uploads // 100),
            size_bytes=chosen.upload_mib << 20,
            seed=_SEED,
        ),
        "full-disk-embedded": partial(full_disk, stack="embedded", most_room_bytes=200_000),
        "full-disk-full": partial(full_disk, stack="full", most_room_bytes=40_000),
        "outages-database": partial(outages, what="database"),
        "outages-store": partial(outages, what="store"),
        "kills-embedded": partial(kills, stack="embedded"),
        "kills-full": partial(kills, stack="full"),
        "large-bundle": partial(run_large_bundle, mib=chosen.large_mib, seed=_SEED),
        "malformed": partial(
            run_malformed,
            count=chosen.malformed,
            sent=chosen.malformed_sent,
            first=first,
            processes=len(os.sched_getaffinity(0)),
        ),
    }


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
