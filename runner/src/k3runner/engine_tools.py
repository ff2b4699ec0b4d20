"""Programs that the engine expects on its PATH and that its environment need not have.

vLLM tells its configuration together with a list of packages, for which it starts `uv` in an
environment that uv made. Where that fails, it tells nothing. The list is not used here (the runner
reads the packages itself, without running the engine's code), so a `uv` that lists none is enough.
"""

from pathlib import Path

__all__ = ["write_engine_tools"]

_UV = """\
#!/bin/sh
# Stands in for uv when the engine lists packages; see k3runner/engine_tools.py.
exit 0
"""


def write_engine_tools(run_folder: Path) -> Path:
    """Writes the programs into a run folder.

    Returns:
        The folder that holds them; it goes last on the engine's PATH, after a real `uv`.
    """
    folder = run_folder / "tools"
    folder.mkdir(exist_ok=True)
    program = folder / "uv"
    program.write_text(_UV, "utf-8")
    program.chmod(0o755)
    return folder
