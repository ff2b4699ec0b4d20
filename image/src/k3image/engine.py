"""Container engines: buildah or podman builds, podman runs, in a store of their own."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from k3image.problem import ImageError

__all__ = [
    "Store",
    "Told",
    "builder_versions",
    "find_builder",
    "mounts_below",
    "open_store",
    "run_root",
]

_CAN_RAISE_LIMITS: Final = 24
"""Bit of CAP_SYS_RESOURCE."""
_NAMES: Final = ("buildah", "podman")
_RUNNING: Final = Path("/run")
_INSTALL: Final = "on Debian or Ubuntu: apt-get install buildah podman runc skopeo"


def find_builder() -> str:
    """The program that builds here.

    Raises:
        ImageError: There is none.
    """
    for name in _NAMES:
        if shutil.which(name):
            return name
    raise ImageError(
        "Neither buildah nor podman is here, and an image is built with one of them.", _INSTALL
    )


def builder_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Versions of programs; those that are not here are left out."""
    found = {}
    for name in names:
        if shutil.which(name):
            said = subprocess.run(
                [name, "--version"], capture_output=True, text=True, check=False
            ).stdout
            match = re.search(r"\d+(\.\d+)+", said)
            found[name] = match[0] if match else "unknown"
    return found


@dataclass(frozen=True)
class Told:
    """How long a program took."""

    status: int
    first: float
    """Seconds to its first line."""
    last: float
    """Seconds to its end."""


@dataclass(frozen=True)
class Store:
    """Images and containers in a folder of ours, apart from the user's."""

    folder: Path
    environment: dict[str, str]

    def run(self, *command: str, quiet: bool = True) -> str:
        """Run a program on this store and return what it said on stdout.

        Raises:
            ImageError: It is not here, or fails.
        """
        try:
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if quiet else None,
                text=True,
                check=False,
                env=os.environ | self.environment,
                # What packages and builds write must not depend on how this shell is set.
                umask=0o022,
            )
        except OSError as error:
            raise ImageError(f"{command[0]} is not here.", _INSTALL) from error
        if done.returncode != 0:
            said = (done.stderr or "").strip().splitlines()
            raise ImageError(
                f"{' '.join(command[:2])} failed: {' | '.join(said[-4:]) or 'see above'}",
                "the lines above it say more; the same command can be run again.",
            )
        return done.stdout.strip()

    def status_of(self, *command: str) -> int:
        """Run a program on this store with its words shown, and return its exit status."""
        return subprocess.run(command, check=False, env=os.environ | self.environment).returncode

    def seconds_to_words(self, *command: str) -> Told:
        """Run a program, pass on what it says, and note how long one waits for its words."""
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | self.environment,
        )
        first = None
        with process:
            for line in process.stdout or ():
                first = time.monotonic() - began if first is None else first
                sys.stderr.write(line.decode("utf-8", "replace"))
                sys.stderr.flush()
        last = time.monotonic() - began
        return Told(process.returncode, last if first is None else first, last)

    def remove(self) -> None:
        """Remove the store with all that is in it."""
        # The last first: one lies on the other where a build was stopped.
        for folder in (self.folder, run_root(self.folder)):
            for mounted in reversed(mounts_below(folder, Path("/proc/self/mounts").read_text())):
                subprocess.run(["umount", mounted], check=False)
            shutil.rmtree(folder, ignore_errors=True)


def run_root(folder: Path, running: Path = _RUNNING) -> Path:
    """Where a store keeps what it knows of running containers.

    Its name is short: with one of more than 50 characters podman's own cleaning of a container that
    ended fails, and podman then waits 20 s for it.

    Args:
        folder: Folder of the store.
        running: The system's folder for what is gone with the next start.
    """
    if os.access(running, os.W_OK):
        return running / f"k3-image-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}"
    return folder / "run"


def mounts_below(folder: Path, mounts: str) -> list[str]:
    """What is mounted below a folder, in the order of mounting. Pure.

    Args:
        folder: The folder.
        mounts: The kernel's table, which writes a space in a name in octal.
    """
    places = [line.split()[1].replace(r"\040", " ") for line in mounts.splitlines()]
    return [place for place in places if Path(place).is_relative_to(folder)]


def open_store(folder: Path) -> Store:
    """A store in this folder, with settings that work where less than usual is allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    limits = [] if _may_raise_limits() else [f"nofile={_hard_limit()}", "nproc=4096:4096"]
    containers = folder / "containers.conf"
    containers.write_text(
        f"[containers]\ndefault_ulimits = {limits}\n"
        "[engine]\n"
        # crun refuses machines that mount both versions of control groups.
        + ('runtime = "runc"\n' if Path("/sys/fs/cgroup/unified").is_dir() else "")
        + 'cgroup_manager = "cgroupfs"\nevents_logger = "none"\n'
    )
    storage = folder / "storage.conf"
    storage.write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/storage"\n'
        f'runroot = "{run_root(folder)}"\n'
    )
    return Store(
        folder,
        {"CONTAINERS_CONF": str(containers), "CONTAINERS_STORAGE_CONF": str(storage)},
    )


def _may_raise_limits() -> bool:
    status = Path("/proc/self/status").read_text()
    match = re.search(r"(?m)^CapEff:\s*([0-9a-f]+)", status)
    return bool(match and int(match[1], 16) >> _CAN_RAISE_LIMITS & 1)


def _hard_limit() -> str:
    # Imported here: it is there on Unix only, as everything that this function is for.
    import resource  # noqa: PLC0415

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return f"{hard}:{hard}"
