"""Which engine build is installed, and whether its files are those of its wheels."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from k3bundle.subject import EngineBuild, FileDifference
from k3runner import installed_files_script
from k3runner.errors import MachineError
from k3runner.installed_commit import Origin
from k3runner.subjects.definition import EngineLaunch

__all__ = ["EXTERNAL_VERSION", "InstalledEngine", "read_installed_engine"]

EXTERNAL_VERSION = "unknown"
"""What records say about an engine that the runner did not start."""
_LIMIT_S = 300


@dataclass(frozen=True)
class InstalledEngine:
    """The engine's environment."""

    build: EngineBuild
    """The build."""
    remarks: tuple[str, ...]
    """What could not be checked, in sentences."""
    origins: tuple[Origin, ...] = ()
    """Distributions that were fetched from a repository."""


def read_installed_engine(engine: EngineLaunch, engine_python: Path) -> InstalledEngine:
    """Compares the installed engine and decode path with their RECORD files.

    Args:
        engine: Which distributions to look at.
        engine_python: Python of the engine's environment, as a path that is not resolved.

    Raises:
        MachineError: The Python does not run, or holds no engine.
    """
    command = [
        *(str(engine_python), "-I", "-S", installed_files_script.__file__, str(engine_python)),
        json.dumps(engine.distributions),
        json.dumps(engine.path_distributions),
    ]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(
            f"The engine's Python {engine_python} does not run: {error}.",
            "Run `make eval` to make the engine's environment again.",
        ) from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise MachineError(
            f"The engine's environment could not be read: {said[-1] if said else 'no word'}.",
            f"Check that {engine_python} is Python 3.11 or later.",
        )
    found = json.loads(done.stdout)
    if found["engine"] is None:
        raise MachineError(
            f"The environment of {engine_python} holds no engine: none of "
            f"{', '.join(engine.distributions)} is installed there.",
            "Run `make eval`, or give the Python of the environment that holds the engine.",
        )
    name, version = found["engine"]
    return InstalledEngine(
        build=EngineBuild(
            name=engine.name,
            version=version,
            distribution=f"{name} {version}",
            python_version=found["python_version"],
            packages=found["packages"],
            files_checked=found["checked"],
            differences=tuple(
                FileDifference(path=one["path"], kind=one["kind"]) for one in found["differences"]
            ),
        ),
        remarks=tuple(found["remarks"]),
        origins=tuple(Origin(one["name"], one["url"], one["commit"]) for one in found["origins"]),
    )
