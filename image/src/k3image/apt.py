"""Asks apt about another architecture's packages without touching the machine's own state."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from k3image.problem import ImageError

__all__ = ["Apt", "Offered", "mirrors"]

_URI = re.compile(r"^'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+) ", re.M)
_SOURCES = re.compile(r"^(?:URIs: *|deb (?:\[[^\]]*\] )?)(\S+)", re.M)


@dataclass(frozen=True)
class Offered:
    """A package as a mirror offers it now."""

    name: str
    version: str
    file: str
    size: int
    sha256: str


class Apt:
    """A private apt for one architecture: this machine's sources, and nothing installed."""

    def __init__(self, folder: Path, architecture: str) -> None:
        """Make its folders and fetch the lists of packages.

        Raises:
            ImageError: This is no Debian machine, or the mirror cannot be reached.
        """
        for name in ("state/lists/partial", "cache/archives/partial", "etc"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name in ("sources.list", "sources.list.d", "trusted.gpg.d"):
            source = Path("/etc/apt") / name
            if source.is_dir():
                shutil.copytree(source, folder / "etc" / name, dirs_exist_ok=True)
            elif source.is_file():
                shutil.copyfile(source, folder / "etc" / name)
        status = folder / "status"
        status.touch()
        self._options = [
            *("-o", f"Dir::Etc={folder}/etc", "-o", f"Dir::State={folder}/state"),
            *("-o", f"Dir::State::status={status}", "-o", f"Dir::Cache={folder}/cache"),
            *("-o", f"APT::Architecture={architecture}"),
            *("-o", f"APT::Architectures::={architecture}", "-o", "Acquire::Languages=none"),
        ]
        self._run("apt-get", "update", "-qq")

    def resolve(self, roots: tuple[str, ...]) -> tuple[Offered, ...]:
        """The packages that a machine with nothing but these and what they need would have."""
        said = self._run(
            *("apt-get", "install", "-y", "--no-install-recommends", "--print-uris"), *roots
        )
        files = {unquote(match["file"]): int(match["size"]) for match in _URI.finditer(said)}
        pins = []
        for file in files:
            name, version, _ = unquote(file).split("_")
            pins.append(f"{name}={version.replace('%3a', ':')}")
        shown = self._run("apt-cache", "show", *pins)
        found = [_offered(stanza) for stanza in shown.strip().split("\n\n")]
        unique = {(one.name, one.version): one for one in found}
        return tuple(unique[key] for key in sorted(unique))

    def _run(self, program: str, *arguments: str) -> str:
        command = [program, *self._options, *arguments]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                env=os.environ | {"LC_ALL": "C.UTF-8"},
            )
        except OSError as error:
            raise ImageError(
                f"{program} is not here: Debian packages are resolved with it.",
                "run this on a Debian machine or in a Debian container.",
            ) from error
        if done.returncode != 0:
            said = done.stderr.strip().splitlines()
            raise ImageError(
                f"{program} failed: {said[-1] if said else 'it said nothing'}.",
                "check that the mirrors of this machine can be reached.",
            )
        return done.stdout


def _offered(stanza: str) -> Offered:
    fields = dict(re.findall(r"(?m)^([A-Za-z0-9-]+): (.*)$", stanza))
    return Offered(
        name=fields["Package"],
        version=fields["Version"],
        file=fields["Filename"],
        size=int(fields["Size"]),
        sha256=fields["SHA256"],
    )


def mirrors() -> tuple[str, ...]:
    """Roots of the Debian mirrors that this machine uses; `K3EVAL_DEBIAN_MIRROR` comes first."""
    own = os.environ.get("K3EVAL_DEBIAN_MIRROR")
    found = [own.rstrip("/")] if own else []
    folder = Path("/etc/apt")
    for path in (
        *folder.glob("sources.list.d/*.sources"),
        *folder.glob("sources.list.d/*.list"),
        folder / "sources.list",
    ):
        if path.is_file():
            found += [uri.rstrip("/") for uri in _SOURCES.findall(path.read_text())]
    return tuple(dict.fromkeys(found))
