"""Judges what the probes found. Pure, so that a machine can be judged from its facts file."""

import re
from typing import Final

from k3runner.doctor.accelerator_judgement import judge_accelerators
from k3runner.doctor.check import Check
from k3runner.doctor.facts import DoctorFacts, EngineFacts, EngineUserFacts
from k3runner.doctor.place_judgement import judge_place
from k3runner.wording import bytes_text, plural

__all__ = ["Check", "judge"]

_OLDEST_PYTHON: Final = (3, 11)
_LEAST_DISK_BYTES: Final = 1 << 30
_LEAST_MEMORY_BYTES: Final = 3 << 30
_BUSY_LOAD: Final = 0.7
_COARSE_CLOCK_NS: Final = 100_000
_OK_STATUS: Final = 200


def judge(facts: DoctorFacts) -> tuple[Check, ...]:
    """Return one check for each thing, in the order a person would fix them."""
    return (
        _python(facts),
        *_engine(facts.engine),
        *_engine_user(facts.engine_user),
        _model(facts),
        _runs_folder(facts),
        _disk(facts),
        _memory(facts),
        _port(facts),
        _key(facts),
        _clock(facts),
        _load(facts),
        *_accelerators(facts),
        *judge_place(facts),
        _tiers(facts),
        _registry(facts),
    )


def _python(facts: DoctorFacts) -> Check:
    name = "python"
    found = f"{facts.python_implementation} {facts.python_version}"
    version = tuple(int(part) for part in re.findall(r"\d+", facts.python_version)[:2])
    if facts.python_implementation != "CPython" or version < _OLDEST_PYTHON:
        return Check(
            name,
            "problem",
            f"The referee needs CPython 3.11 or newer, found {found}.",
            "Install CPython 3.11 and run `make eval` with it.",
        )
    return Check(name, "ok", f"The referee runs on {found}.", "")


def _engine(engine: EngineFacts) -> tuple[Check, ...]:
    remedy = "Run `make eval` once, or give --engine-python or K3EVAL_ENGINE_PYTHON."
    if not engine.exists:
        return (Check("engine", "problem", f"No engine Python at {engine.python}.", remedy),)
    if engine.error is not None:
        sentence = f"The engine Python at {engine.python} did not answer: {engine.error}."
        return (Check("engine", "problem", sentence, remedy),)
    if engine.engine_distribution is None:
        sentence = f"The environment of {engine.python} holds no vLLM."
        return (Check("engine", "problem", sentence, remedy),)
    found = f"{engine.engine_distribution} on Python {engine.python_version}"
    return (Check("engine", "ok", f"The engine is {found}.", ""), _plugin(engine))


def _engine_user(user: EngineUserFacts | None) -> tuple[Check, ...]:
    name = "engine user"
    if user is None:
        return ()
    if user.error is not None:
        remedy = "Correct K3EVAL_ENGINE_USER, or unset it."
        return (Check(name, "problem", user.error, remedy),)
    if user.name is None:
        sentence = f"Engines run as the referee's own user. {user.why_same or ''}".rstrip()
        remedy = (
            "As root, and with an engine and a model that `nobody` can read, they run as another "
            "user; see K3EVAL_ENGINE_USER."
        )
        return (Check(name, "warning", sentence, remedy),)
    sentence = f"Engines run as {user.name}, who cannot write the referee's files."
    return (Check(name, "ok", sentence, ""),)


def _plugin(engine: EngineFacts) -> Check:
    remedy = "Install k3decode into the engine's environment: `make eval` does."
    if engine.plugin_version is None:
        return Check("plugin", "problem", "The engine's environment holds no k3decode.", remedy)
    if engine.plugin_error is not None:
        sentence = f"k3decode {engine.plugin_version} is not usable: {engine.plugin_error}."
        return Check("plugin", "problem", sentence, remedy)
    sentence = f"k3decode {engine.plugin_version} is registered as an engine plugin."
    return Check("plugin", "ok", sentence, "")


def _model(facts: DoctorFacts) -> Check:
    model = facts.model
    remedy = "Run `make eval` once, which makes it, or give --model or K3EVAL_MODEL."
    if not model.exists:
        return Check("model", "problem", f"No model at {model.folder}.", remedy)
    if model.missing:
        sentence = f"The model at {model.folder} lacks {', '.join(model.missing)}."
        return Check("model", "problem", sentence, remedy)
    size = bytes_text(model.size_bytes)
    return Check("model", "ok", f"The model at {model.folder} is there ({size}).", "")


def _runs_folder(facts: DoctorFacts) -> Check:
    if facts.runs_folder_error is not None:
        return Check(
            "runs folder",
            "problem",
            f"Nothing can be written to {facts.runs_folder}: {facts.runs_folder_error}.",
            "Give a folder that you may write to with --runs or K3EVAL_RUNS.",
        )
    return Check("runs folder", "ok", f"Runs are written to {facts.runs_folder}.", "")


def _disk(facts: DoctorFacts) -> Check:
    free = bytes_text(facts.disk_free_bytes)
    if facts.disk_free_bytes < _LEAST_DISK_BYTES:
        return Check(
            "disk",
            "problem",
            f"A run needs {bytes_text(_LEAST_DISK_BYTES)} of free disk space, found {free}.",
            "Free some, or give a folder on another disk with --runs or K3EVAL_RUNS.",
        )
    return Check("disk", "ok", f"{free} of disk space are free.", "")


def _memory(facts: DoctorFacts) -> Check:
    available = facts.memory_available_bytes
    if available is None:
        sentence = "The system does not say how much memory is available."
        return Check("memory", "warning", sentence, "Make sure that 3 GiB are.")
    if available < _LEAST_MEMORY_BYTES:
        return Check(
            "memory",
            "warning",
            f"The smoke tier's engine wants {bytes_text(_LEAST_MEMORY_BYTES)}, found "
            f"{bytes_text(available)} available.",
            "Stop other programs, or the system may kill the engine.",
        )
    return Check("memory", "ok", f"{bytes_text(available)} of memory are available.", "")


def _port(facts: DoctorFacts) -> Check:
    if facts.port is None:
        return Check("port", "ok", "A free port is chosen for each boot.", "")
    if facts.port_error is not None:
        return Check(
            "port",
            "problem",
            f"Port {facts.port} on 127.0.0.1 cannot be used: {facts.port_error}.",
            "Stop what holds it, or unset K3EVAL_ENGINE_PORT to have a free one chosen.",
        )
    return Check("port", "ok", f"Port {facts.port} on 127.0.0.1 is free.", "")


def _key(facts: DoctorFacts) -> Check:
    in_agent = facts.key.endswith(".pub")
    if facts.key_error is not None and (in_agent or not _is_open(facts)):
        remedy = "Give another key with --key or K3EVAL_KEY."
        return Check("key", "problem", f"The signing key cannot sign: {facts.key_error}", remedy)
    if in_agent:
        return Check("key", "ok", f"The ssh-agent signs bundles with the key of {facts.key}.", "")
    if not facts.key_exists:
        return Check("key", "ok", f"A signing key will be made at {facts.key}.", "")
    if facts.key_mode is not None and _is_open(facts):
        return Check(
            "key",
            "warning",
            f"The signing key {facts.key} can be read by others (mode {facts.key_mode:04o}).",
            f"Run `chmod 600 {facts.key}`.",
        )
    return Check("key", "ok", f"Bundles are signed with {facts.key}.", "")


def _is_open(facts: DoctorFacts) -> bool:
    """Whether others may read the key, which has a remedy of its own."""
    return facts.key_mode is not None and bool(facts.key_mode & 0o077)


def _clock(facts: DoctorFacts) -> Check:
    if facts.clock_steps_back:
        return Check(
            "clock",
            "problem",
            f"The monotonic clock went backwards {facts.clock_steps_back} times.",
            "Measure on another machine; no duration can be trusted here.",
        )
    if facts.clock_resolution_ns > _COARSE_CLOCK_NS:
        return Check(
            "clock",
            "warning",
            f"The monotonic clock moves in steps of {facts.clock_resolution_ns} ns.",
            "Latencies below a millisecond mean little here.",
        )
    sentence = f"The monotonic clock is steady (steps of {facts.clock_resolution_ns} ns)."
    return Check("clock", "ok", sentence, "")


def _load(facts: DoctorFacts) -> Check:
    cpus = plural(facts.cpu_count, "CPU")
    if facts.load_per_cpu is not None and facts.load_per_cpu > _BUSY_LOAD:
        return Check(
            "load",
            "warning",
            f"The {cpus} are busy: load {facts.load_per_cpu:.2f} for each over one minute.",
            "Wait until other programs are done; measured times will be noisy.",
        )
    if facts.cpu_count == 1:
        sentence = "There is one CPU, which engine and load client must share."
        return Check("load", "warning", sentence, "Times will be noisy; prefer two CPUs or more.")
    return Check("load", "ok", f"{cpus}, and little else is running.", "")


def _accelerators(facts: DoctorFacts) -> tuple[Check, ...]:
    found = facts.accelerators
    return () if found is None else judge_accelerators(found, facts.engine.cuda)


def _tiers(facts: DoctorFacts) -> Check:
    if not facts.gpus:
        sentence = (
            "No GPU was found: the smoke tier can run; kernels, quick, standard and full need one."
        )
        return Check("tiers", "ok", sentence, "")
    names = ", ".join(facts.gpus)
    sentence = (
        f"{plural(len(facts.gpus), 'GPU')} found ({names}): `k3-eval plan --tier TIER` says which "
        "cells of a tier fit."
    )
    return Check("tiers", "ok", sentence, "")


def _registry(facts: DoctorFacts) -> Check:
    registry = facts.registry
    if registry is None:
        sentence = "No registry is named; a run needs none, `submit` does."
        return Check("registry", "ok", sentence, "")
    remedy = "Start it with `make serve`, or correct --registry or K3EVAL_REGISTRY."
    if registry.error is not None:
        sentence = f"The registry at {registry.url} does not answer: {registry.error}."
        return Check("registry", "warning", sentence, remedy)
    if registry.status != _OK_STATUS:
        sentence = f"The registry at {registry.url} answers {registry.status} instead of 200."
        return Check("registry", "warning", sentence, remedy)
    return Check("registry", "ok", f"The registry at {registry.url} answers.", "")
