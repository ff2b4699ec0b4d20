"""The README teaches every command, setting and exit code, and none that is gone."""

import re
from pathlib import Path

import pytest

from k3runner.cli import app
from k3runner.commands.exit_table import MEANING
from k3runner.exit_code import ExitCode
from k3runner.settings import SETTINGS

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


@pytest.mark.parametrize("code", list(ExitCode))
def test_readme_has_row_and_section_for_every_exit_code(code: ExitCode) -> None:
    assert f"| [{code.value}](#exit-code-{code.value}) | {MEANING[code]} |" in README
    assert f"\n### Exit code {code.value}\n\n" in README


def test_readme_commands_are_the_commands_that_exist() -> None:
    section = README.split("\n## Commands\n")[1].split("\n## ")[0]

    named = re.findall(r"^### (\w+)$", section, re.MULTILINE)
    known = [str(command.name) for command in app.registered_commands]
    known += [str(group.name) for group in app.registered_groups]
    assert sorted(named) == sorted(known)


def test_readme_settings_are_the_settings_that_exist() -> None:
    section = README.split("\n## Settings\n")[1].split("\n## ")[0]

    assert re.findall(r"^\| `(K3EVAL_\w+)`", section, re.MULTILINE) == list(SETTINGS)
