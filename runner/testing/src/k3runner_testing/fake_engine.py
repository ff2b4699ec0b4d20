"""The fake server as an engine process: `python -m k3runner_testing.fake_engine serve MODEL ...`.

Takes the arguments that the referee gives every engine, and `--fake JSON` for its behaviour.
"""

import argparse
import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from aiohttp import web

from k3runner_testing.behaviour import Behaviour
from k3runner_testing.fake_kernels import FAKE_TOKEN
from k3runner_testing.fake_server import FakeServer, create_app

__all__ = ["main"]


def main(arguments: list[str]) -> None:
    """Serves until it is told to end."""
    parser = argparse.ArgumentParser(prog="fake_engine")
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--additional-config", type=json.loads, default={})
    parser.add_argument("--fake", type=Behaviour.from_json, default=Behaviour())
    options = parser.parse_args(arguments)
    backend = options.additional_config.get("k3decode", {}).get("decode_backend", "stock")
    behaviour = replace(options.fake, model=options.served_model_name, backend=backend)
    token = f" (login with {FAKE_TOKEN})" if behaviour.tells_a_token else ""
    print(f"INFO 11-30 07:00:00 [fake.py:0] starting{token}", flush=True)
    if behaviour.start == "dies":
        print("INFO 11-30 07:00:00 [fake.py:1] loading", flush=True)
        found = f"{backend!r}{token}"
        raise ValueError(f"decode_backend must be one of stock, candidate, found {found}")
    if behaviour.unknown_variable is not None:
        print(f"Unknown vLLM environment variable detected: {behaviour.unknown_variable}")
    if behaviour.appends_to is not None:
        with Path(behaviour.appends_to).open("a", encoding="utf-8") as file:
            file.write("forged\n")
    for _ in range(behaviour.children):
        # A session of its own is the hardest case for whoever has to clean up.
        subprocess.Popen([sys.executable, "-c", _SLEEPER], start_new_session=True)
    if behaviour.ignores_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("INFO 11-30 07:00:00 [fake.py:2] serving", flush=True)
    web.run_app(
        create_app(FakeServer(behaviour)),
        host=options.host,
        port=options.port,
        print=None,
        handle_signals=not behaviour.ignores_sigterm,
    )


_SLEEPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"

if __name__ == "__main__":
    main(sys.argv[1:])
