"""`make lock`: makes every lock under requirements/ again from its `.in` file."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from k3house.child import ToolFailedError, explain, run_tool
from k3house.environments import ENVIRONMENTS
from k3house.install import current_sources, install
from k3house.narrate import Narrator
from k3house.place import LOCKS, env_script

__all__ = ["make_locks"]

_COMMON = (
    *("--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url"),
    *("--no-config", "--python-version", "3.11", "--quiet"),
)
_ANY_MACHINE = ("--universal",)
_ENGINE_MACHINE = (
    *("--python-platform", "x86_64-manylinux_2_31", "--only-binary", ":all:"),
    *("--override", str(LOCKS / "engine-overrides.txt")),
)
_PUBLIC_TORCH = ("--override", str(LOCKS / "engine-pypi-overrides.txt"))


def make_locks(*, wheels: str | None, upgrade: bool) -> None:
    """Make all locks again; versions change only where an `.in` file asks or `upgrade` is set.

    Args:
        wheels: Folder that offers the CPU build of torch, or None.
        upgrade: Take the newest versions that the `.in` files allow.

    Raises:
        HouseError: A lock cannot be made.
    """
    install({"uv"}, wheels=wheels)
    names = [environment.lock for environment in ENVIRONMENTS]
    engine_names = [e.lock for e in ENVIRONMENTS if e.engine_python]
    jobs: list[tuple[str, tuple[str, ...]]] = [
        (name, _ENGINE_MACHINE if name in engine_names else _ANY_MACHINE) for name in names
    ]
    jobs += [(f"{name}-pypi", (*_ENGINE_MACHINE, *_PUBLIC_TORCH)) for name in engine_names]
    narrator = Narrator(len(jobs))
    # Not the extra indexes: a partial mirror would leave the digests of other machines out.
    sources = replace(current_sources(wheels), extra_index_urls=()).uv_arguments(offline=False)
    for name, machine in jobs:
        with narrator.step(f"lock {name}"), tempfile.TemporaryDirectory() as folder:
            # uv keeps the versions it finds in its output file, so the old lock is put there.
            made = Path(folder) / f"{name}.txt"
            if not upgrade and (LOCKS / f"{name}.txt").is_file():
                shutil.copyfile(LOCKS / f"{name}.txt", made)
            uv = str(env_script("uv", "uv"))
            command = [uv, "pip", "compile", str(LOCKS / f"{name}.in"), "-o", str(made)]
            try:
                run_tool([*command, *_COMMON, *machine, *sources], log="lock")
            except ToolFailedError as error:
                raise explain(error.output, f"making the lock {name}") from None
            shutil.copyfile(made, LOCKS / f"{name}.txt")
