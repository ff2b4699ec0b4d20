"""Whether kernels can be compiled here; asked before a command starts its work."""

from importlib.util import find_spec

__all__ = ["missing_compiler"]

_MODULES = ("cutlass", "cuda.bindings")


def missing_compiler() -> str | None:
    """A sentence on what the compiler of kernels lacks; None where all of it is installed.

    Nothing of it is imported: it reads its environment variables when it is.
    """
    absent = [name for name in _MODULES if not _is_installed(name)]
    if not absent:
        return None
    return (
        f"expected CuTe DSL to compile kernels, found no module {' and no module '.join(absent)}: "
        "install nvidia-cutlass-dsl"
    )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
