"""The store flavour: the object store, and what starts it."""

import shutil
from pathlib import Path

TOP = Path("/opt/k3eval")

shutil.copyfile(TOP / "source" / "image" / "start_store.py", TOP / "bin" / "start-store")
(TOP / "bin" / "start-store").chmod(0o755)
