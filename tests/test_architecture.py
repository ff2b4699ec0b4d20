"""The shape of the code: budgets, names, one home for numbers, purity of what judges."""

import ast
import re
from datetime import date
from pathlib import Path

import pytest

from tests.repository import ROOT, Source, code_lines, committed_files, pyproject, sources

FILE_BUDGET = 300
KERNEL_FILE_BUDGET = 500
FUNCTION_BUDGET = 50
DEVICE_FUNCTION_BUDGET = 150

EXCEPTIONS: dict[str, date] = {}
"""File, or file::function, over its budget -> the day it was allowed. Empty is the aim."""

FORBIDDEN_MODULE_NAMES = frozenset(
    [
        "utils",
        "util",
        "helpers",
        "helper",
        "common",
        "misc",
        "core",
        "manager",
        "base",
        "types",
        "models",
        "data",
        "info",
    ]
)
LOCAL_ADDRESSES = frozenset({"127.0.0.1", "localhost", "[::1]"})
# Identifiers of formats, and names that are reserved for examples; none of them is asked.
# Beside examples: publishers of standards, and the forge that the registry talks to.
ALLOWED_HOSTS = re.compile(
    r"^(in-toto\.io|json-schema\.org|spec\.commonmark\.org|www\.w3\.org|www\.apache\.org|"
    r"spdx\.org|slsa\.dev|(.+\.)?github\.com|(.+\.)?githubusercontent\.com|"
    r"(.+\.)?example(\.com|\.org|\.net)?|.+\.(test|invalid))$"
)
TEXT_SUFFIXES = frozenset(
    [
        ".py",
        ".md",
        ".toml",
        ".txt",
        ".in",
        ".yaml",
        ".yml",
        ".json",
        ".jsonl",
        ".html",
        ".css",
        ".sql",
        ".svg",
        ".Dockerfile",
    ]
)


def _is_test(path: Path) -> bool:
    return "tests" in path.parts or "testing" in path.parts or path.parts[0] == "tests"


def _is_device_code(path: Path) -> bool:
    return path.name == "kernel.py" or "device" in path.parts


@pytest.mark.parametrize("source", sources(), ids=lambda source: str(source.path))
def test_file_and_functions_are_within_budget(source: Source) -> None:
    lines = code_lines(source)
    name = str(source.path)
    budget = KERNEL_FILE_BUDGET if source.path.name == "kernel.py" else FILE_BUDGET
    over = []
    if len(lines) > budget and name not in EXCEPTIONS:
        over.append(f"{name} has {len(lines)} code lines, {budget} are allowed: split it by role")
    function_budget = DEVICE_FUNCTION_BUDGET if _is_device_code(source.path) else FUNCTION_BUDGET
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = len(lines.intersection(range(node.lineno, (node.end_lineno or 0) + 1)))
            if size > function_budget and f"{name}::{node.name}" not in EXCEPTIONS:
                over.append(f"{name}::{node.name} has {size} code lines, {function_budget} allowed")
    assert over == []


def test_exceptions_are_still_needed() -> None:
    known = {str(source.path) for source in sources()}
    assert [name for name in EXCEPTIONS if name.split("::")[0] not in known] == []


def test_no_module_is_named_after_nothing() -> None:
    named = [
        str(source.path)
        for source in sources()
        if {source.path.stem, *source.path.parent.parts} & FORBIDDEN_MODULE_NAMES
    ]
    assert named == []


def _model_widths() -> frozenset[int]:
    """K3's distinctive numbers, read from their only home: large, and no power of two."""
    tree = ast.parse((ROOT / "k3decode/src/k3decode/dims.py").read_text())
    numbers = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, int)
    }
    return frozenset(n for n in numbers if n >= 512 and n & (n - 1))


def test_model_widths_are_written_once() -> None:
    widths = _model_widths()
    assert {7168, 3584, 896} <= widths
    found = [
        f"{source.path}:{node.lineno}: {node.value}"
        for source in sources()
        if source.path.parts[0] == "k3decode"
        and not _is_test(source.path)
        and source.path.name != "dims.py"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, int)
        and not isinstance(node.value, bool)
        and node.value in widths
        # An offset in machine code is written in hexadecimal and is no width.
        and not (ast.get_source_segment(source.text, node) or "").startswith("0x")
    ]
    assert found == [], "take the number from k3decode.dims"


def _texts() -> list[tuple[Path, str]]:
    return [
        (path, (ROOT / path).read_text(errors="replace"))
        for path in committed_files()
        if path.suffix in TEXT_SUFFIXES or path.name in {"Makefile", "run"}
    ]


def test_no_file_names_a_host_that_is_not_an_example() -> None:
    found = []
    for path, text in _texts():
        for host in re.findall(r"https?://([A-Za-z0-9.\[\]:-]*[A-Za-z0-9\]])", text):
            name = host if host.startswith("[") else host.split(":")[0]
            # A name without a dot is no public host.
            if "." in name and name not in LOCAL_ADDRESSES and not ALLOWED_HOSTS.match(name):
                found.append(f"{path}: {host}")
    assert found == []


def test_no_file_names_a_folder_of_one_machine() -> None:
    person = re.compile(r"/(?:home|Users)/[a-z]+/|(?<![\w.])/root/")
    here = re.compile(re.escape(f"{ROOT}/"))
    # Tests of what is scrubbed from a bundle make up people and their folders.
    found = [
        f"{path}: {match[0]}"
        for path, text in _texts()
        for pattern in ((here,) if _is_test(path) else (here, person))
        for match in pattern.finditer(text)
    ]
    assert found == []


def _contract_modules(opening: str) -> list[str]:
    modules = [
        module
        for contract in pyproject()["tool"]["importlinter"]["contracts"]
        if contract["name"].startswith(opening)
        for module in contract["source_modules"]
    ]
    assert modules, f"no import contract begins with {opening!r}"
    return modules


def _files_of(module: str) -> list[Source]:
    inner = module.replace(".", "/")
    found = [s for s in sources() if re.search(rf"src/{inner}(\.py|/)", str(s.path))]
    assert found, f"the import contracts name {module}, which has no file"
    return found


@pytest.mark.parametrize("opening", ["Judging", "Planning", "k3decode: the plan of a step"])
def test_pure_modules_open_no_file(opening: str) -> None:
    readers = {"read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir"}
    found = []
    for module in _contract_modules(opening):
        for source in _files_of(module):
            for node in ast.walk(source.tree):
                if not isinstance(node, ast.Call):
                    continue
                function = node.func
                if isinstance(function, ast.Name) and function.id in {"open", "input", "print"}:
                    found.append(f"{source.path}:{node.lineno} calls {function.id}")
                if isinstance(function, ast.Attribute) and function.attr in readers:
                    found.append(f"{source.path}:{node.lineno} calls {function.attr}")
    assert found == []


def test_no_comment_postpones_work() -> None:
    postponed = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b")
    found = [
        f"{source.path}:{number}"
        for source in sources()
        for number, line in enumerate(source.text.splitlines(), 1)
        if postponed.search(line) and source.path != Path("tests/test_architecture.py")
    ]
    assert found == []


def test_installation_needs_only_the_standard_library() -> None:
    import sys  # noqa: PLC0415

    allowed = sys.stdlib_module_names | {"k3house"}
    found = []
    for source in sources():
        if source.path.parts[0] != "tools":
            continue
        for node in ast.walk(source.tree):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names.append(node.module)
            found += [f"{source.path}: {n}" for n in names if n.split(".")[0] not in allowed]
    assert found == []
