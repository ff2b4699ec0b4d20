"""The registry flavour: its program in the place where a container looks for one."""

from pathlib import Path

TOP = Path("/opt/k3eval")

(TOP / "bin" / "k3-registry").symlink_to(TOP / "registry" / "bin" / "k3-registry")
