"""Compares installed files with what their wheels' RECORD says; prints JSON.

Run as a script by the engine's Python with `-I -S`, so that no code of the engine's environment
runs before the answer is printed. Standard library only. Arguments: the path by which that Python
was called, and JSON lists of engine and of decode-path distributions.
"""

import base64
import csv
import hashlib
import json
import platform
import re
import site
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Any

_CHUNK_BYTES = 1 << 20


def main() -> None:
    """Prints one JSON object about the environment."""
    python, engine_names, path_names = sys.argv[1], *map(json.loads, sys.argv[2:4])
    folders = [str(folder) for folder in _site_packages(Path(python))]
    # A distribution that is not first on the path is not the one that is imported.
    found: dict[str, Any] = {}
    for distribution in metadata.distributions(path=folders):
        name = distribution.metadata["Name"]
        if name:
            found.setdefault(_normal(name), distribution)
    packages = {name: found[name].version for name in sorted(found)}
    engine = next(
        (found[_normal(name)] for name in engine_names if _holds_code(found.get(_normal(name)))),
        None,
    )
    checked = 0
    differences: list[dict[str, str]] = []
    remarks: list[str] = []
    if engine is not None:
        checked, differences, remarks = _compare(engine)
    for name in map(_normal, path_names):
        if name not in found:
            remarks.append(f"{name} is not installed in the engine's environment.")
            continue
        folder = _editable_folder(found[name])
        if folder is None:
            more, differing, notes = _compare(found[name])
            checked, differences = checked + more, differences + differing
            remarks += notes
        else:
            digest, count = _tree_digest(folder)
            packages[name] = f"{packages[name]}+editable.{digest[:16]}"
            remarks.append(
                f"{name} is an editable installation: it has no RECORD to compare with; its "
                f"{count} source files have the digest {digest}."
            )
    remarks += _loaded_at_start(folders, found)
    print(
        json.dumps(
            {
                "python_version": platform.python_version(),
                "packages": packages,
                "engine": engine and [engine.metadata["Name"], engine.version],
                "checked": checked,
                "differences": differences,
                "remarks": remarks,
                "origins": _origins(found),
            }
        )
    )


def _origins(found: dict[str, Any]) -> list[dict[str, str]]:
    """Distributions that were fetched from a repository, with the commit."""
    origins = []
    for name, distribution in sorted(found.items()):
        text = distribution.read_text("direct_url.json")
        said = json.loads(text) if text else {}
        commit = said.get("vcs_info", {}).get("commit_id")
        if commit:
            origins.append({"name": name, "url": str(said.get("url")), "commit": str(commit)})
    return origins


def _site_packages(python: Path) -> list[Path]:
    venv = python.parent.parent
    if (venv / "pyvenv.cfg").is_file():
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        # lib64 is often a link to lib; one folder must not count twice.
        folders = {
            folder.resolve(): folder
            for lib in ("lib64", "lib")
            if (folder := venv / lib / version / "site-packages").is_dir()
        }
        return list(folders.values())
    paths = sysconfig.get_paths()
    named = [paths["purelib"], paths["platlib"], *site.getsitepackages()]
    return [Path(folder) for folder in dict.fromkeys(named) if Path(folder).is_dir()]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _holds_code(distribution: Any) -> bool:
    """Whether a distribution is more than metadata, or an editable installation."""
    if distribution is None:
        return False
    files = distribution.files or []
    return any(str(file).endswith(".py") for file in files) or (
        _editable_folder(distribution) is not None
    )


def _editable_folder(distribution: Any) -> Path | None:
    """The source folder that an editable installation points to; None for another one.

    Installed from a folder it is named in `direct_url.json`; installed from a wheel that was built
    as editable, only in the path file that the wheel holds.
    """
    text = distribution.read_text("direct_url.json")
    found = json.loads(text) if text else {}
    if found.get("dir_info", {}).get("editable"):
        return Path(str(found["url"]).removeprefix("file://"))
    for file in distribution.files or []:
        if str(file).startswith("_editable_impl_") and str(file).endswith(".pth"):
            return Path(Path(distribution.locate_file(file)).read_text("utf-8").splitlines()[0])
    return None


def _compare(distribution: Any) -> tuple[int, list[dict[str, str]], list[str]]:
    """Files checked, files that differ, and Python files that the RECORD does not know."""
    record = distribution.read_text("RECORD")
    name = distribution.metadata["Name"]
    if record is None:
        return 0, [], [f"{name} has no RECORD, so its files cannot be checked."]
    checked, differences, known = 0, [], set()
    for path_text, digest_text, *_ in csv.reader(record.splitlines()):
        known.add(path_text)
        if not digest_text:
            continue
        checked += 1
        path = Path(distribution.locate_file(path_text))
        algorithm, _, expected = digest_text.partition("=")
        if not path.is_file():
            differences.append({"path": path_text, "kind": "missing"})
        elif _digest(path, algorithm) != expected:
            differences.append({"path": path_text, "kind": "changed"})
    tops = {Path(path).parts[0] for path in known if path.endswith(".py") and "/" in path}
    root = Path(distribution.locate_file(""))
    added = sorted(
        str(path.relative_to(root))
        for top in tops
        for path in (root / top).rglob("*.py")
        if str(path.relative_to(root)) not in known
    )
    remarks = [f"{name} holds files its RECORD does not know: {', '.join(added[:5])}."]
    return checked, differences, remarks if added else []


def _digest(path: Path, algorithm: str) -> str:
    digest = hashlib.new(algorithm)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode("ascii")


def _tree_digest(folder: Path) -> tuple[str, int]:
    source = folder / "src" if (folder / "src").is_dir() else folder
    digest, count = hashlib.sha256(), 0
    for path in sorted(source.rglob("*")):
        if not path.is_file() or "__pycache__" in path.parts or ".egg-info" in str(path):
            continue
        name = path.relative_to(source).as_posix()
        digest.update(
            f"{len(name)}:{name}:{hashlib.sha256(path.read_bytes()).hexdigest()}".encode()
        )
        count += 1
    return digest.hexdigest(), count


def _loaded_at_start(folders: list[str], found: dict[str, Any]) -> list[str]:
    """Files that Python runs at every start and that no distribution owns."""
    owned = {
        str(Path(distribution.locate_file(file)))
        for distribution in found.values()
        for file in distribution.files or []
        if str(file).endswith(".pth") or "customize" in str(file)
    }
    stray = sorted(
        path.name
        for folder in folders
        for pattern in ("*.pth", "sitecustomize.py", "usercustomize.py")
        for path in Path(folder).glob(pattern)
        if str(path) not in owned and path.name != "_virtualenv.pth"
    )
    if not stray:
        return []
    return [f"Python runs files at start that no package owns: {', '.join(stray)}."]


if __name__ == "__main__":
    main()
