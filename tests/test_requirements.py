"""Locks: hashed, free of sources, and in agreement with what our packages ask for."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.repository import ROOT

LOCKS = ROOT / "requirements"
INPUTS = sorted(path for path in LOCKS.glob("*.in"))
PACKAGES = {"bundle": "referee", "runner": "referee", "server": "registry", "k3decode": "engine"}
OURS = {"k3-bundle", "k3-runner", "k3-server", "k3decode"}


def _pins(lock: Path) -> dict[str, str]:
    """Name -> version of a lock; where markers give several, the last."""
    return dict(re.findall(r"(?m)^([A-Za-z0-9._-]+)==([^ ;\\]+)", lock.read_text()))


@pytest.mark.parametrize("source", INPUTS, ids=lambda path: path.name)
def test_every_input_has_a_lock_with_a_digest_for_every_package(source: Path) -> None:
    text = source.with_suffix(".txt").read_text()
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", text)
    pins = [entry for entry in entries if entry.strip()]
    assert pins
    for entry in pins:
        assert re.match(r"[A-Za-z0-9._-]+==\S+", entry), entry[:80]
        assert "--hash=sha256:" in entry, f"{source.name}: no digest for {entry[:60]!r}"


@pytest.mark.parametrize("source", INPUTS, ids=lambda path: path.name)
def test_a_lock_names_no_source_and_no_folder(source: Path) -> None:
    text = source.with_suffix(".txt").read_text()
    assert not re.search(r"://|--find-links|--index-url|--extra-index-url|^#", text, re.M)


@pytest.mark.parametrize("source", INPUTS, ids=lambda path: path.name)
def test_every_input_line_has_a_reason_above_it(source: Path) -> None:
    comment_above = False
    for line in source.read_text().splitlines():
        if line.startswith("#"):
            comment_above = True
        elif line.strip() and not line.startswith("-r "):
            assert comment_above, f"{source.name}: say above {line!r} why it is needed"


@pytest.mark.parametrize(("package", "lock"), PACKAGES.items())
def test_the_lock_satisfies_what_the_package_asks_for(package: str, lock: str) -> None:
    asked = tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]
    pins = _pins(LOCKS / f"{lock}.txt")
    for text in asked["dependencies"]:
        requirement = Requirement(text)
        if requirement.name in OURS:
            continue
        pinned = pins.get(requirement.name.replace(".", "-")) or pins.get(requirement.name)
        assert pinned is not None, f"{lock}.txt lacks {requirement.name}, add it to {lock}.in"
        assert requirement.specifier.contains(pinned, prereleases=True), f"{text} != {pinned}"


def test_the_full_registry_lock_satisfies_what_production_asks_for() -> None:
    asked = tomllib.loads((ROOT / "server" / "pyproject.toml").read_text())["project"]
    pins = _pins(LOCKS / "registry-full.txt")
    for text in asked["optional-dependencies"]["production"]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(pins[requirement.name]), text
    small = _pins(LOCKS / "registry.txt")
    assert not {"psycopg", "boto3", "pyarrow"} & set(small)
    assert small.items() <= pins.items()


def test_both_engine_locks_differ_in_torch_and_its_own_parts_only() -> None:
    small, large = _pins(LOCKS / "engine.txt"), _pins(LOCKS / "engine-pypi.txt")
    assert small["torch"] == f"{large['torch']}+cpu"
    extra = set(large) - set(small)
    assert set(small) <= set(large)
    assert all(name.startswith(("nvidia-", "cuda-")) for name in extra), extra
    same = {name for name in small if name != "torch"}
    assert {name: small[name] for name in same} == {name: large[name] for name in same}


def test_packages_that_break_the_cpu_engine_are_left_out() -> None:
    for lock in ("engine.txt", "engine-pypi.txt"):
        assert not {"torchvision", "torchaudio", "torchcodec", "triton"} & set(_pins(LOCKS / lock))
