"""The base of an image: pinned Debian packages, fetched, checked, and unpacked into one layer."""

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import quote

from k3image.apt import mirrors
from k3image.inputs import DebianPackage, check_file
from k3image.problem import ImageError
from k3image.surroundings import Clock, forget_ended

__all__ = ["fetch_packages", "make_base", "packages_file"]

_FETCH_S: Final = 120
_DAY_S: Final = 86_400
_SHOWN: Final = 400
"""Characters of what a program said; it may list all packages."""
_TOLD: Final = "told-time"
_MEMORY: Final = Path("/dev/shm")  # noqa: S108
_LEAVE_FREE_BYTES: Final = 2 << 30
_CLEAN: Final = Path(__file__).resolve().parents[2] / "clean-base.sh"
_NO_CLUSTER: Final = (
    'mkdir -p "$1/etc/postgresql-common" && '
    'echo "create_main_cluster = false" > "$1/etc/postgresql-common/createcluster.conf"'
)


def fetch_packages(packages: Iterable[DebianPackage], folder: Path) -> None:
    """Have every package in `folder`, fetched from this machine's mirrors where it is not.

    Raises:
        ImageError: A file is not the pinned one, or no mirror has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for package in packages:
        path = folder / Path(package.file).name
        if not path.is_file():
            _fetch(package, path)
        check_file(path, f"Debian package {package.name} {package.version}", package.sha256)


def _fetch(package: DebianPackage, path: Path) -> None:
    partial = path.with_suffix(".part")
    for mirror in mirrors():
        address = f"{mirror}/{quote(package.file)}"
        try:
            with (
                urllib.request.urlopen(address, timeout=_FETCH_S) as answer,  # noqa: S310
                partial.open("wb") as file,
            ):
                shutil.copyfileobj(answer, file)
        except (urllib.error.URLError, OSError):
            continue
        partial.replace(path)
        return
    raise ImageError(
        f"No Debian mirror of this machine has {package.name} {package.version} any more.",
        f"put {path.name} into {path.parent}, or pin what there is now with `make image-inputs`.",
    )


def packages_file(packages: Iterable[DebianPackage], folder: Path) -> str:
    """The index of a flat archive that offers these packages and no other."""
    stanzas = []
    for package in sorted(packages, key=lambda one: one.file):
        path = folder / Path(package.file).name
        shown = subprocess.run(
            ["dpkg-deb", "--field", str(path)], capture_output=True, text=True, check=True
        ).stdout.strip()
        stanzas.append(
            f"{shown}\nFilename: ./{path.name}\nSize: {package.size}\nSHA256: {package.sha256}\n"
        )
    return "\n".join(stanzas)


def make_base(
    packages: tuple[DebianPackage, ...],
    debs: Path,
    target: Path,
    *,
    suite: str,
    architecture: str,
    epoch: int,
    clock: Clock | None = None,
) -> None:
    """Write the base's file tree as a tar file that depends on its packages only.

    Args:
        packages: All packages of the base.
        debs: Folder that holds them, already checked.
        target: The tar file.
        suite: Debian's release.
        architecture: Debian's name of the architecture.
        epoch: Time of all files in it, in seconds since 1970.
        clock: A clock that is ahead; None: the machine's.

    Raises:
        ImageError: mmdebstrap is missing or fails.
    """
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as name:
        archive = Path(name) / "archive"
        _make_archive(packages, debs, archive, suite, architecture)
        command = [
            *("mmdebstrap", "--quiet", "--mode=root", "--variant=essential"),
            *(f"--architectures={architecture}", "--format=tar"),
            f"--include={','.join(one.name for one in packages)}",
            *("--aptopt=Acquire::Languages none", "--aptopt=APT::Install-Recommends false"),
            # The archive may lie in a folder that only root may enter.
            '--aptopt=APT::Sandbox::User "root"',
            *('--dpkgopt=path-exclude="/usr/share/doc/*"', f"--customize-hook={_CLEAN}"),
            # PostgreSQL's package would make a cluster with a number drawn by chance.
            *(
                (f"--essential-hook={_NO_CLUSTER}",)
                if any(one.name == "postgresql-common" for one in packages)
                else ()
            ),
            *(() if clock is None else _clock_hooks(clock, Path(name) / _TOLD)),
            *(suite, str(target), f"deb [trusted=yes] copy://{archive} ./"),
        ]
        settings = os.environ | {"SOURCE_DATE_EPOCH": str(epoch), "TMPDIR": name}
        if clock is None:
            _run(command, settings)
            return
        forget_ended(_MEMORY)
        _run(command, settings | clock.environment(clock.library))
        forget_ended(_MEMORY)
        _require_ahead(clock, Path(name) / _TOLD)


def _clock_hooks(clock: Clock, told: Path) -> tuple[str, ...]:
    """Flags that put the clock's library where programs inside the base find it, and take it away.

    It lies below /usr, as outside: elsewhere the merging of /usr would try to move it.
    """
    inside = f'"$1"{clock.library.parent}'
    above = f'"$1"{clock.library.parent.parent}'
    return (
        f"--setup-hook=mkdir -p {inside} && cp {clock.library} {inside}",
        f'--customize-hook=chroot "$1" date +%s > {told}',
        f"--customize-hook=t=$(stat -c %Y {above}) && rm -rf {inside} && touch -d @$t {above}",
    )


def _require_ahead(clock: Clock, told: Path) -> None:
    ahead_s = int(told.read_text()) - time.time()
    if ahead_s < (clock.days - 1) * _DAY_S:
        raise ImageError(
            f"The clock inside the base was {ahead_s / _DAY_S:.1f} days ahead, not {clock.days}.",
            "check that libfaketime is of this machine's architecture.",
        )


def _make_archive(
    packages: tuple[DebianPackage, ...], debs: Path, archive: Path, suite: str, architecture: str
) -> None:
    archive.mkdir()
    archive.parent.chmod(0o755)
    for package in packages:
        (archive / Path(package.file).name).symlink_to(debs / Path(package.file).name)
    index = packages_file(packages, debs).encode()
    (archive / "Packages").write_bytes(index)
    (archive / "Packages.gz").write_bytes(gzip.compress(index, mtime=0))
    listed = "".join(
        f" {hashlib.sha256((archive / file).read_bytes()).hexdigest()} "
        f"{(archive / file).stat().st_size} {file}\n"
        for file in ("Packages", "Packages.gz")
    )
    (archive / "Release").write_text(
        f"Suite: {suite}\nCodename: {suite}\nArchitectures: {architecture} all\n"
        f"Components: main\nSHA256:\n{listed}"
    )


def _fast_folder() -> Path | None:
    """Memory where there is room: what unpacks packages asks the disk to write after each."""
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _LEAVE_FREE_BYTES:
        return _MEMORY
    return None


def _run(command: list[str], environment: dict[str, str]) -> None:
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, env=environment, umask=0o022
        )
    except OSError as error:
        raise ImageError(
            "mmdebstrap is not here, and the base is unpacked with it.",
            "on Debian or Ubuntu: apt-get install mmdebstrap",
        ) from error
    with process:
        try:
            _, errors = process.communicate()
        except BaseException:
            # Asked to stop it unmounts what it mounted; killed it does not.
            process.terminate()
            raise
    if process.returncode != 0:
        lines = [line for line in errors.splitlines() if re.match(r"E:|.*error", line)]
        said = lines or errors.splitlines()[-1:] or ["it said nothing"]
        raise ImageError(
            f"mmdebstrap cannot make the base: {said[0].strip()[:_SHOWN]}.",
            "check the packages of this set in inputs.toml: each must be there with all it needs.",
        )
