"""The command line and the environment of a booted engine. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from k3bundle.plan import Deployment
from k3runner.subjects.definition import Subject, SubjectArm

__all__ = ["EngineCommand", "engine_command", "process_environment", "public_command"]

_INHERITED = (
    *("HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "CUDA_VISIBLE_DEVICES"),
    "PYTHONPYCACHEPREFIX",
)
"""All that an engine gets from the environment of the runner."""
_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class EngineCommand:
    """How one boot is started."""

    argv: tuple[str, ...]
    """Program and arguments."""
    environment: Mapping[str, str]
    """The whole environment."""
    port: int
    """Port on 127.0.0.1."""


def engine_command(
    *,
    subject: Subject,
    deployment: Deployment,
    arm: SubjectArm,
    engine_python: Path,
    model_folder: Path,
    port: int,
    inherited: Mapping[str, str],
    tools: Path,
) -> EngineCommand:
    """Builds the command of a boot.

    Args:
        subject: The engine.
        deployment: How both arms are started alike.
        arm: The arm that is booted.
        engine_python: Python of the engine's environment.
        model_folder: Model that is served.
        port: Port on 127.0.0.1.
        inherited: Environment of the runner; only names that are allowed go through.
        tools: Folder of `write_engine_tools`, last on the engine's PATH.
    """
    environment = process_environment(inherited, engine_python, tools)
    environment |= subject.engine.environment
    environment |= deployment.environment
    environment |= arm.spec.environment
    if arm.overlay is not None:
        environment["PYTHONPATH"] = str(arm.overlay)
    argv = (
        str(engine_python),
        *subject.engine.launch,
        str(model_folder),
        *("--served-model-name", subject.model.name),
        *("--host", "127.0.0.1", "--port", str(port)),
        *subject.engine.arguments,
        *deployment.engine_arguments,
        *arm.spec.engine_arguments,
    )
    return EngineCommand(argv=argv, environment=environment, port=port)


def process_environment(
    inherited: Mapping[str, str], engine_python: Path, tools: Path
) -> dict[str, str]:
    """What every process of an engine's environment gets.

    Args:
        inherited: Environment of the runner; only names that are allowed go through, so that no
            agent, token or key of the user does.
        engine_python: Python of the engine's environment.
        tools: Folder of programs, last on the PATH.
    """
    environment = {name: inherited[name] for name in _INHERITED if name in inherited}
    # What else lies on the user's PATH is no part of the engine; a subject may name more.
    environment["PATH"] = f"{engine_python.parent}:{_SYSTEM_PATH}:{tools}"
    environment["PYTHONNOUSERSITE"] = "1"
    # An engine that hangs is aborted, and then writes where each of its threads was.
    environment["PYTHONFAULTHANDLER"] = "1"
    return environment


def public_command(argv: tuple[str, ...], places: Mapping[str, str]) -> tuple[str, ...]:
    """The command as it is recorded: paths of this machine become placeholders.

    Args:
        argv: Program and arguments.
        places: Path or value -> placeholder, for example the model folder -> `<model>`.
    """
    return tuple(places.get(word, word) for word in argv)
