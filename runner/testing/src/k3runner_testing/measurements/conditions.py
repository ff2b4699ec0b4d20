"""Under which conditions a measurement was taken. Goes into every result file."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["conditions"]


def conditions() -> dict[str, str | int | float]:
    """Machine, versions, commit and how busy the machine was."""
    return {
        "at_utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": _output("git", "rev-parse", "HEAD"),
        "changed_files": len(_output("git", "status", "--short", "--", "runner", "bundle").split()),
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "nice": os.nice(0),
        "load_average_1min": os.getloadavg()[0],
    }


def _output(*command: str) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.strip()


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"
