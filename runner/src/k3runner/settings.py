"""The only reader of flags' defaults and of the environment; resolves to one full `RunConfig`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from k3runner.errors import MachineError, UsageError
from k3runner.image import AssertedImage, resolve_image
from k3runner.plan import Pairing
from k3runner.subjects import Subject, load_subject
from k3runner.tiers import Tier
from k3runner.tiers.own_files import load_tier_with
from k3runner.web_address import check_address

__all__ = [
    "SETTINGS",
    "RunConfig",
    "TimeLimits",
    "resolve",
    "resolve_agent",
    "resolve_engine_port",
    "resolve_engine_python",
    "resolve_key",
    "resolve_model",
    "resolve_registry",
    "resolve_runs",
    "resolve_state",
    "resolve_token",
]

SETTINGS: Mapping[str, str] = {
    "K3EVAL_ENGINE_PYTHON": "Python of the engine's own environment.",
    "K3EVAL_MODEL": "Folder of the model that the engine serves.",
    "K3EVAL_RUNS": "Folder that holds run folders.",
    "K3EVAL_REGISTRY": "URL of the registry.",
    "K3EVAL_TOKEN": "API token of the registry; nothing of it is written anywhere.",
    "K3EVAL_KEY": "SSH private key that signs bundles; made when it does not exist.",
    "K3EVAL_ENGINE_PORT": "Port for the engine on 127.0.0.1; a free one when not set.",
    "K3EVAL_ENGINE_USER": "User that engines run as under a root runner; `same`: the runner's.",
    "K3EVAL_STATE": "Folder in which the runner remembers which runs were started.",
    "K3EVAL_IMAGE_DIGEST": "OCI manifest digest of the image, as its launcher asserts it.",
    "K3EVAL_IMAGE_ARCHITECTURE": "Architecture of that image, for example `linux/arm64`.",
}
"""Every environment variable that is read, with its meaning."""

_ENGINE_PYTHON = Path(".k3eval/env/engine/bin/python")
_MODEL = Path(".k3eval/model/k3-tiny")
_RUNS = Path(".k3eval/runs")
_KEY = Path(".k3eval/key/id_ed25519")
_LAST_PORT = 65535
_TOKEN = re.compile(r"[!-~]{8,4096}")
_OWN_MACHINE = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class TimeLimits:
    """How long the runner waits before it calls something dead, in seconds."""

    ready_s: float = 600.0
    """From start of the engine to healthy."""
    request_idle_s: float = 60.0
    """Without a byte on one stream before the request counts as timed out."""
    stop_s: float = 10.0
    """From SIGTERM to SIGKILL."""
    probe_s: float = 120.0
    """For one administrative request to the engine."""


@dataclass(frozen=True)
class RunConfig:
    """Everything that a run needs to know, with nothing left to look up."""

    tier: Tier
    """Cells and gates."""
    subject: Subject
    """Engine and arms."""
    subject_source: str
    """Where the subject was loaded from: a shipped name, or an absolute path."""
    pairing: Pairing
    """`single` exactly when `engine_url` is given, `package` where the tier asks a package."""
    engine_python: Path | None
    """Python of the engine's environment; None for an existing server."""
    engine_url: str | None
    """Base URL of an existing server, without a trailing slash; None to boot engines."""
    engine_port: int | None
    """Port for booted engines; None: a free one per boot."""
    model_folder: Path | None
    """Folder of the served model; may be None only for an existing server or a kernel package."""
    runs_folder: Path
    """Where the run folder is created."""
    key_path: Path
    """Signing key."""
    registry_url: str | None
    """Registry to ask for a nonce; None: a local random nonce."""
    engine_user: str | None
    """User that engines run as when the runner is root; None: `nobody` where that works."""
    image: AssertedImage
    """The image, as its launcher names it."""
    limits: TimeLimits
    """Time limits."""
    prompt_file: Path | None = None
    """File that prompts of serving cells come from; None: made from the nonce."""
    trace_file: Path | None = None
    """Trace that one more serving cell replays; None: none does."""
    state_folder: Path | None = None
    """Folder in which it is remembered which runs were started; None: nothing is."""
    agent_socket: Path | None = None
    """Socket of the user's ssh-agent; None: there is none."""
    only_deployments: tuple[str, ...] = ()
    """Deployments that the plan is restricted to; empty: all of the subject."""


def resolve(
    *,
    environ: Mapping[str, str],
    tier: str = "smoke",
    subject: str | None = None,
    engine_python: Path | None = None,
    engine_url: str | None = None,
    model: Path | None = None,
    runs: Path | None = None,
    key: Path | None = None,
    registry: str | None = None,
    limits: TimeLimits | None = None,
    prompts: Path | None = None,
    trace: Path | None = None,
    deployments: Sequence[str] = (),
) -> RunConfig:
    """Resolves flags, environment and defaults, in this order, and checks what can be checked.

    Args:
        environ: The process environment (`os.environ`); passed in so that tests own it.
        tier: Name of the tier.
        subject: Shipped subject name or path of a subject file; None: that of the tier.
        engine_python: Python of the engine's environment.
        engine_url: An existing OpenAI-compatible server; nothing is booted then.
        model: Model folder.
        runs: Folder of run folders.
        key: SSH private key.
        registry: Registry to ask for a nonce. Only this flag asks one; the environment
            variable alone does not, so that a plain run works without a network.
        limits: Time limits.
        prompts: File that prompts of serving cells come from.
        trace: Trace that one more serving cell replays.
        deployments: Deployments that the plan is restricted to; none: all of the subject.

    Raises:
        UsageError: The tier, subject, prompts, trace, image or a URL or port is wrong.
        MachineError: The engine's Python or the model is not there.
    """
    tier_found = load_tier_with(tier, prompts, trace)
    source = subject or tier_found.subject
    subject_found = load_subject(source)
    if engine_url is not None:
        check_address(engine_url, "--engine-url")
    python_found = None
    if engine_url is None:
        python_found = _existing_python(
            engine_python or Path(environ.get("K3EVAL_ENGINE_PYTHON") or _ENGINE_PYTHON)
        )
    model_found = _model(tier_found, engine_url, model, environ)
    if registry is not None:
        check_address(registry, "--registry")
    return RunConfig(
        tier=tier_found,
        subject=subject_found,
        subject_source=str(Path(source).absolute()) if source.endswith(".toml") else source,
        pairing=_pairing(tier_found, engine_url),
        engine_python=python_found,
        engine_url=None if engine_url is None else engine_url.rstrip("/"),
        engine_port=_port(environ.get("K3EVAL_ENGINE_PORT")),
        model_folder=model_found,
        runs_folder=resolve_runs(runs, environ),
        key_path=resolve_key(key, environ),
        registry_url=None if registry is None else registry.rstrip("/"),
        engine_user=environ.get("K3EVAL_ENGINE_USER") or None,
        image=resolve_image(environ),
        limits=limits or TimeLimits(),
        prompt_file=None if prompts is None else prompts.absolute(),
        trace_file=None if trace is None else trace.absolute(),
        state_folder=resolve_state(environ),
        agent_socket=resolve_agent(environ),
        only_deployments=tuple(deployments),
    )


def _model(
    tier: Tier, engine_url: str | None, flag: Path | None, environ: Mapping[str, str]
) -> Path | None:
    """The model's folder; None where nothing is served, or where only its name is known."""
    if tier.kernels:
        return None
    named = str(flag) if flag else environ.get("K3EVAL_MODEL")
    if engine_url is not None:
        return _existing_model(Path(named)) if named else None
    return _existing_model(Path(named or _MODEL))


def _pairing(tier: Tier, engine_url: str | None) -> Pairing:
    if engine_url is not None:
        return "single"
    return "package" if tier.kernels else "paired"


def resolve_runs(flag: Path | None, environ: Mapping[str, str]) -> Path:
    """The absolute folder of run folders: flag, then `K3EVAL_RUNS`, then `.k3eval/runs`."""
    return (flag or Path(environ.get("K3EVAL_RUNS") or _RUNS)).absolute()


def resolve_engine_python(flag: Path | None, environ: Mapping[str, str]) -> Path:
    """The absolute path of the engine's Python, whether or not it is there.

    Taken from the flag, then `K3EVAL_ENGINE_PYTHON`, then the place that `make eval` uses.
    """
    # absolute(), not resolve(): a venv's python is a link whose own place says which venv it is.
    return (flag or Path(environ.get("K3EVAL_ENGINE_PYTHON") or _ENGINE_PYTHON)).absolute()


def resolve_model(flag: Path | None, environ: Mapping[str, str]) -> Path:
    """The absolute model folder, there or not: flag, then `K3EVAL_MODEL`, then the default."""
    return (flag or Path(environ.get("K3EVAL_MODEL") or _MODEL)).absolute()


def resolve_engine_port(environ: Mapping[str, str]) -> int | None:
    """The port named by `K3EVAL_ENGINE_PORT`; None when a free one is to be chosen.

    Raises:
        UsageError: It names something else.
    """
    return _port(environ.get("K3EVAL_ENGINE_PORT"))


def resolve_key(flag: Path | None, environ: Mapping[str, str]) -> Path:
    """The absolute path of the signing key: flag, then `K3EVAL_KEY`, then the default."""
    return (flag or Path(environ.get("K3EVAL_KEY") or _KEY)).absolute()


def resolve_agent(environ: Mapping[str, str]) -> Path | None:
    """The socket of the user's ssh-agent, as `SSH_AUTH_SOCK` names it; None where it does not."""
    named = environ.get("SSH_AUTH_SOCK")
    return Path(named).absolute() if named else None


def resolve_state(environ: Mapping[str, str]) -> Path | None:
    """The folder of the runner's state; None where no variable says where it could be.

    `K3EVAL_STATE`, else `k3-eval` in `XDG_STATE_HOME`, else in `.local/state` of `HOME`.
    """
    if own := environ.get("K3EVAL_STATE"):
        return Path(own).absolute()
    home = environ.get("HOME")
    shared = environ.get("XDG_STATE_HOME") or (f"{home}/.local/state" if home else None)
    return None if shared is None else Path(shared).absolute() / "k3-eval"


def resolve_registry(flag: str | None, environ: Mapping[str, str]) -> str | None:
    """The registry's URL without trailing slash: flag, then `K3EVAL_REGISTRY`, else None."""
    found = flag or environ.get("K3EVAL_REGISTRY")
    if not found:
        return None
    check_address(found, "The registry URL")
    return found.rstrip("/")


def resolve_token(flag: Path | None, environ: Mapping[str, str], registry: str) -> str | None:
    """The API token for a registry: the flag's file, then `K3EVAL_TOKEN`, else None.

    Args:
        flag: File with the token; spaces and line ends around it do not count.
        environ: The process environment.
        registry: Address that it is sent to.

    Raises:
        UsageError: The file cannot be read, holds no token, or the address would show it to others.
    """
    token = environ.get("K3EVAL_TOKEN", "").strip()
    if flag is not None:
        try:
            token = flag.read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            raise UsageError(
                f"No token can be read from {flag}: {getattr(error, 'strerror', error)}.",
                "Give the file that holds what `k3-registry token` printed.",
            ) from error
    if flag is None and not token:
        return None
    if not _TOKEN.fullmatch(token):
        # The token itself is a secret, so it is not shown.
        raise UsageError(
            "The token is not one line of 8 to 4096 printable characters without spaces.",
            "Give exactly what `k3-registry token` printed.",
        )
    parts = urlsplit(registry)
    if parts.scheme != "https" and parts.hostname not in _OWN_MACHINE:
        raise UsageError(
            f"A token would be readable on its way to {registry}.",
            "Use an https address; http is enough for a registry on this machine only.",
        )
    return token


def _existing_python(path: Path) -> Path:
    # absolute(), not resolve(): a venv's python is a link whose own place says which venv it is.
    if not path.is_file():
        raise MachineError(
            f"No engine Python at {path}.",
            "Run `make eval`, or give --engine-python or K3EVAL_ENGINE_PYTHON.",
        )
    return path.absolute()


def _existing_model(path: Path) -> Path:
    if not (path / "config.json").is_file():
        raise MachineError(
            f"No model at {path}: it has no config.json.",
            "Run `make eval`, or give --model or K3EVAL_MODEL.",
        )
    return path.absolute()


def _port(text: str | None) -> int | None:
    if not text:
        return None
    if not text.isdigit() or not 0 < int(text) <= _LAST_PORT:
        raise UsageError(
            f"K3EVAL_ENGINE_PORT must be a port from 1 to 65535, found `{text}`.", "Correct it."
        )
    return int(text)
