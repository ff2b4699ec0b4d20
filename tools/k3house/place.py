"""Where things lie: everything that is made lies under `.k3eval/` in the repository."""

from pathlib import Path

__all__ = [
    "ENVS",
    "HOUSE",
    "LOCKS",
    "LOG",
    "MODEL",
    "REGISTRY_DATA",
    "ROOT",
    "RUNS",
    "WHEELS_BUILT",
    "env_python",
    "env_script",
]

ROOT = Path(__file__).resolve().parents[2]
"""The repository."""
HOUSE = ROOT / ".k3eval"
"""Everything that is made; ignored by git, removed by `make clean`."""
ENVS = HOUSE / "env"
LOCKS = ROOT / "requirements"
LOG = HOUSE / "log"
MODEL = HOUSE / "model" / "k3-tiny"
REGISTRY_DATA = HOUSE / "registry"
RUNS = HOUSE / "runs"
WHEELS_BUILT = HOUSE / "wheels"


def env_python(name: str) -> Path:
    """The interpreter of an environment."""
    return ENVS / name / "bin" / "python"


def env_script(name: str, script: str) -> Path:
    """A console script of an environment."""
    return ENVS / name / "bin" / script
