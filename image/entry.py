#!/usr/bin/python3 -I
"""What `docker run IMAGE ...` starts: looks at the container, then becomes the referee's k3-eval.

Standard library only. Everything that a launcher can forget is said in a sentence here, before
minutes are spent; the rest is the referee's own work.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

TOP: Final = Path("/opt/k3eval")
RESULTS: Final = Path("/results")
EXIT_ENVIRONMENT: Final = 5
LEAST_FREE_BYTES: Final = 256 << 20
"""A smoke run leaves a few megabytes; less room than this is a full disk."""

HELP: Final = """\
This is k3-eval in an image: engine and referee, each in an environment of its own.

  docker run --rm -v "$PWD/results:/results" IMAGE --tier smoke

Results go to /results: mount a folder there, and add --user "$(id -u):$(id -g)" to own them.
The image works with --read-only --tmpfs /tmp, as any user, and needs no network.

A GPU run also needs: --gpus all (or --device nvidia.com/gpu=all), --ipc host, --ulimit memlock=-1,
--ulimit stack=67108864, the model at /model, and -v DIR:/cache to keep what is compiled. Across
nodes: the IMEX channels of the NVLink domain (--device /dev/nvidia-caps-imex-channels/channel0).
The launcher asserts the image: -e K3EVAL_IMAGE_DIGEST=sha256:... as `make image-run` does it.

"""

PLACES: Final = {
    "K3EVAL_ENGINE_PYTHON": "/opt/k3eval/engine/bin/python",
    "K3EVAL_RUNS": "/results/runs",
    "K3EVAL_KEY": "/results/key/id_ed25519",
    "K3EVAL_STATE": "/results/state",
}
MODELS: Final = {"cpu": "/opt/k3eval/model/k3-tiny", "gpu": "/model"}
CHANGE: Final = ("--repository", "--pull-request", "--commit")


def main() -> None:
    """Check what this container lacks for the command, and become the command."""
    arguments = sys.argv[1:]
    image = json.loads((TOP / "image.json").read_text())
    places = {**PLACES, "K3EVAL_MODEL": MODELS[image["flavour"]]}
    if image["flavour"] == "gpu":
        places["K3DECODE_KERNELS"] = "/opt/k3eval/kernels"
    for name, value in places.items():
        os.environ.setdefault(name, value)
    if arguments in ([], ["--help"]):
        sys.stdout.write(HELP)
        sys.stdout.flush()
    elif runs(arguments):
        problem = lacking(image["flavour"], arguments, os.environ["K3EVAL_MODEL"])
        if problem is not None:
            sys.stderr.write(f"k3-eval: {problem}\n")
            sys.exit(EXIT_ENVIRONMENT)
        arguments = with_change(arguments, image["commit"])
    program = str(TOP / "referee" / "bin" / "k3-eval")
    os.execv(program, [program, *arguments])


def runs(arguments: list[str]) -> bool:
    """Whether the command evaluates: `run`, or flags alone."""
    first = arguments[0].split("=")[0]
    asks = "--help" in arguments or first == "--version"
    return not asks and (first == "run" or first.startswith("-"))


def with_change(arguments: list[str], commit: str) -> list[str]:
    """The arguments; where they name no change, with the commit that the image is made from."""
    if any(word.split("=")[0] in CHANGE for word in arguments):
        return arguments
    own = ("local/k3-eval", "1", commit)
    return [*arguments, *(word for pair in zip(CHANGE, own, strict=True) for word in pair)]


def lacking(
    flavour: str,
    arguments: list[str],
    model: str,
    *,
    results: Path = RESULTS,
    devices: Path = Path("/dev"),
    is_mounted: Callable[[Path], bool] = os.path.ismount,
) -> str | None:
    """What this container lacks for an evaluation, with the remedy; None when it lacks nothing."""
    named = {word.split("=")[0] for word in arguments}
    if "--runs" not in named:
        problem = _results_problem(results, is_mounted=is_mounted(results))
        if problem is not None:
            return problem
    if "--engine-url" in named:
        return None
    if flavour == "gpu" and not any(devices.glob("nvidia[0-9]*")):
        return (
            "This container has no GPU. Start it with --gpus all (docker) or "
            "--device nvidia.com/gpu=all (podman); without a GPU use the cpu flavour."
        )
    if "--model" not in named and not any(Path(model).glob("*")):
        return f"There is no model at {model}. Mount its folder: -v /path/of/the/model:{model}:ro"
    return None


def _results_problem(results: Path, *, is_mounted: bool) -> str | None:
    mount = 'Mount a folder that you may write to: -v "$PWD/results:/results"'
    owner = f' --user "$(id -u):$(id -g)"; this is user {os.getuid()}.'
    try:
        free = shutil.disk_usage(results).free
        with tempfile.TemporaryFile(dir=results) as file:
            file.write(bytes(4096))
            file.flush()
    except FileNotFoundError:
        return f"There is no {results}. {mount}{owner}"
    except PermissionError:
        return f"Nothing can be written to {results}. {mount}{owner}"
    except OSError as error:
        return f"Nothing can be written to {results}: {error.strerror}. {mount}{owner}"
    if not is_mounted:
        return f"Nothing is mounted at {results}: all would go with the container. {mount}{owner}"
    if free < LEAST_FREE_BYTES:
        return (
            f"The disk of {results} is full: {free >> 20} MiB are free and "
            f"{LEAST_FREE_BYTES >> 20} MiB are needed. Free some space, or mount another folder."
        )
    return None


if __name__ == "__main__":
    main()
