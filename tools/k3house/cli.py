"""The commands behind the Makefile. Words go to stderr; a problem is one sentence."""

import argparse
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType

from k3house.change import head_commit, parse_change
from k3house.evaluate import Evaluation, evaluate
from k3house.full_stack import FULL_DATA, serve_full
from k3house.install import install
from k3house.lock import make_locks
from k3house.parts import run_parts
from k3house.place import HOUSE
from k3house.problem import EXIT_INTERRUPTED, EXIT_USAGE, HouseError
from k3house.registry import check_port, serve

__all__ = ["main"]

_LAST_PORT = 65535


def main(arguments: list[str]) -> int:
    """Run one command and return the exit status."""
    signal.signal(signal.SIGTERM, _interrupt)
    # A background job inherits SIGINT as ignored, and so would every process started from here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _run(_parser().parse_args(arguments))
    except HouseError as problem:
        sys.stderr.write(f"k3-eval: {problem}\n")
        return problem.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("\nk3-eval: stopped; nothing was left running or half-made.\n")
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="house", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    install_parser = commands.add_parser("install", help="make environments from the locks")
    install_parser.add_argument("environments", nargs="+")
    eval_parser = commands.add_parser("eval", help="evaluate with the smoke tier")
    for name in ("--repository", "--pull-request"):
        eval_parser.add_argument(name, required=True)
    eval_parser.add_argument("--commit", default="")
    eval_parser.add_argument("--engine-url", default="")
    eval_parser.add_argument("--keep", default="")
    eval_parser.add_argument("more", nargs="*", help="arguments for `k3-eval run`, after --")
    serve_parser = commands.add_parser("serve", help="run the registry in the foreground")
    full_parser = commands.add_parser("serve-full", help="run the registry with all its servers")
    full_parser.add_argument("--data", type=Path, default=FULL_DATA)
    for one in (eval_parser, serve_parser, full_parser):
        one.add_argument("--registry-port", type=_port, required=True)
    lock_parser = commands.add_parser("lock", help="make the locks again")
    lock_parser.add_argument("--upgrade", default="")
    for one in (install_parser, eval_parser, serve_parser, full_parser, lock_parser):
        one.add_argument("--wheels", default="")
    parts_parser = commands.add_parser("parts", help="run make targets and time them")
    parts_parser.add_argument("words", nargs="+")
    parts_parser.add_argument("--beside", action="append", default=[], metavar="PART")
    commands.add_parser("clean", help="remove everything that was made")
    return parser


def _run(chosen: argparse.Namespace) -> int:
    match chosen.command:
        case "install":
            install(set(chosen.environments), wheels=chosen.wheels or None)
        case "eval":
            return evaluate(_evaluation(chosen))
        case "serve":
            check_port(chosen.registry_port)
            install({"registry"}, wheels=chosen.wheels or None)
            return serve(chosen.registry_port)
        case "serve-full":
            check_port(chosen.registry_port)
            install({"registry-full", "services"}, wheels=chosen.wheels or None)
            return serve_full(chosen.registry_port, chosen.data)
        case "lock":
            make_locks(wheels=chosen.wheels or None, upgrade=_switch("UPGRADE", chosen.upgrade))
        case "parts":
            variables = [word for word in chosen.words if "=" in word]
            parts = [word for word in chosen.words if "=" not in word]
            return run_parts(parts, variables, beside=chosen.beside)
        case "clean":
            shutil.rmtree(HOUSE, ignore_errors=True)
    return 0


def _evaluation(chosen: argparse.Namespace) -> Evaluation:
    change = parse_change(chosen.repository, chosen.pull_request, chosen.commit or head_commit())
    return Evaluation(
        change=change,
        engine_url=chosen.engine_url or None,
        registry_port=chosen.registry_port,
        wheels=chosen.wheels or None,
        keep=_switch("KEEP", chosen.keep),
        extra=tuple(chosen.more),
    )


def _port(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) <= _LAST_PORT:
        raise HouseError(
            f"REGISTRY_PORT must be a port from 1 to {_LAST_PORT}, found `{text}`.",
            "for example: make eval REGISTRY_PORT=8800",
            EXIT_USAGE,
        )
    return int(text)


def _switch(name: str, text: str) -> bool:
    if text not in {"", "0", "1"}:
        raise HouseError(
            f"{name} must be 1, or 0, or left out; found `{text}`.",
            f"for example: {name}=1",
            EXIT_USAGE,
        )
    return text == "1"


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
