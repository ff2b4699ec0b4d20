"""What a result on a GPU needs beside it to mean anything."""

import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

import torch

__all__ = ["circumstances", "typed_command"]


def typed_command(module: str, arguments: Sequence[str] | None) -> str:
    """The command line that runs a module with these arguments; None for those of the process."""
    words = sys.argv[1:] if arguments is None else arguments
    return shlex.join(["python", "-m", module, *words])


def circumstances(commit: str, command: str) -> dict[str, str]:
    """GPU, driver, versions, commit, command and time of this run.

    Args:
        commit: of the code that runs; a copy of the sources does not know it.
        command: what was typed.
    """
    query = ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm", "--format=csv,noheader"]
    found = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    driver, clock = (part.strip() for part in found[0].split(","))
    return {
        "gpu": torch.cuda.get_device_name(),
        "driver": driver,
        "maximum_sm_clock": clock,
        "torch": str(torch.__version__),
        "cutlass_dsl": version("nvidia-cutlass-dsl"),
        "python": platform.python_version(),
        "commit": commit,
        "command": command,
        "measured_at_utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
