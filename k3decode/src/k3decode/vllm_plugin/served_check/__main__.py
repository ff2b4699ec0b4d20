"""`python -m k3decode.vllm_plugin.served_check`: the decode path inside vLLM 0.33.0, on a GPU.

One engine has both paths: their captured steps share weights, caches and state. Checked are logits
and greedy tokens of teacher-forced decoding, one kernel at a time, in turns step by step, and from
captured graphs at several batches. There a bias decides about experts; lines `observed` leave that
to scores and their rounding, and judge nothing. Then both are timed. Lines of JSON on stdout.
"""

import argparse
import importlib.metadata
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from k3decode.circumstances import circumstances, typed_command
from k3decode.vllm_plugin.served_check.check_engine import CheckEngine, EngineRequest
from k3decode.vllm_plugin.served_check.compare_paths import PathComparison
from k3decode.vllm_plugin.served_check.small_model import check_dims
from k3decode.vllm_plugin.served_check.step_times import time_paths

__all__ = ["main"]

_SCHEMA = "k3decode.served_check/1"
_PHASES = ("eager", "alternate", "graphs", "observed", "times")
_KERNELS_S = 120.0


class _Results:
    """Writes lines, and what went wrong."""

    def __init__(self, commit: str) -> None:
        self._commit = commit
        self._start = time.perf_counter()
        self.passed = True

    def say(self, phase: str, **fields: Any) -> None:
        line = {"schema": _SCHEMA, "phase": phase, "commit": self._commit, **fields}
        line["after_s"] = round(time.perf_counter() - self._start, 1)
        self.passed &= line.get("outcome", "passed") == "passed"
        print(json.dumps(line), flush=True)

    def run(
        self, phase: str, work: Callable[[], dict[str, Any]], explain: Callable[[], Any]
    ) -> None:
        """Do one thing; an error becomes a line with what explains it."""
        try:
            self.say(phase, **work())
        except Exception as error:
            # Whatever it is, the other phases are worth their time.
            traceback.print_exc()
            self.say(phase, outcome="errored", sentence=f"{type(error).__name__}: {error}"[:800])
            print("\n".join(explain()), file=sys.stderr, flush=True)


def _request(options: argparse.Namespace) -> EngineRequest:
    return EngineRequest(
        dims=check_dims(options.ranks, options.layers),
        batches=tuple(options.batch),
        seed=options.seed,
        prompt_tokens=options.prompt + options.steps,
        moe_backend=options.moe_backend,
        stock_first=not options.ours_first,
    )


def _facts(engine: CheckEngine) -> dict[str, Any]:
    served = engine.model.served
    return {
        "vllm": importlib.metadata.version("vllm"),
        "layers": engine.request.dims.num_hidden_layers,
        "model": type(engine.model).__name__,
        "prepared": sorted(served.prepared),
        "captured": served.captured,
        "twice_bytes": engine.model.twice_bytes,
        "activation_bytes": served.workspace_bytes,
        "allocated_bytes": torch.cuda.memory_allocated(),
    }


def _take_kernels(folder: Path) -> None:
    """Wait for a library that another process exports, and use it from now on."""
    deadline = time.monotonic() + _KERNELS_S
    while not folder.exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    os.environ["K3DECODE_KERNELS"] = str(folder)


def _explanation(engine: CheckEngine) -> list[str]:
    """Shapes of the last step's caches and metadata."""
    seen = engine.model.served.last_seen
    return engine.model.served.describe(*seen) if seen else ["no step was seen"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns 0 if everything passed, 1 if not."""
    parser = argparse.ArgumentParser(
        prog="python -m k3decode.vllm_plugin.served_check", description=__doc__
    )
    parser.add_argument("--commit", required=True, help="of the sources")
    parser.add_argument("--ranks", type=int, default=8, help="widths of one of so many")
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument(
        "--padded", type=int, nargs="*", default=[], help="requests that a captured step pads"
    )
    parser.add_argument("--eager-rows", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=32, help="tokens of a prompt")
    parser.add_argument("--steps", type=int, default=33, help="given tokens of a request")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=96, help="of a timed generation")
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--moe-backend", default="auto")
    parser.add_argument("--kernels", type=Path, help="exported; waited for while the engine starts")
    parser.add_argument("--ours-first", action="store_true", help="start with our graphs")
    parser.add_argument("--phase", nargs="+", choices=_PHASES, default=list(_PHASES))
    options = parser.parse_args(arguments)
    results = _Results(options.commit)
    if options.kernels is not None and options.ours_first:
        _take_kernels(options.kernels)
    engine = CheckEngine(_request(options))
    if options.kernels is not None:
        _take_kernels(options.kernels)
    command = typed_command("k3decode.vllm_plugin.served_check", arguments)
    results.say("start", **_facts(engine), **circumstances(options.commit, command))
    _phases(options, engine, results)
    return 0 if results.passed else 1


def _phases(options: argparse.Namespace, engine: CheckEngine, results: _Results) -> None:
    comparison = PathComparison(engine, prompt_tokens=options.prompt, steps=options.steps)
    engine.decide_routing(by_bias=True)

    def explain() -> list[str]:
        return _explanation(engine)

    def compare(rows: int, *, graphs: bool) -> Callable[[], dict[str, Any]]:
        return lambda: comparison.compare(rows, graphs=graphs)

    if "eager" in options.phase:
        results.run("eager", compare(options.eager_rows, graphs=False), explain)
    if "alternate" in options.phase:
        results.run("alternate", lambda: comparison.alternate(options.eager_rows), explain)
    for rows in [*options.batch, *options.padded] if "graphs" in options.phase else ():
        results.run("graphs", compare(rows, graphs=True), explain)
    for rows in options.batch if "observed" in options.phase else ():
        results.run("observed", partial(comparison.observe, rows), explain)
    engine.decide_routing(by_bias=False)
    for rows in options.batch if "times" in options.phase else ():
        results.run("times", _timed(engine, rows, options), explain)
    results.run("coverage", lambda: {"report": json.loads(engine.coverage())}, explain)
    results.say("end", captured=engine.model.served.captured)


def _timed(
    engine: CheckEngine, rows: int, options: argparse.Namespace
) -> Callable[[], dict[str, Any]]:
    return lambda: time_paths(
        engine, rows, rounds=options.rounds, tokens=options.tokens, replays=options.replays
    )


if __name__ == "__main__":
    sys.exit(main())
