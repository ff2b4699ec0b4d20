"""A folder of kernels that were compiled ahead of time, for machines that shall not compile.

`library.json` names, beside the object files, the sources and the compiler they were made from. A
library of other sources is refused, and a kernel that is not in it is an error: nothing is compiled
instead. The folder is chosen by `use_library` or by the environment variable K3DECODE_KERNELS.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = [
    "VARIABLE",
    "KernelKey",
    "KernelLibrary",
    "PreparedKernelError",
    "library_in_use",
    "open_library",
    "sources_sha256",
    "use_library",
    "write_index",
]

SCHEMA = "k3decode.kernels/1"
VARIABLE = "K3DECODE_KERNELS"
"""Environment variable with the folder of a library."""

_INDEX = "library.json"
_PACKAGE = Path(__file__).parents[1]
# What decides about machine code and about the arguments it is called with, and what does not.
_SHARED_SOURCES = ("host/compilation.py", "dims.py")
# Kernels of no op, which a library has too.
_APPARATUS = (
    "comm/repeated.py",
    "device/delayed_copy.py",
    "device/late_words.py",
    "device/stream_read.py",
    "jitter.py",
    "read_rate.py",
)
_IMPORTED = re.compile(r"\bk3decode\.(ops|device)\.(\w+)")
_NO_SOURCES = frozenset(
    {"__init__.py", "cases.py", "cost.py", "mutants.py", "reference.py", "trial.py"}
)


class PreparedKernelError(RuntimeError):
    """A library of prepared kernels cannot serve a launch; nothing was compiled instead."""


@dataclass(frozen=True)
class KernelKey:
    """Which kernel, which variant, for which architecture."""

    kernel: str
    """Module and class."""
    config: str
    """repr of the kernel's configuration."""
    architecture: str

    @classmethod
    def of(cls, kernel: object, architecture: str) -> "KernelKey":
        """Read it off a kernel object, whose `config` fixes all that is fixed at compile time.

        Raises:
            TypeError: the kernel has no configuration.
        """
        kind = type(kernel)
        config = getattr(kernel, "config", None)
        if config is None:
            raise TypeError(
                f"expected {kind.__qualname__}.config, a frozen dataclass with all that the kernel "
                "fixes at compile time, found none: prepared kernels are found by it"
            )
        return cls(f"{kind.__module__}.{kind.__qualname__}", repr(config), architecture)

    @property
    def symbol(self) -> str:
        """Name of the kernel in its object file, and the file's name."""
        text = "\n".join((self.kernel, self.config, self.architecture))
        return f"k3_{hashlib.sha256(text.encode()).hexdigest()[:32]}"

    def __str__(self) -> str:
        return f"{self.config} for {self.architecture}"


class KernelLibrary:
    """An opened folder."""

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self._folder = folder
        self._files = files

    @property
    def symbols(self) -> frozenset[str]:
        """What the library has."""
        return frozenset(self._files)

    def kernel(self, key: KernelKey) -> Any:
        """Load one kernel.

        Raises:
            PreparedKernelError: the library lacks it, or its file is not the one that was written.
        """
        digest = self._files.get(key.symbol)
        if digest is None:
            raise PreparedKernelError(
                f"expected {key} in {self._folder}, found {len(self._files)} other kernels: "
                "export it with python -m k3decode.export"
            )
        path = self._folder / f"{key.symbol}.o"
        found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no file"
        if found != digest:
            raise PreparedKernelError(
                f"{path}: expected the digest {digest}, found {found}: export the library again"
            )
        from k3decode.host.compilation import load_object_file  # noqa: PLC0415

        return load_object_file(path, key.symbol)


def sources_sha256(op: str | None = None) -> str:
    """Digest of the sources that decide about compiled kernels, of all ops or of one.

    Args:
        op: an op's name; what it imports of other ops and of `device` counts too.
    """
    ops = [op] if op else [path.name for path in (_PACKAGE / "ops").iterdir() if path.is_dir()]
    found = {_PACKAGE / name for name in _SHARED_SOURCES + (() if op else _APPARATUS)}
    for name in ops:
        _add_sources(_PACKAGE / "ops" / name, found)
    digest = hashlib.sha256()
    for path in sorted(found):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def _add_sources(place: Path, found: set[Path]) -> None:
    """Add a module, or the modules of an op's folder, and what they import."""
    paths = place.glob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    for path in {path for path in paths if path.name not in _NO_SOURCES} - found:
        found.add(path)
        for kind, name in _IMPORTED.findall(path.read_text()):
            _add_sources(_PACKAGE / kind / name, found)


def write_index(folder: Path, kernels: Iterable[KernelKey], compiler: str) -> None:
    """Write the index last, when all object files are there."""
    content = {
        "schema": SCHEMA,
        "sources_sha256": sources_sha256(),
        "compiler": compiler,
        "kernels": {
            key.symbol: {
                "kernel": key.kernel,
                "config": key.config,
                "architecture": key.architecture,
                "sha256": hashlib.sha256((folder / f"{key.symbol}.o").read_bytes()).hexdigest(),
            }
            for key in kernels
        },
    }
    partial = folder / f"{_INDEX}.partial"
    partial.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    partial.replace(folder / _INDEX)


def open_library(folder: Path) -> KernelLibrary:
    """Open a folder.

    Raises:
        PreparedKernelError: no library there, or one of other sources.
    """
    try:
        content = json.loads((folder / _INDEX).read_text())
        schema, sources = content["schema"], content["sources_sha256"]
        files = {symbol: entry["sha256"] for symbol, entry in content["kernels"].items()}
    except OSError:
        raise PreparedKernelError(
            f"expected {_INDEX} in {folder}, found none: export a library with "
            "python -m k3decode.export"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PreparedKernelError(
            f"expected {folder / _INDEX} as an export writes it, found something else"
        ) from None
    if schema != SCHEMA or sources != sources_sha256():
        raise PreparedKernelError(
            f"{folder}: expected kernels of these sources ({SCHEMA}, {sources_sha256()[:12]}), "
            f"found {schema}, {str(sources)[:12]}: export the library again"
        )
    return KernelLibrary(folder, files)


_chosen: list[KernelLibrary] = []


def use_library(folder: Path) -> None:
    """Serve every launch of this process that was not compiled yet from a folder.

    Raises:
        PreparedKernelError: no library there, or one of other sources.
    """
    _chosen[:] = [open_library(folder)]


def library_in_use() -> KernelLibrary | None:
    """The chosen library, else that of the environment variable, else None.

    Raises:
        PreparedKernelError: the variable names a folder without a usable library.
    """
    if _chosen:
        return _chosen[0]
    folder = os.environ.get(VARIABLE)
    return _opened(folder) if folder else None


@cache
def _opened(folder: str) -> KernelLibrary:
    return open_library(Path(folder))
