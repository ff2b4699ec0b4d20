"""Starts an image the way it is meant to run, and asserts which image it is."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from k3image.engine import Store
from k3image.fetched import host_architecture
from k3image.problem import EXIT_USAGE, ImageError

__all__ = ["Launch", "container_command", "launch", "prepare_results"]

_TEMPORARY: Final = "/tmp:exec,mode=1777"  # noqa: S108


@dataclass(frozen=True)
class Launch:
    """One start of a container."""

    image: str
    digest: str
    """Digest of its manifest, which the launcher asserts."""
    architecture: str
    """The image format's name of it."""
    results: Path
    """Folder that is mounted at /results."""
    uid: int
    gid: int
    arguments: tuple[str, ...]
    """What follows the image's name."""
    model: Path | None = None
    """Folder that is mounted at /model."""
    gpus: bool = False
    networked: bool = False
    entrypoint: str | None = None
    """Another program than the image's own."""


def container_command(asked: Launch) -> list[str]:
    """The command of podman that starts it: read-only, as a user, without a network. Pure."""
    command = [
        *("podman", "run", "--rm", "--read-only", "--tmpfs", _TEMPORARY),
        *("--user", f"{asked.uid}:{asked.gid}", "--cap-drop", "all"),
        *("--security-opt", "no-new-privileges"),
        *("--network", "host" if asked.networked else "none"),
        *("--volume", f"{asked.results}:/results"),
        *("--env", f"K3EVAL_IMAGE_DIGEST={asked.digest}"),
        *("--env", f"K3EVAL_IMAGE_ARCHITECTURE=linux/{asked.architecture}"),
    ]
    if asked.model is not None:
        command += ["--volume", f"{asked.model}:/model:ro"]
    if asked.gpus:
        command += ["--device", "nvidia.com/gpu=all", "--ipc", "host"]
        command += ["--ulimit", "memlock=-1:-1", "--ulimit", "stack=67108864:67108864"]
    if asked.entrypoint is not None:
        command += ["--entrypoint", asked.entrypoint]
    return [*command, asked.image, *asked.arguments]


def launch(store: Store, asked: Launch) -> int:
    """Start the container, wait for it, and return its exit status.

    Raises:
        ImageError: The image is for another machine, or the folder for results cannot be had.
    """
    if asked.architecture != host_architecture():
        raise ImageError(
            f"The image is made for {asked.architecture}, and this machine is "
            f"{host_architecture()}.",
            "build or pull the image for this machine.",
        )
    if asked.model is not None and not asked.model.is_dir():
        raise ImageError(
            f"There is no folder {asked.model} for the model.", "correct MODEL.", EXIT_USAGE
        )
    prepare_results(asked)
    return store.status_of(*container_command(asked))


def prepare_results(asked: Launch) -> None:
    """Make the folder for results, owned by the user that writes to it.

    Raises:
        ImageError: It cannot be made.
    """
    try:
        asked.results.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0 and asked.uid != 0:
            os.chown(asked.results, asked.uid, asked.gid)
    except OSError as error:
        raise ImageError(
            f"The folder for results, {asked.results}, cannot be made: {error.strerror}.",
            "free some space, or name another with RESULTS=DIR.",
        ) from error
