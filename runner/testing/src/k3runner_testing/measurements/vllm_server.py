"""A real vLLM on this machine's CPU, for the measurements. Only the loopback address is used."""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from k3runner_testing.measurements.workload import MODEL

__all__ = ["vllm_server", "write_tiny_model"]

_READY_LIMIT_S = 300.0
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_CI_ENV": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_PLUGINS": "k3decode",
}
_FLAGS = (
    *("--host", "127.0.0.1", "--served-model-name", MODEL, "--dtype", "float32"),
    *("--max-model-len", "2048", "--max-num-seqs", "8", "--seed", "0"),
    *("--distributed-executor-backend", "uni", "--kv-cache-memory-bytes", str(64 << 20)),
    *("--enforce-eager", "--no-enable-prefix-caching", "--enable-per-request-metrics"),
)


def write_tiny_model(engine_python: Path, folder: Path) -> Path:
    """Writes the small random checkpoint that the engine tests use, and returns its folder."""
    model = folder / "model"
    command = [str(engine_python), "-m", "k3decode.tiny_checkpoint", str(model), "--seed", "0"]
    subprocess.run(command, check=True)
    return model


@contextmanager
def vllm_server(engine_python: Path, model: Path, log: Path) -> Iterator[str]:
    """Runs an engine in a process group of its own, from ready to stopped; gives its base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    url = f"http://127.0.0.1:{port}"
    command = [str(engine_python.parent / "vllm"), "serve", str(model), "--port", str(port)]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*command, *_FLAGS],
            env={**os.environ, **_ENVIRONMENT},
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_ready(process, url, log)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_ready(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    limit = time.monotonic() + _READY_LIMIT_S
    while time.monotonic() < limit and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):  # noqa: S310
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.25)
    tail = log.read_text("utf-8", "replace")[-2000:]
    raise SystemExit(f"the engine did not become ready; its log ends with:\n{tail}")
