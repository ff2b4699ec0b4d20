"""One build in a process and surroundings of its own; `k3image check` starts two of them."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from k3image.build import Built, Say, build
from k3image.engine import open_store
from k3image.fetched import fetch
from k3image.inputs import read_inputs
from k3image.problem import EXIT_ENVIRONMENT, ImageError
from k3image.source import Source
from k3image.surroundings import Surroundings, find_clock

__all__ = ["Apart", "Asked", "build_apart", "start_apart", "store_folder", "wait_for_all"]

_SOURCES: Final = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Asked:
    """What a process of its own builds."""

    flavour: str
    python: Path
    """A Python with pip."""
    cache: Path
    """Folder of fetched inputs."""
    folder: Path
    """Work folder of all builds."""
    name: str
    """Folder in it for this build."""
    days_ahead: int

    def words(self) -> tuple[str, ...]:
        """The arguments that say all this."""
        return (
            *("--flavour", self.flavour, "--python", str(self.python), "--cache", str(self.cache)),
            *("--folder", str(self.folder), "--name", self.name),
            *("--days-ahead", str(self.days_ahead)),
        )


class Apart:
    """A build that runs."""

    def __init__(self, asked: Asked, process: "subprocess.Popen[bytes]") -> None:
        """Note it."""
        self._asked = asked
        self._process = process
        self.store = open_store(store_folder(asked.folder, asked.name))

    def wait(self) -> Built:
        """Wait for its end.

        Raises:
            ImageError: It failed; it has said why.
        """
        status = self._process.wait()
        if status != 0:
            raise ImageError(
                f"The build in {self._asked.name} ended with status {status}.",
                "see the lines above.",
                status if status > 0 else EXIT_ENVIRONMENT,
            )
        return Built(**json.loads(told_file(self._asked.folder, self._asked.name).read_text()))

    def has_failed(self) -> bool:
        """Whether it ended, and not well."""
        return self._process.poll() not in (None, 0)

    def has_ended(self) -> bool:
        """Whether it ended."""
        return self._process.poll() is not None

    def stop(self) -> None:
        """End it, if it still runs."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()


def wait_for_all(builds: "list[Apart]", *, every_s: float = 0.2) -> list[Built]:
    """Wait for builds that run beside each other; the first that fails ends the wait.

    Args:
        builds: The builds.
        every_s: Seconds between two looks at them.

    Raises:
        ImageError: One failed; it has said why, and the others may still run.
    """
    while not all(one.has_ended() for one in builds):
        for one in builds:
            if one.has_failed():
                one.wait()
        time.sleep(every_s)
    return [one.wait() for one in builds]


def store_folder(folder: Path, name: str) -> Path:
    """Where a build has its images."""
    return folder / f"store-{name}"


def told_file(folder: Path, name: str) -> Path:
    """Where a build says what it built."""
    return folder / f"{name}.json"


def start_apart(asked: Asked, around: Surroundings, source: Source) -> Apart:
    """Start a build in a process of its own."""
    asked.folder.mkdir(parents=True, exist_ok=True)
    command = (sys.executable, "-B", "-m", "k3image", "build-apart", "--commit", source.commit)
    sources = os.pathsep.join((str(_SOURCES), str(source.root / "runner" / "src")))
    process = subprocess.Popen(
        around.command((*command, *asked.words())),
        cwd=asked.folder,
        umask=around.umask,
        env=os.environ | dict(around.environment) | {"PYTHONPATH": sources},
    )
    return Apart(asked, process)


def build_apart(asked: Asked, source: Source, say: Say) -> None:
    """Build here and say what was built, for the process that started this one.

    Args:
        asked: What is built, and where.
        source: The commit.
        say: Told what is done, after the name of these surroundings.

    Raises:
        ImageError: A step fails.
    """

    def told(sentence: str) -> None:
        say(f"{asked.name}: {sentence}")

    began = time.monotonic()
    inputs = read_inputs(source.root / "image" / "inputs.toml")
    fetched = fetch(inputs, asked.flavour, source.root, asked.python, asked.cache)
    place = asked.folder / asked.name
    store = open_store(store_folder(asked.folder, asked.name))
    built = build(fetched, source, store, place, told, clock=find_clock(asked.days_ahead))
    shutil.rmtree(place)
    told(f"built {built.digest} in {time.monotonic() - began:.0f} s")
    told_file(asked.folder, asked.name).write_text(json.dumps(asdict(built)))
