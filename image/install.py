"""Runs inside the build, without a network: makes what FLAVOUR is made of, and leaves only that.

Installs wheels that were checked outside, checks them again, compiles byte code in an order that
does not depend on the machine, and removes whatever only the build needs.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path

TOP = Path("/opt/k3eval")
SOURCE = TOP / "source"
WHEELS = TOP / "wheels"
MADE = TOP / "made"
COMPILERS = 4
"""Processes that compile; a fixed number, for what one compiles depends on what it did before."""
# What people and container engines mount over; everybody may write to results and cache.
PLACES = {"/results": 0o1777, "/cache": 0o1777, "/model": 0o755}
USER = "evaluator:x:10001:10001::/tmp:/usr/sbin/nologin\n"
_COMPILE = """
import py_compile, sys
for path in sys.stdin.read().splitlines():
    try:
        py_compile.compile(path, doraise=True, invalidation_mode=mode, quiet=0)
    except py_compile.PyCompileError:
        pass  # A template or a test of another Python; nothing imports it.
""".replace("mode=mode", "mode=py_compile.PycInvalidationMode.UNCHECKED_HASH")


def main() -> None:
    """Make everything of the flavour that the build arguments name."""
    os.umask(0o022)
    start_with_other_clock()
    flavour = json.loads((WHEELS / "flavour.json").read_text())
    MADE.mkdir()
    os.environ |= {"HOME": str(MADE), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    uv = _unpack_installer()
    builder = _environment(uv, "builder", [SOURCE / lock for lock in flavour["build_locks"]])
    for name, lock in flavour["environments"].items():
        python = _environment(uv, name, [SOURCE / lock])
        for folder in flavour["own"].get(name, ()):
            _install_ours(uv, builder, python, SOURCE / folder)
        _forget_times(TOP / name)
        _compile(TOP / name)
    _finish(flavour["name"])
    describe = {
        "flavour": flavour["name"],
        "architecture": os.environ["ARCHITECTURE"],
        "commit": os.environ["COMMIT"],
        "inputs_sha256": os.environ["INPUTS_SHA256"],
        "created_epoch_s": int(os.environ["SOURCE_DATE_EPOCH"]),
    }
    shutil.copyfile(WHEELS / "sbom.spdx.json", TOP / "sbom.spdx.json")
    (TOP / "image.json").write_text(json.dumps(describe, indent=1, sort_keys=True) + "\n")
    for folder in (SOURCE, MADE, TOP / "builder"):
        shutil.rmtree(folder)
    if closed := closed_paths(Path("/")):
        sys.exit(f"not everybody can read {', '.join(closed[:3])}, so the tree has no digest")


def start_with_other_clock() -> None:
    """Start again under a clock that is ahead, when a build is to show that it leaves no trace."""
    told = WHEELS / "clock" / "clock.json"
    if not told.is_file():
        return
    asked = json.loads(told.read_text())
    if "LD_PRELOAD" not in os.environ:
        os.environ |= asked["environment"]
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    if time.time() < asked["not_before"]:
        sys.exit("the clock of the build was not moved, so nothing is shown about it")


def closed_paths(root: Path) -> list[str]:
    """Paths of the image that another user than root cannot read."""
    system = root.stat().st_dev
    found = []
    for folder, folders, files in os.walk(root):
        here = Path(folder)
        # Nothing that the build mounts, and nothing that a container has of its own.
        folders[:] = [
            name
            for name in folders
            if (here / name).lstat().st_dev == system and str(here / name) not in ("/tmp", "/run")  # noqa: S108
        ]
        for name, needed in (*((one, 0o005) for one in folders), *((one, 0o004) for one in files)):
            status = (here / name).lstat()
            if not stat.S_ISLNK(status.st_mode) and status.st_mode & needed != needed:
                found.append(str(here / name))
    return found


def _unpack_installer() -> Path:
    (wheel,) = (WHEELS / "files").glob("uv-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith("/scripts/uv"))
        archive.extract(name, MADE)
    program = MADE / name
    program.chmod(0o755)
    return program


def _environment(uv: Path, name: str, locks: list[Path]) -> Path:
    folder = TOP / name
    _run(uv, "venv", "--python", "/usr/bin/python3", folder)
    for lock in locks:
        _run(
            *(uv, "pip", "install", "--no-deps", "--require-hashes", "--no-build", "--no-index"),
            *("--find-links", WHEELS / "files", "--link-mode", "hardlink"),
            *("--python", folder / "bin" / "python", "-r", lock),
        )
    return folder / "bin" / "python"


def _install_ours(uv: Path, builder: Path, python: Path, folder: Path) -> None:
    target = MADE / "own" / folder.name
    _run(builder, "-m", "hatchling", "build", "-t", "wheel", "-d", target, cwd=folder)
    (wheel,) = target.glob("*.whl")
    _run(
        *(uv, "pip", "install", "--no-deps", "--no-index", "--link-mode", "copy"),
        *("--python", python, wheel),
    )


def _forget_times(folder: Path) -> None:
    """Take away what the installer notes of each wheel's file: when it was written, and where."""
    for information in folder.glob("lib/python3.*/site-packages/*.dist-info"):
        noted = {information / name for name in ("uv_cache.json", "direct_url.json")}
        for path in noted:
            path.unlink(missing_ok=True)
        record = information / "RECORD"
        names = tuple(f"{information.name}/{path.name}," for path in noted)
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if not line.startswith(names)))


def _compile(folder: Path) -> None:
    """Byte code that is never compared with its source: nobody can write to either."""
    paths = sorted(map(str, folder.rglob("*.py")))
    processes = []
    for number in range(COMPILERS):
        listed = MADE / f"{folder.name}-{number}.txt"
        listed.write_text("\n".join(paths[number::COMPILERS]))
        with listed.open() as names:
            command = [str(folder / "bin" / "python"), "-I", "-c", _COMPILE]
            quiet = subprocess.DEVNULL
            processes.append(subprocess.Popen(command, stdin=names, stdout=quiet, stderr=quiet))
    statuses = [process.wait() for process in processes]
    if any(statuses):
        sys.exit(f"byte code of {folder} could not be made")


def _finish(flavour: str) -> None:
    # What unpacked the base leaves behind, closed to others.
    for leftover in ("/var/lib/apt", "/var/cache/apt"):
        shutil.rmtree(leftover, ignore_errors=True)
    for place, mode in PLACES.items():
        Path(place).mkdir(exist_ok=True)
        Path(place).chmod(mode)
    (TOP / "bin").mkdir()
    # Some programs ask for the name of their user; another --user is named by the variable USER.
    with Path("/etc/passwd").open("a") as users:
        users.write(USER)
    finish = SOURCE / "image" / "flavours" / f"{flavour}.py"
    if finish.is_file():
        _run("/usr/bin/python3", "-I", finish)


def _run(*command: str | Path, cwd: Path | None = None) -> None:
    done = subprocess.run(list(map(str, command)), cwd=cwd, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command[:4]))} failed with status {done.returncode}")


if __name__ == "__main__":
    main()
