"""Makes the environments from the locks, and only what is missing or changed.

An environment is built under a temporary name and renamed when it is whole, so an interruption at
any moment leaves the old one or none. The referee and the registry share no file with anything:
elsewhere files are hard links into the installer's cache, and the engine under test could write
through one of its own into what the referee reads.
"""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from k3house.child import ToolFailedError, explain, run_tool
from k3house.environments import BUILD, UV, EngineLock, Environment, in_order
from k3house.machine import check_engine_python, check_room, one_at_a_time, python_identity
from k3house.narrate import Narrator
from k3house.place import ENVS, LOCKS, ROOT, WHEELS_BUILT, env_python, env_script
from k3house.problem import HouseError
from k3house.source import Sources, find_sources
from k3house.stamp import Stamp, file_digest, read_stamp, source_digest, write_stamp

__all__ = ["current_sources", "install", "stale"]

_RECIPE = b"3"
"""Changes when the way of installing changes, so that old environments are made again."""
_TORCH_CPU = EngineLock("", "a source offers torch==2.13.0+cpu", 0)
_TORCH_PYPI = EngineLock(
    "-pypi",
    "no source offers torch==2.13.0+cpu, so the larger public build of torch 2.13.0 is taken "
    "(about 3 GB more; WHEELS=DIR or pip's find-links can offer the CPU build)",
    7 << 30,
)


@dataclass(frozen=True)
class _Work:
    """One environment that is not as it should be."""

    environment: Environment
    have: Stamp | None
    packages: dict[str, str]
    """What its packages should be: folder -> digest."""
    lock_is_current: bool


def stale(names: set[str]) -> list[str]:
    """Names of the environments among `names` that an installation would change."""
    return [work.environment.name for work in _to_do(names)]


def install(names: set[str], *, wheels: str | None, narrator: Narrator | None = None) -> None:
    """Make the named environments what their locks and our sources say.

    Args:
        names: Names of environments; the installer's own two are added.
        wheels: Value of WHEELS, or None.
        narrator: Shows the steps; None makes one that counts only these.

    Raises:
        HouseError: In one sentence, what is in the way.
    """
    if any(environment.engine_python for environment in in_order(names)):
        check_engine_python()
    wait = "Another command installs into this repository; waiting for it to end."
    with one_at_a_time(wait):
        works = _to_do(names)
        if not works:
            return
        narrator = narrator or Narrator(len(works))
        missing = [work.environment for work in works if not work.lock_is_current]
        check_room(ENVS, sum(e.needs_bytes for e in missing), "the environments")
        for work in works:
            with narrator.step(_sentence(work)):
                _make(work, wheels, narrator)


def _sentence(work: _Work) -> str:
    if work.lock_is_current:
        changed = [f for f, d in work.packages.items() if _installed(work, f) != d]
        return f"update {', '.join(changed)} in the {work.environment.name} environment"
    return f"install the {work.environment.name} environment from its lock"


def _to_do(names: set[str]) -> list[_Work]:
    works = []
    for environment in in_order(names):
        have = read_stamp(ENVS / environment.name)
        current = have is not None and have.lock in {
            _lock_digest(environment, lock) for lock in (_TORCH_CPU, _TORCH_PYPI)
        }
        packages = {
            folder: source_digest(ROOT / folder, metadata_only=environment.editable)
            for folder in environment.packages
        }
        if not current or have is None or have.packages != packages:
            works.append(_Work(environment, have, packages, current))
    return works


def _lock_digest(environment: Environment, lock: EngineLock) -> str:
    suffix = lock.suffix if environment.engine_python else ""
    content = (LOCKS / f"{environment.lock}{suffix}.txt").read_bytes()
    where = str(ROOT).encode() if environment.editable else b""
    return file_digest(_RECIPE, content, python_identity().encode(), where)


def _make(work: _Work, wheels: str | None, narrator: Narrator) -> None:
    name = work.environment.name
    what = f"installing the {name} environment"
    try:
        if work.environment == UV:
            _make_uv(wheels)
        elif work.lock_is_current:
            _update(work)
        else:
            _make_whole(work, wheels, narrator)
    except ToolFailedError as error:
        raise explain(error.output, what) from None
    except OSError as error:
        raise explain(str(error), what) from None


def _make_uv(wheels: str | None) -> None:
    """The installer's own environment, made with pip because there is nothing else yet."""
    partial = _fresh_partial(UV)
    try:
        run_tool([sys.executable, "-m", "venv", partial], log="install")
    except ToolFailedError as error:
        if "ensurepip" in error.output or "No module named venv" in error.output:
            raise HouseError(
                f"Python at {sys.executable} cannot make environments: its venv module is missing.",
                "on Debian or Ubuntu: apt-get install python3-venv (for a given version, for "
                "example python3.11-venv), then run the same command again.",
            ) from None
        raise
    folder = find_sources("", wheels).wheels
    offline = folder is not None and any(folder.glob("uv-*.whl"))
    run_tool(
        [
            *(partial / "bin" / "python", "-m", "pip", "install", "--no-input", "--no-deps"),
            *("--require-hashes", "--only-binary", ":all:", "-r", LOCKS / f"{UV.lock}.txt"),
            *(("--no-index",) if offline else ()),
            *(("--find-links", folder) if folder else ()),
        ],
        log="install",
    )
    _finish(UV, partial, Stamp(_lock_digest(UV, _TORCH_CPU), {}))


def _make_whole(work: _Work, wheels: str | None, narrator: Narrator) -> None:
    environment = work.environment
    sources = current_sources(wheels)
    lock = _choose_lock(environment, sources, narrator)
    check_room(ENVS, environment.needs_bytes + lock.extra_bytes, f"the {environment.name} one")
    partial = _fresh_partial(environment)
    venv = [*_uv("venv"), "--relocatable", "--no-project", "--python", sys.executable]
    run_tool([*venv, str(partial)], log="install")
    lock_file = LOCKS / f"{environment.lock}{lock.suffix}.txt"
    arguments = _install_arguments(partial, lock_file, own_files=environment.own_files)
    offline = sources.wheels is not None and _resolves(arguments, sources)
    run_tool([*arguments, *sources.uv_arguments(offline=offline)], log="install")
    for folder in environment.packages:
        _install_ours(partial, folder, editable=environment.editable)
    stamp = Stamp(_lock_digest(environment, lock), work.packages)
    _finish(environment, partial, stamp)


def _update(work: _Work) -> None:
    """Install anew only our packages that changed."""
    folder = ENVS / work.environment.name
    installed = dict(work.have.packages) if work.have else {}
    for package, digest in work.packages.items():
        if installed.get(package) == digest:
            continue
        # The stamp is without this package while it changes: an interruption is then seen.
        installed.pop(package, None)
        write_stamp(folder, Stamp(work.have.lock if work.have else "", installed))
        _install_ours(folder, package, editable=work.environment.editable)
        installed[package] = digest
        write_stamp(folder, Stamp(work.have.lock if work.have else "", installed))
    write_stamp(folder, Stamp(work.have.lock if work.have else "", work.packages))


def _installed(work: _Work, package: str) -> str | None:
    return work.have.packages.get(package) if work.have else None


def _install_ours(environment: Path, package: str, *, editable: bool) -> None:
    digest = source_digest(ROOT / package, metadata_only=editable)
    built = WHEELS_BUILT / f"{'editable' if editable else 'wheel'}-{digest[:16]}"
    shutil.rmtree(built, ignore_errors=True)
    python = str(env_python(BUILD.name))
    build = [python, "-m", "hatchling", "build", "-d", str(built)]
    target = "wheel:editable" if editable else "wheel"
    run_tool([*build, "-t", target], log="install", working_folder=ROOT / package)
    (wheel,) = built.glob("*.whl")
    run_tool(
        [
            *_uv("pip", "install", "--no-deps", "--no-index", "--offline", "--reinstall"),
            *("--link-mode", "copy", "--python", environment / "bin" / "python", wheel),
        ],
        log="install",
    )


def _uv(*words: str) -> list[str | Path]:
    return [env_script(UV.name, "uv"), *words, "--no-config"]


def _install_arguments(
    environment: Path, lock: Path, *, own_files: bool = False
) -> list[str | Path]:
    return [
        *_uv("pip", "install", "--no-deps", "--require-hashes", "--no-build"),
        *(("--no-cache", "--link-mode", "copy") if own_files else ()),
        *("--python", environment / "bin" / "python", "-r", lock),
    ]


def current_sources(wheels: str | None) -> Sources:
    """Where wheels come from, asked of the installer's own pip."""
    return find_sources(
        run_tool([env_python(UV.name), "-m", "pip", "config", "list"], log="install"), wheels
    )


def _choose_lock(environment: Environment, sources: Sources, narrator: Narrator) -> EngineLock:
    """Ask the sources once whether they offer the CPU build of torch that the lock pins."""
    if not environment.engine_python:
        return _TORCH_CPU
    lock = (LOCKS / f"{environment.lock}.txt").read_text()
    start = lock.index("\ntorch==") + 1
    pin = ENVS / ".torch-pin.txt"
    pin.write_text(lock[start:].split("\n", 1)[0] + "\n" + _hashes_after(lock[start:]))
    arguments = _install_arguments(ENVS / UV.name, pin)
    chosen = _TORCH_CPU if _resolves(arguments, sources, offline=False) else _TORCH_PYPI
    pin.unlink()
    narrator.say(f"      lock {environment.lock}{chosen.suffix}: {chosen.reason}")
    return chosen


def _hashes_after(text: str) -> str:
    lines = []
    for line in text.splitlines()[1:]:
        if not line.startswith("    --hash"):
            break
        lines.append(line)
    return "\n".join(lines) + "\n"


def _resolves(arguments: list[str | Path], sources: Sources, *, offline: bool = True) -> bool:
    try:
        run_tool(
            [*arguments, "--dry-run", *sources.uv_arguments(offline=offline)],
            log="install",
        )
    except ToolFailedError:
        return False
    return True


def _fresh_partial(environment: Environment) -> Path:
    partial = ENVS / f".{environment.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    return partial


def _finish(environment: Environment, partial: Path, stamp: Stamp) -> None:
    """Put a whole environment in place of the one that was there."""
    write_stamp(partial, stamp)
    final = ENVS / environment.name
    old = ENVS / f".{environment.name}.old"
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        final.rename(old)
    partial.rename(final)
    shutil.rmtree(old, ignore_errors=True)
