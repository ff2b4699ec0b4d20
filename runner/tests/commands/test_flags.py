"""Wrong flags end in one sentence with a next step, and exit code 2, before anything starts."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from k3runner.commands.exit_table import MEANING
from k3runner.exit_code import ExitCode

SHA = "c0ffee" + "0" * 34
CHANGE = ("--repository", "example/engine", "--pull-request", "7", "--commit", SHA)
COMMANDS = ("doctor", "plan", "run", "resume", "verify", "submit", "report", "keygen")


def flags(**changes: str) -> list[str]:
    named = dict(zip(CHANGE[::2], CHANGE[1::2], strict=True))
    named |= {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    return [word for pair in named.items() for word in pair]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"commit": "c0ffee0"}, ("40 hex digits", "found 7", "git rev-parse HEAD")),
        ({"commit": SHA.upper()}, ("lower case", "git rev-parse HEAD")),
        ({"commit": SHA + "0"}, ("40 hex digits", "found 41")),
        ({"commit": SHA + "\n"}, ("40 hex digits",)),
        ({"commit": "main"}, ("`main`", "git rev-parse HEAD")),
        ({"repository": "engine"}, ("OWNER/NAME", "`engine`")),
        ({"repository": "https://forge.example/a/b"}, ("OWNER/NAME",)),
        ({"repository": "a/b\u202e"}, ("OWNER/NAME", "⟨U+202E⟩")),
        ({"pull_request": "0"}, ("from 1 to 10000000", "found `0`")),
        ({"pull_request": "-3"}, ("from 1 to 10000000", "found `-3`")),
        ({"pull_request": "seven"}, ("from 1 to 10000000", "found `seven`")),
    ],
)
def test_run_wrong_change_flag_says_which_and_how_to_get_it(
    k3_eval: Callable[..., Any], changes: dict[str, str], words: tuple[str, ...]
) -> None:
    outcome = k3_eval("run", *flags(**changes))

    assert outcome.code == 2
    assert outcome.stdout == ""
    assert outcome.stderr.count("\n") == 1
    for word in words:
        assert word in outcome.stderr


def test_run_unknown_tier_lists_the_tiers(k3_eval: Callable[..., Any]) -> None:
    outcome = k3_eval("--tier", "tiny", *CHANGE)

    assert outcome.code == 2
    assert outcome.stderr == (
        "k3-eval: No tier `tiny`; the tiers are smoke, kernels, quick, standard, full. "
        "Use one that this version ships: smoke, kernels, quick, standard, full.\n"
    )


def test_first_argument_is_a_flag_means_run(k3_eval: Callable[..., Any]) -> None:
    with_command = k3_eval("run", *flags(commit="abc"))
    without_command = k3_eval(*flags(commit="abc"))

    assert without_command == with_command


def test_run_missing_flag_names_it_and_the_help(k3_eval: Callable[..., Any]) -> None:
    outcome = k3_eval("run", "--tier", "smoke")

    assert outcome.code == 2
    assert "--repository" in outcome.stderr
    assert "`k3-eval run --help` shows" in outcome.stderr


def test_run_without_engine_says_what_to_do(k3_eval: Callable[..., Any]) -> None:
    outcome = k3_eval("run", *CHANGE)

    assert outcome.code == 5
    assert "No engine Python at" in outcome.stderr
    assert "make eval" in outcome.stderr


@pytest.mark.parametrize("command", ["verify", "submit", "report"])
def test_command_with_missing_file_says_where_to_get_it(
    k3_eval: Callable[..., Any], command: str
) -> None:
    extra = ("--registry", "http://127.0.0.1:9") if command == "submit" else ()
    outcome = k3_eval(command, "nowhere.k3b", *extra)

    assert outcome.code == 2
    assert outcome.stderr == (
        "k3-eval: No bundle at nowhere.k3b. "
        "Give the path that `k3-eval run` printed as bundle_path.\n"
    )


def test_unknown_command_and_unknown_flag_are_usage_errors(k3_eval: Callable[..., Any]) -> None:
    unknown_command = k3_eval("evaluate")
    unknown_flag = k3_eval("plan", "--tiers", "smoke")

    assert (unknown_command.code, unknown_flag.code) == (2, 2)
    assert "evaluate" in unknown_command.stderr
    assert "--tiers" in unknown_flag.stderr


def test_no_argument_shows_the_help(k3_eval: Callable[..., Any]) -> None:
    outcome = k3_eval()

    assert "A first evaluation:" in outcome.stderr + outcome.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_with_example_and_exit_codes(
    k3_eval: Callable[..., Any], command: str
) -> None:
    outcome = k3_eval(command, "--help")

    assert outcome.code == 0
    assert f"Example:\n    k3-eval {command}" in outcome.stdout
    assert "Exit codes:" in outcome.stdout


def test_help_imports_nothing_heavy() -> None:
    heavy = ("aiohttp", "rich", "jinja2", "pydantic", "scipy", "k3bundle")
    script = (
        "import sys; from k3runner.cli import run_command_line; run_command_line(['--help']);"
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ
    )

    assert done.stderr.strip() == "[]"
    # Ten times the time it takes on a quiet machine, so that only a real change turns this red.
    assert time.monotonic() - started < 5


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANING) == set(ExitCode)
