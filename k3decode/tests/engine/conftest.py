"""Both backends of one checkpoint, served by the engine named in K3EVAL_ENGINE_PYTHON."""

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from .server import Server, engine

# Stock reads long prompts in many chunks. The candidate's first chunk of a long prompt is larger
# than its scope, so that it falls back, and the rest is inside it.
_FLAGS = {"stock": 256, "candidate": 768}


@pytest.fixture(scope="session")
def engine_python() -> Path:
    path = os.environ.get("K3EVAL_ENGINE_PYTHON")
    if not path:
        pytest.fail(
            "engine checks need the Python of an environment with vLLM and k3decode, found none: "
            "set K3EVAL_ENGINE_PYTHON"
        )
    return Path(path).absolute()


@pytest.fixture(scope="session")
def checkpoint(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    command = [str(engine_python), "-m", "k3decode.tiny_checkpoint", str(folder), "--seed", "0"]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="session")
def servers(
    engine_python: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Server]]:
    logs = tmp_path_factory.mktemp("logs")
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:

        def start(backend: str) -> Server:
            flags = ["--max-num-batched-tokens", str(_FLAGS[backend])]
            running = engine(engine_python, checkpoint, backend, logs / f"{backend}.log", flags)
            return stack.enter_context(running)

        yield dict(zip(_FLAGS, pool.map(start, _FLAGS), strict=True))
