"""`make eval`: install, make the checkpoint, run the smoke tier, submit, say where to look."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from k3house.change import Change
from k3house.checkpoint import checkpoint_is_current, make_checkpoint
from k3house.child import tool_environment
from k3house.install import install, stale
from k3house.narrate import Narrator
from k3house.place import MODEL, RUNS, env_python, env_script
from k3house.problem import EXIT_INTERRUPTED, HouseError
from k3house.registry import check_registry, running_registry

__all__ = ["Evaluation", "evaluate"]

_STOP_S = 60.0
_VERDICT_EXITS = (0, 1, 3)
"""Exit statuses of `k3-eval run` that come with a sealed bundle."""


@dataclass(frozen=True)
class Evaluation:
    """What the variables of the Makefile ask for."""

    change: Change
    engine_url: str | None
    registry_port: int
    wheels: str | None
    keep: bool
    """Leave the registry running."""
    extra: tuple[str, ...] = ()
    """More arguments for `k3-eval run`."""


def evaluate(asked: Evaluation) -> int:
    """Run the whole chain and return the exit status of the verdict, or of what failed.

    Raises:
        HouseError: In one sentence, what is in the way.
    """
    started = time.monotonic()
    environments = {"referee", "registry"} | (set() if asked.engine_url else {"engine"})
    check_registry(asked.registry_port)
    narrator = _prepare(asked, environments)
    with running_registry(asked.registry_port, keep=asked.keep) as address:
        narrator.say(
            f"Evaluating {asked.change.repository} pull request {asked.change.pull_request} at "
            f"{asked.change.commit[:12]}; the registry answers at {address}"
        )
        status, result = _run(asked, address)
        if result is None:
            return status
        bundle = Path(result["bundle_path"])
        submit_status, page = _referee("submit", str(bundle), "--registry", address)
        report_status, _ = _referee(
            "report", str(bundle), "--html", str(Path(result["run_folder"]) / "report.html")
        )
    _say_where(asked, result, page.strip(), time.monotonic() - started)
    return status or submit_status or report_status


def _prepare(asked: Evaluation, environments: set[str]) -> Narrator:
    """Install and make the checkpoint: whatever is not there yet."""
    needs_model = asked.engine_url is None
    steps = len(stale(environments))
    narrator = Narrator(steps + (1 if needs_model else 0))
    if steps:
        narrator.say(f"Installing into .k3eval/: {steps} of the environments are not up to date.")
    install(environments, wheels=asked.wheels, narrator=narrator)
    if needs_model and not checkpoint_is_current():
        with narrator.step("make the checkpoint k3-tiny (random weights, seed 0)"):
            make_checkpoint()
    return narrator


def _run(asked: Evaluation, address: str) -> tuple[int, dict[str, str] | None]:
    change = asked.change
    engine = (
        ("--engine-url", asked.engine_url)
        if asked.engine_url
        else ("--engine-python", str(env_python("engine")), "--model", str(MODEL))
    )
    status, output = _referee(
        *("run", "--tier", "smoke", "--repository", change.repository),
        *("--pull-request", change.pull_request, "--commit", change.commit),
        *("--runs", str(RUNS), "--registry", address, *engine, *asked.extra),
    )
    if status < 0:
        raise HouseError(
            f"k3-eval was ended by {signal.Signals(-status).name} before it could seal the run.",
            f"continue with what it measured: {env_script('referee', 'k3-eval')} resume "
            f"{_newest_run() or RUNS}",
        )
    if status not in _VERDICT_EXITS or not output.strip():
        return status or EXIT_INTERRUPTED, None
    return status, json.loads(output.strip().splitlines()[-1])


def _newest_run() -> Path | None:
    """The run folder that was made last; names begin with the time."""
    return max((path for path in RUNS.glob("*") if path.is_dir()), default=None)


def _referee(*arguments: str) -> tuple[int, str]:
    """Run `k3-eval`; its words go to our stderr, its data comes back.

    It has a session of its own, so that Ctrl-C reaches it exactly once: from here.
    """
    process = subprocess.Popen(
        [str(env_script("referee", "k3-eval")), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env=tool_environment(),
        start_new_session=True,
    )
    try:
        output, _ = process.communicate()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
    return process.returncode, output


def _say_where(asked: Evaluation, result: dict[str, str], page: str, elapsed_s: float) -> None:
    lines = [
        f"Verdict     {result['verdict']}",
        f"Bundle      {result['bundle_path']}",
        f"Report      {Path(result['run_folder']) / 'report.html'}",
    ]
    if page:
        lines.append(f"Page        {page}")
        if not asked.keep:
            port = "" if asked.registry_port == 8765 else f" REGISTRY_PORT={asked.registry_port}"  # noqa: PLR2004
            lines.append(f"            (start the registry again to look at it: make serve{port})")
    lines.append(f"Took        {elapsed_s:.0f} s")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
