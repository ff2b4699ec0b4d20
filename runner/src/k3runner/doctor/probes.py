"""Small probes, one per fact. All I/O of `k3-eval doctor` is here; nothing is judged here."""

import os
import platform
import shutil
import socket
import stat
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from k3bundle.sign import SigningKeyError, load_signer
from k3runner.doctor.accelerator_probe import accelerators_of_this_machine
from k3runner.doctor.engine_probe import probe_engine
from k3runner.doctor.facts import (
    DoctorFacts,
    EngineUserFacts,
    ImagePlace,
    ModelFacts,
    RegistryFacts,
)
from k3runner.errors import UsageError
from k3runner.image import AssertedImage, resolve_image
from k3runner.leftovers import left_sentences
from k3runner.separation.engine_user import SameUser, choose_engine_user

__all__ = ["Places", "probe"]

_CLOCK_READINGS: Final = 20_000
_LONGEST_TEXT: Final = 1500
_CONTAINER_MARKS: Final = ("/.dockerenv", "/run/.containerenv")
"""Files that container engines put into every container."""
_MODEL_FILES: Final = ("config.json", "tokenizer_config.json")


@dataclass(frozen=True)
class Places:
    """What is probed: every path and address, resolved."""

    engine_python: Path
    model: Path
    runs: Path
    key: Path
    port: int | None
    registry: str | None
    agent: Path | None = None
    """Socket of the ssh-agent."""
    engine_user: str | None = None
    """What the user says of the engine's user."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The process environment; what a launcher says of the image is read from it."""


def probe(places: Places) -> DoctorFacts:
    """Look at the machine. Takes a few seconds, most of them waiting for the engine's Python."""
    steps_back, resolution = _clock()
    folder_error = _write_error(places.runs)
    return DoctorFacts(
        python_implementation=platform.python_implementation(),
        python_version=platform.python_version(),
        architecture=platform.machine(),
        cpu_count=len(os.sched_getaffinity(0)),
        load_per_cpu=_load_per_cpu(),
        memory_available_bytes=_memory_available(),
        gpus=_gpus(Path("/proc/driver/nvidia/gpus")),
        accelerators=accelerators_of_this_machine(),
        clock_steps_back=steps_back,
        clock_resolution_ns=resolution,
        runs_folder=str(places.runs),
        runs_folder_error=folder_error,
        disk_free_bytes=shutil.disk_usage(_nearest_existing(places.runs)).free,
        port=places.port,
        port_error=None if places.port is None else _port_error(places.port),
        key=str(places.key),
        key_exists=places.key.is_file(),
        key_mode=stat.S_IMODE(places.key.stat().st_mode) if places.key.is_file() else None,
        key_error=_key_error(places.key, places.agent),
        engine=probe_engine(places.engine_python),
        engine_user=_engine_user(places),
        model=_model(places.model),
        registry=None if places.registry is None else _registry(places.registry),
        image=_image(places.environ),
        left_behind=left_sentences(places.runs),
    )


def _image(environ: Mapping[str, str]) -> ImagePlace | None:
    try:
        found = resolve_image(environ)
    except UsageError as error:
        sentence = f"{error.problem} {error.hint}"
        return ImagePlace(digest=None, architecture=None, error=sentence[:_LONGEST_TEXT])
    if found == AssertedImage() and not any(Path(mark).exists() for mark in _CONTAINER_MARKS):
        return None
    return ImagePlace(digest=found.digest, architecture=found.architecture, error=None)


def _key_error(key: Path, agent: Path | None) -> str | None:
    if not key.is_file() and key.suffix != ".pub":
        return None
    try:
        load_signer(key, agent)
    except SigningKeyError as error:
        return str(error)[:_LONGEST_TEXT]
    return None


def _engine_user(places: Places) -> EngineUserFacts | None:
    """As whom a run would start engines; not known where there is no engine to try."""
    if not places.engine_python.is_file():
        return None
    model = sorted(places.model.iterdir()) if places.model.is_dir() else []
    readable = [places.engine_python.parent.parent, *model]
    try:
        found = choose_engine_user(
            places.engine_user, engine_python=places.engine_python, readable=readable
        )
    except UsageError as error:
        return EngineUserFacts(name=None, why_same=None, error=error.problem[:_LONGEST_TEXT])
    if isinstance(found, SameUser):
        return EngineUserFacts(name=None, why_same=found.reason[:_LONGEST_TEXT], error=None)
    return EngineUserFacts(name=found.name, why_same=None, error=None)


def _clock() -> tuple[int, int]:
    readings = [time.monotonic_ns() for _ in range(_CLOCK_READINGS)]
    steps = [after - before for before, after in pairwise(readings)]
    forward = [step for step in steps if step > 0]
    return sum(step < 0 for step in steps), min(forward, default=0)


def _load_per_cpu() -> float | None:
    try:
        return os.getloadavg()[0] / len(os.sched_getaffinity(0))
    except OSError:
        return None


def _memory_available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
    except OSError:
        return None
    fields: Mapping[str, str] = dict(line.split(":", 1) for line in lines if ":" in line)
    words = fields.get("MemAvailable", "").split()
    return int(words[0]) * 1024 if words else None


def _gpus(driver_folder: Path) -> tuple[str, ...]:
    """Names from the driver's own files, so that no GPU library has to be loaded."""
    if not driver_folder.is_dir():
        return ()
    names = []
    for information in sorted(driver_folder.glob("*/information")):
        for line in information.read_text("utf-8", "replace").splitlines():
            if line.startswith("Model:"):
                names.append(line.removeprefix("Model:").strip())
    return tuple(names)


def _nearest_existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _write_error(folder: Path) -> str | None:
    """Why a file cannot be made in the folder or, when it is not there, the folder itself."""
    place = _nearest_existing(folder)
    if not place.is_dir():
        return f"{place} is not a folder"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"no permission to write to {place}"
    return None


def _port_error(port: int) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            return error.strerror or str(error)
    return None


def _model(folder: Path) -> ModelFacts:
    if not folder.is_dir():
        return ModelFacts(folder=str(folder), exists=False, missing=(), size_bytes=0)
    missing = [name for name in _MODEL_FILES if not (folder / name).is_file()]
    if not any(folder.glob("*.safetensors")):
        missing.append("*.safetensors")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return ModelFacts(folder=str(folder), exists=True, missing=tuple(missing), size_bytes=size)


def _registry(url: str) -> RegistryFacts:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=5) as response:  # noqa: S310
            return RegistryFacts(url=url, status=response.status, error=None)
    except urllib.error.HTTPError as error:
        return RegistryFacts(url=url, status=error.code, error=None)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        why = getattr(reason, "strerror", None) or str(reason)
        return RegistryFacts(url=url, status=None, error=why[:200])
