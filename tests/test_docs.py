"""Documentation is tested: what it names exists, and what exists is documented."""

import re
import shlex
from pathlib import Path
from typing import get_args

import pytest
import typer.main

from k3bundle.finding import FindingCode
from k3house.environments import ENVIRONMENTS
from k3runner.cli import app
from k3runner.exit_code import ExitCode
from k3runner.settings import SETTINGS
from tests.repository import ROOT, committed_files

PAGES = tuple(path for path in committed_files() if path.suffix == ".md")
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = dict(re.findall(r"(?m)^([a-z-]+):.*?## (.+)$", MAKEFILE))
PARTS = re.findall(
    r"[a-z][a-z-]+",
    re.search(r"parts ((?:[a-z-]+|\\\n|\s)+)", MAKEFILE)[1],  # type: ignore[index]
)
COMMANDS = frozenset(typer.main.get_group(app).commands)
# Words of other vocabularies for things that have a name here: see docs/glossary.md.
REPLACED_WORDS = re.compile(r"\b(whitelist|blacklist|golden (file|test|output)|bypass(es|ed)?)\b")


def _text(name: str | Path) -> str:
    return (ROOT / name).read_text()


def _commands(page: Path) -> list[list[str]]:
    """Lines of fenced and indented blocks and of inline code that call make or k3-eval."""
    text = _text(page)
    blocks = "\n".join(re.findall(r"(?ms)^```[a-z]*\n(.*?)^```", text))
    inline = "\n".join(re.findall(r"`([^`\n]+)`", text))
    indented = "\n".join(re.findall(r"(?m)^    (.+)$", text))
    found = []
    for line in f"{blocks}\n{inline}\n{indented}".splitlines():
        call = re.match(r"\s*(?:\$ )?((?:make|k3-eval)(?:\s.*)?)$", line)
        if call:
            words = re.split(r"\s{2,}|\s#|\s\|", call[1])[0]
            found.append(shlex.split(words.rstrip("\\").replace("'", "").replace('"', "")))
    return found


def test_the_makefile_has_targets_and_parts() -> None:
    assert {"eval", "test", "serve", "help", "clean"} <= set(TARGETS)
    assert {"lint", "types", "contracts", "test-unit", "test-engine"} <= set(PARTS)


def test_every_target_has_a_sentence() -> None:
    phony = re.search(r"(?m)^\.PHONY: ((?:.*\\\n)*.*)$", MAKEFILE)
    assert phony is not None
    assert set(phony[1].replace("\\\n", " ").split()) == set(TARGETS)
    assert [name for name, words in TARGETS.items() if not words.endswith(".")] == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_commands_on_a_page_exist(page: Path) -> None:
    unknown = []
    for words in _commands(page):
        if len(words) == 1:
            continue
        name = next((w for w in words[1:] if "=" not in w or w.startswith("-")), "")
        if words[0] == "make" and name and name not in TARGETS:
            unknown.append(" ".join(words))
        if (
            words[0] == "k3-eval"
            and not name.startswith("-")
            and name not in COMMANDS | {"COMMAND"}
        ):
            unknown.append(" ".join(words))
    assert unknown == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_on_a_page_lead_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", _text(page)):
        file, _, anchor = target.partition("#")
        if "://" in target:
            continue
        linked = (ROOT / page).parent / file if file else ROOT / page
        if not linked.exists() or (anchor and anchor not in _anchors(linked)):
            broken.append(target)
    assert broken == []


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"(?m)^#+ (.+)$", page.read_text())
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_page_uses_this_vocabulary(page: Path) -> None:
    if page == Path("docs/glossary.md"):
        return
    assert [match[0] for match in REPLACED_WORDS.finditer(_text(page))] == []


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_paths_on_a_page_exist(page: str) -> None:
    tops = {path.parts[0] for path in committed_files() if len(path.parts) > 1}
    named = re.findall(r"`([\w.-]+(?:/[\w.-]+)+/?)`", _text(page))
    missing = [name for name in named if name.split("/")[0] in tops and not (ROOT / name).exists()]
    assert missing == []
    assert named


def test_every_target_is_named_in_a_guide() -> None:
    guides = _text("README.md") + _text("CONTRIBUTING.md")
    parts = {f"`{part}`" for part in PARTS}
    missing = [
        name for name in TARGETS if f"make {name}" not in guides and f"`{name}`" not in parts
    ]
    assert missing == []


def test_every_variable_of_the_makefile_is_in_the_readme() -> None:
    variables = re.findall(r"(?m)^([A-Z_]+) \?=", MAKEFILE)
    table = re.findall(r"(?m)^\| `([A-Z_]+)` \|", _text("README.md"))
    assert sorted(variables) == sorted(table)


def test_every_part_of_the_tests_has_its_time() -> None:
    rows = re.findall(r"(?m)^\| `([a-z-]+)` \| .+? \| (.+?) \|$", _text("CONTRIBUTING.md"))
    assert [part for part, _ in rows] == PARTS
    assert [time for _, time in rows if not re.fullmatch(r"[\d.]+ (s|min)", time)] == []


def test_ci_runs_exactly_what_the_quick_start_says() -> None:
    quick_start = re.findall(r"(?m)^```console\n(.*?)\n```", _text("README.md"))
    run_by_ci = re.findall(r"(?m)^timed (.+)$", _text(".ci/run"))
    assert quick_start == run_by_ci == ["make eval", "make test"]


def test_every_exit_code_is_documented_with_its_meaning() -> None:
    page = _text("runner/README.md")
    documented = {int(code) for code in re.findall(r"(?m)^### Exit code (\d+)$", page)}
    assert documented == {int(code) for code in ExitCode}


def test_every_finding_code_has_a_section_and_no_other_has() -> None:
    page = _text("bundle/README.md")
    section = page[page.index("\n## Findings") : page.index("\n## Versions")]
    assert sorted(re.findall(r"(?m)^### ([a-z-]+)$", section)) == sorted(get_args(FindingCode))


def test_every_environment_variable_is_documented_and_no_other_is() -> None:
    rows = re.findall(r"(?m)^\| `(K3EVAL_\w+)` \|", _text("runner/README.md"))
    assert sorted(rows) == sorted(SETTINGS)


def test_every_command_has_a_section() -> None:
    page = _text("runner/README.md")
    section = page[page.index("\n## Commands") : page.index("\n## Settings")]
    assert set(re.findall(r"(?m)^### ([a-z]+)$", section)) == COMMANDS


def test_every_decision_is_in_the_index_under_its_title() -> None:
    index = dict(
        re.findall(r"(?m)^\| \[\d{4}\]\(([^)]+)\) \| (.+) \|$", _text("docs/decisions/README.md"))
    )
    pages = {
        page.name: re.sub(r"^# \d{4} ", "", _text(page).splitlines()[0])
        for page in PAGES
        if page.parent == Path("docs/decisions") and page.name != "README.md"
    }
    assert index == pages


def test_every_environment_and_lock_is_in_the_table_of_locks() -> None:
    page = _text("requirements/README.md")
    locks = {path.stem for path in (ROOT / "requirements").glob("*.in")}
    assert set(re.findall(r"`([a-z-]+)\.txt`", page)) - {"engine-overrides"} == locks
    assert [e.name for e in ENVIRONMENTS if f"| `{e.name}` |" not in page] == []
