"""What a launcher says of the image that a run happens in. Pure.

Inside of a container nothing tells its digest, so whoever starts it says so. A tag is refused: it
may name another image tomorrow, and then the evidence is of nothing that anybody can start again.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from k3runner.errors import MachineError, UsageError

__all__ = ["AssertedImage", "refuse_other_architecture", "resolve_image"]

_DIGEST: Final = re.compile(r"(?:[a-z0-9][a-z0-9._:/-]{0,300}@)?(sha256:[0-9a-f]{64})")
_PLATFORM: Final = re.compile(r"(?:linux/)?([a-z0-9_]{1,40})(?:/v\d{1,2})?")
_KERNEL_NAMES: Final[Mapping[str, str]] = {"amd64": "x86_64", "arm64": "aarch64"}
"""As OCI spells an architecture -> as the kernel does."""
_HOW: Final = "Give what `docker image inspect --format '{{index .RepoDigests 0}}' IMAGE` prints."


@dataclass(frozen=True)
class AssertedImage:
    """The image, as its launcher names it."""

    digest: str | None = None
    """OCI manifest digest `sha256:...`; None: not asserted."""
    architecture: str | None = None
    """What it is made for, as the kernel spells it; None: not asserted."""


def resolve_image(environ: Mapping[str, str]) -> AssertedImage:
    """Reads `K3EVAL_IMAGE_DIGEST` and `K3EVAL_IMAGE_ARCHITECTURE`.

    Raises:
        UsageError: One of them is set to something else than a digest or an architecture.
    """
    said = environ.get("K3EVAL_IMAGE_DIGEST") or None
    digest = None if said is None else _DIGEST.fullmatch(said)
    if said is not None and digest is None:
        raise UsageError(
            "K3EVAL_IMAGE_DIGEST must hold sha256: and 64 hex digits; found "
            f"`{said[:200]}`, and a name or tag may mean another image tomorrow.",
            _HOW,
        )
    platform = environ.get("K3EVAL_IMAGE_ARCHITECTURE") or None
    found = None if platform is None else _PLATFORM.fullmatch(platform.lower())
    if platform is not None and found is None:
        raise UsageError(
            f"K3EVAL_IMAGE_ARCHITECTURE must look like linux/arm64 or x86_64, found "
            f"`{platform[:80]}`.",
            "Give what `docker image inspect --format '{{.Architecture}}' IMAGE` prints.",
        )
    return AssertedImage(
        digest=None if digest is None else digest[1],
        architecture=None if found is None else _KERNEL_NAMES.get(found[1], found[1]),
    )


def refuse_other_architecture(image: AssertedImage, machine: str) -> None:
    """Checks that the image is made for the machine.

    Args:
        image: The image.
        machine: The machine's architecture, as the kernel spells it.

    Raises:
        MachineError: It is made for another one.
    """
    if image.architecture in {None, machine}:
        return
    raise MachineError(
        f"The image is made for {image.architecture} and this machine is {machine}: what ran would "
        "be emulated, or another image than the one that is named.",
        f"Take the image for {machine}, by its digest.",
    )
