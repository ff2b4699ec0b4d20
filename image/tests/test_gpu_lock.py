"""The gpu flavour's locks: whole, alike on both machines, and without two owners of one path."""

import io
import zipfile
from pathlib import Path

import pytest

from k3image.gpu_lock import RemoteFile, Wheel, collisions, lock_text, wheels_of
from k3image.problem import ImageError
from k3image.wheels import Pin, read_pins

MACHINES = ("x86_64", "aarch64")


@pytest.fixture(params=MACHINES)
def pins(request: pytest.FixtureRequest, root: Path) -> dict[str, Pin]:
    text = (root / "image" / "locks" / f"gpu-{request.param}.txt").read_text()
    return {pin.name: pin for pin in read_pins(text)}


def test_the_engine_and_its_compiler_are_locked(pins: dict[str, Pin]) -> None:
    assert pins["vllm"].version == "0.33.0"
    assert pins["nvidia-cutlass-dsl-libs-cu13"].version == "4.8.0"
    assert len(pins) > 150
    assert all(pin.digests and not pin.is_conditional for pin in pins.values())


def test_the_bindings_have_one_owner(pins: dict[str, Pin]) -> None:
    # Below 13 cuda-python is a whole build that overwrites 25 files of cuda-bindings.
    assert int(pins["cuda-python"].version.split(".")[0]) >= 13
    assert pins["cuda-python"].version == pins["cuda-bindings"].version


def test_both_machines_have_the_same_versions(root: Path) -> None:
    one, other = (
        {(pin.name, pin.version) for pin in read_pins((folder / f"gpu-{name}.txt").read_text())}
        for folder in [root / "image" / "locks"]
        for name in MACHINES
    )
    assert one == other


def test_a_path_in_two_wheels_is_named() -> None:
    listed = {
        "one": {"a/b.py": 1, "same.py": 5, "build_backend.py": 1},
        "two": {"a/b.py": 2, "same.py": 5, "build_backend.py": 2},
    }
    assert collisions(listed) == ["a/b.py is in one and two, with different content"]


RESOLVED = """
[[packages]]
name = "b"
version = "2"
wheels = [{ url = "x/b-2.whl", size = 3, hashes = { sha256 = "bb" } }]
[[packages]]
name = "a"
version = "1"
wheels = [
  { url = "x/a-1.whl", size = 3, hashes = { sha256 = "a2" } },
  { url = "y/a-1.whl", size = 3, hashes = { sha256 = "a1" } },
]
"""


def test_a_lock_has_the_digests_of_this_machine() -> None:
    text = lock_text(wheels_of(RESOLVED))
    assert text == (
        "a==1 \\\n    --hash=sha256:a1 \\\n    --hash=sha256:a2\nb==2 \\\n    --hash=sha256:bb\n"
    )
    assert [pin.name for pin in read_pins(text.replace("a1", "a" * 64))] == ["a", "b"]


def test_a_package_without_a_wheel_is_a_sentence() -> None:
    with pytest.raises(ImageError, match="c 3 has no wheel for this machine"):
        wheels_of('[[packages]]\nname = "c"\nversion = "3"\n')


class _Served(RemoteFile):
    """A file that notes which ranges are asked for."""

    def __init__(self, content: bytes) -> None:
        super().__init__("https://example.org/x.whl", len(content))
        self.content = content
        self.asked = 0

    def _fetch(self, start: int, end: int) -> bytes:
        self.asked += end - start
        return self.content[start:end]


def test_only_the_end_of_a_wheel_is_read() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("large.bin", bytes(1 << 22))
        archive.writestr("small.py", "x = 1")
    served = _Served(packed.getvalue())
    with zipfile.ZipFile(served) as archive:
        assert [one.filename for one in archive.infolist()] == ["large.bin", "small.py"]
        assert served.asked <= 1 << 18
        assert archive.read("large.bin") == bytes(1 << 22)


def test_wheels_are_plain_records() -> None:
    assert wheels_of(RESOLVED)[0] == Wheel("b", "2", "x/b-2.whl", 3, "bb")
