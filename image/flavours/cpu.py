"""The cpu flavour: the entry point, and the small checkpoint that the smoke tier serves."""

import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path("/opt/k3eval")
ENGINE = TOP / "engine"


def main() -> None:
    """Put both in their places, and refuse an engine that could not load its own code."""
    shutil.copyfile(TOP / "source" / "image" / "entry.py", TOP / "bin" / "k3-eval")
    (TOP / "bin" / "k3-eval").chmod(0o755)
    if missing := missing_libraries(ENGINE / "lib"):
        sys.exit(f"the base lacks what the engine loads: {', '.join(sorted(missing))}")
    (TOP / "model").mkdir()
    python = str(ENGINE / "bin" / "python")
    made = str(TOP / "model" / "k3-tiny")
    command = [python, "-I", "-m", "k3decode.tiny_checkpoint", made, "--seed", "0"]
    subprocess.run(command, check=True)


def missing_libraries(folder: Path) -> set[str]:
    """Libraries that vLLM's compiled code asks for, and that neither base nor wheels have."""
    wanted = set()
    for path in folder.rglob("vllm/_C*.so"):
        listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        wanted |= {line.split()[0] for line in listed.splitlines() if "not found" in line}
    return {name for name in wanted if not any(folder.rglob(name))}


if __name__ == "__main__":
    main()
