"""Start a real engine on this machine, talk to it, stop it. Only the loopback address is used."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODEL_NAME = "k3-tiny"
READY_LIMIT_S = 180
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_CI_ENV": "1",
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_PLUGINS": "k3decode",
}
_FLAGS = {
    "--host": "127.0.0.1",
    "--served-model-name": MODEL_NAME,
    "--dtype": "float32",
    "--max-model-len": "2048",
    "--max-num-seqs": "8",
    "--seed": "0",
    "--distributed-executor-backend": "uni",
    "--kv-cache-memory-bytes": str(64 << 20),
    "--structured-outputs-config": '{"backend": "xgrammar", "disable_any_whitespace": true}',
    "--worker-extension-cls": "k3decode.vllm_plugin.worker_extension.K3DecodeWorkerExtension",
}


@dataclass(frozen=True)
class Completion:
    """One greedy answer."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    cached_tokens: int


@dataclass(frozen=True)
class Server:
    """A running engine."""

    url: str
    backend: str

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Send JSON, return the JSON answer; an HTTP error raises with the server's words."""
        request = urllib.request.Request(  # noqa: S310  # loopback http
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            raise AssertionError(f"{path} answered {error.code}: {text}") from error

    def complete(self, prompt: list[int], count: int, **settings: Any) -> Completion:
        """Complete token ids; greedy unless settings say otherwise."""
        body = {
            "model": MODEL_NAME,
            "prompt": prompt,
            "max_tokens": count,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
            "logprobs": 1,
            **settings,
        }
        answer = self.post("/v1/completions", body)
        (choice,) = answer["choices"]
        return Completion(
            token_ids=tuple(choice["token_ids"]),
            logprobs=tuple(choice["logprobs"]["token_logprobs"]),
            cached_tokens=answer["usage"]["prompt_tokens_details"]["cached_tokens"],
        )

    def metric(self, name: str) -> float:
        """One counter of the engine, summed over its labels."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=20) as answer:  # noqa: S310
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{"))

    def coverage(self) -> dict[str, Any]:
        """The step counts of the one worker."""
        (text,) = self.post("/collective_rpc", {"method": "k3decode_coverage"})["results"]
        report: dict[str, Any] = json.loads(text)
        return report


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def engine(
    python: Path, model: Path, backend: str, log: Path, flags: list[str]
) -> Iterator[Server]:
    """Run an engine in a process group of its own, from ready to stopped."""
    port = _free_port()
    command = [str(python.parent / "vllm"), "serve", str(model), "--port", str(port)]
    command += [part for pair in _FLAGS.items() for part in pair]
    command += ["--enforce-eager", "--enable-prompt-tokens-details"]
    command += ["--additional-config", json.dumps({"k3decode": {"decode_backend": backend}})]
    environment = {**os.environ, **_ENVIRONMENT}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*command, *flags],
            env=environment,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield _ready(process, f"http://127.0.0.1:{port}", backend, log)
        finally:
            _stop(process)


def _ready(process: subprocess.Popen[bytes], url: str, backend: str, log: Path) -> Server:
    limit = time.monotonic() + READY_LIMIT_S
    while time.monotonic() < limit and process.poll() is None:
        try:
            with urllib.request.urlopen(url + "/health", timeout=5):  # noqa: S310
                return Server(url=url, backend=backend)
        except OSError:
            time.sleep(0.25)
    tail = log.read_text(errors="replace")[-3000:]
    raise AssertionError(f"the {backend} engine did not become ready; its last words: {tail}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=20)
