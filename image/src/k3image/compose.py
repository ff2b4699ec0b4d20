"""`make compose-check`: brings the set of compose.yaml up from built images, has it tested, and
takes it down with everything that it wrote.
"""

import os
import secrets
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from k3image.build import Say, image_name
from k3image.engine import Store
from k3image.problem import EXIT_DIFFERENT, ImageError

__all__ = ["FLAVOURS", "check_compose"]

FLAVOURS: Final = ("database", "store", "registry")
"""Services of the set, in the order in which they wait for each other; images of the same name."""
ADDRESS: Final = "http://127.0.0.1:8765"
_PROJECT: Final = "k3-eval-check"
_HEALTHY_S: Final = 120
_TESTS: Final = ("tests/registry/test_stacks.py", "-k", "full")


def check_compose(store: Store, layouts: Path, root: Path, python: Path, say: Say) -> None:
    """Bring the set up, run the registry's tests against it, and take it down.

    Args:
        store: Where the images are, or come to.
        layouts: Folder of the layouts that builds leave, by flavour.
        root: The repository.
        python: Python of the environment for tests.
        say: Told what is done.

    Raises:
        ImageError: An image or program is missing, a service does not get healthy, a test fails.
    """
    _require(store, layouts)
    # Made for this one set, and known to nobody else.
    words = {
        name: secrets.token_hex(16)
        for name in ("K3EVAL_DATABASE_PASSWORD", "K3EVAL_STORE_KEY", "K3EVAL_STORE_SECRET")
    }
    own = Store(store.folder, store.environment | words)
    composed = ("podman-compose", "-p", _PROJECT, "-f", str(root / "compose.yaml"))
    try:
        began = time.monotonic()
        for service in FLAVOURS:
            # One after the other: not every program waits until the one before is healthy.
            own.run(*composed, "up", "-d", "--no-deps", service)
            _wait(own, service)
            say(f"{service} is healthy after {time.monotonic() - began:.0f} s")
        done = subprocess.run(
            [str(python), "-m", "pytest", "-q", *_TESTS],
            cwd=root,
            check=False,
            env=os.environ | {"K3EVAL_TEST_REGISTRY": ADDRESS},
        )
        if done.returncode != 0:
            raise ImageError(
                f"The tests of the registry ended with status {done.returncode}.",
                "see the lines above.",
                EXIT_DIFFERENT,
            )
        say("the registry's tests pass on it")
    finally:
        own.run(*composed, "down", "-v")


def _require(store: Store, layouts: Path) -> None:
    if shutil.which("podman-compose") is None:
        raise ImageError(
            "podman-compose is not here, and the set is brought up with it.",
            "on Debian or Ubuntu: apt-get install podman-compose aardvark-dns",
        )
    for flavour in FLAVOURS:
        if not (layouts / flavour / "index.json").is_file():
            raise ImageError(
                f"The flavour {flavour} is not built here.", f"make image FLAVOUR={flavour}"
            )
    for flavour in FLAVOURS:
        store.run(
            *("skopeo", "copy", "--quiet", "--insecure-policy", f"oci:{layouts / flavour}"),
            f"containers-storage:{image_name(flavour)}",
        )


def _wait(store: Store, service: str) -> None:
    container = f"{_PROJECT}_{service}_1"
    until = time.monotonic() + _HEALTHY_S
    quiet = subprocess.DEVNULL
    while time.monotonic() < until:
        asked = subprocess.run(
            ["podman", "healthcheck", "run", container],
            check=False,
            stdout=quiet,
            stderr=quiet,
            env=os.environ | store.environment,
        )
        if asked.returncode == 0:
            return
        time.sleep(1)
    said = subprocess.run(
        ["podman", "logs", "--tail", "5", container],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | store.environment,
    )
    raise ImageError(
        f"The service {service} is not healthy after {_HEALTHY_S} s; it said: "
        f"{(said.stdout + said.stderr).strip()[-600:]}",
        "see its settings in compose.yaml.",
    )
