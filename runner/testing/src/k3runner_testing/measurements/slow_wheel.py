"""Makes the wheel of the plugin that slows an engine down."""

import base64
import hashlib
import zipfile
from pathlib import Path
from typing import Final

__all__ = ["write_slow_wheel"]

_NAME: Final = "k3_slow_steps"
_INFO: Final = f"{_NAME}-1.0.dist-info"


def write_slow_wheel(folder: Path) -> Path:
    """Writes the wheel and returns its path; its RECORD names every file."""
    source = Path(__file__).with_name("slow_steps.py").read_bytes()
    entry_point = f"[vllm.general_plugins]\n{_NAME} = {_NAME}:register\n"
    files = {
        f"{_NAME}.py": source,
        f"{_INFO}/METADATA": f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: 1.0\n".encode(),
        f"{_INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{_INFO}/entry_points.txt": entry_point.encode(),
    }
    rows = [f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in files.items()]
    files[f"{_INFO}/RECORD"] = "".join([*rows, f"{_INFO}/RECORD,,\n"]).encode()
    wheel = folder / f"{_NAME}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return wheel


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
