"""The gpu flavour: the entry point, CUDA's parts as a linker expects them, kernels ahead of time.

Never run: it needs the gpu locks' four gigabytes of wheels.
"""

import shutil
import subprocess
from pathlib import Path

TOP = Path("/opt/k3eval")
ENGINE = TOP / "engine"


def main() -> None:
    """Put the entry point in its place and make CUDA's parts look like a toolkit."""
    shutil.copyfile(TOP / "source" / "image" / "entry.py", TOP / "bin" / "k3-eval")
    (TOP / "bin" / "k3-eval").chmod(0o755)
    (cuda,) = ENGINE.glob("lib/python3.*/site-packages/nvidia/cu13")
    (TOP / "cuda").symlink_to(cuda)
    # FlashInfer compiles at run time and links with -L lib64, -lcudart and the driver's stub; the
    # wheels have another layout and no stub.
    (cuda / "lib64").symlink_to("lib")
    (cuda / "lib" / "libcudart.so").symlink_to("libcudart.so.13")
    stubs = cuda / "lib" / "stubs"
    stubs.mkdir()
    subprocess.run(
        [
            *("gcc", "-shared", "-nostdlib", "-Wl,-soname,libcuda.so.1", "-Wl,--build-id=none"),
            *("-x", "c", "/dev/null", "-o", stubs / "libcuda.so"),
        ],
        check=True,
    )
    # Compiled for every architecture of the project, so that a run on any of them compiles nothing.
    python = str(ENGINE / "bin" / "python")
    for module in ("k3decode.export", "k3decode.library_check"):
        subprocess.run([python, "-I", "-m", module, str(TOP / "kernels")], check=True)


if __name__ == "__main__":
    main()
