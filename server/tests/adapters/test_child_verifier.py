"""The verifier's process under programs that misbehave in every way it may."""

import sys
import time
from pathlib import Path

import pytest

from k3bundle_testing.example_plan import EXAMPLE_CHANGE
from k3bundle_testing.sealing import sealed_archive
from k3server.adapters.child_verifier import ChildVerifier
from k3server.ports import Refused, Verified
from k3server.settings import Settings

PRELUDE = "import sys, time, os, resource, signal\n"


@pytest.fixture
def misbehave(tmp_path: Path) -> "Misbehave":
    return Misbehave(tmp_path)


class Misbehave:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, program: str, **settings: float) -> ChildVerifier:
        """A verifier that runs this program instead of its own."""
        script = self._folder / "program.py"
        script.write_text(PRELUDE + program)
        wrapper = self._folder / "python"
        wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
        wrapper.chmod(0o755)
        limits = Settings(public_url="http://x", **settings)  # type: ignore[arg-type]
        return ChildVerifier(limits, python=str(wrapper))


async def refusal(verifier: ChildVerifier) -> tuple[str, str]:
    verification = await verifier.verify(Path("/dev/null"), EXAMPLE_CHANGE)
    assert isinstance(verification, Refused)
    assert verification.title == "The bundle could not be judged"
    (finding,) = verification.findings
    assert finding.hint.endswith(".")
    return finding.code, finding.why


async def test_verify_that_never_ends_is_refused_in_time(misbehave: Misbehave) -> None:
    verifier = misbehave("time.sleep(600)", verify_wall_s=1.0)
    started = time.monotonic()
    code, why = await refusal(verifier)
    assert code == "verification-timeout"
    assert "within 1 s" in why
    assert time.monotonic() - started < 10


async def test_verify_that_closes_its_pipes_and_stays_is_refused(misbehave: Misbehave) -> None:
    verifier = misbehave("os.close(1); os.close(2); time.sleep(600)", verify_wall_s=1.0)
    code, _ = await refusal(verifier)
    assert code == "verification-timeout"


@pytest.mark.parametrize(
    ("program", "code", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "verification-crashed", "signal 11"),
        ("os.kill(os.getpid(), signal.SIGXCPU)", "verification-timeout", "CPU time"),
        ("raise SystemExit(1)", "verification-crashed", "status 1"),
        ("raise SystemExit(3)", "verification-memory", "MiB of memory"),
        ("print('[]')", "verification-crashed", "something else"),
        ("print('{}')", "verification-crashed", "something else"),
        (
            'print(\'{"findings": [{"code": "x"}], "document": null}\')',
            "verification-crashed",
            "something else",
        ),
        (
            "[sys.stdout.write('x' * 2**20) for _ in range(17)]",
            "verification-crashed",
            "status 0",
        ),
    ],
)
async def test_verify_that_dies_or_babbles_is_a_refusal(
    misbehave: Misbehave, program: str, code: str, words: str
) -> None:
    found, why = await refusal(misbehave(program))
    assert found == code
    assert words in why


async def test_verify_answer_without_document_and_finding_is_no_acceptance(
    misbehave: Misbehave,
) -> None:
    verifier = misbehave('print(\'{"findings": [], "document": null}\')')
    code, why = await refusal(verifier)
    assert code == "verification-crashed"
    assert "neither" in why


async def test_verify_over_the_memory_limit_is_a_sentence(tmp_path: Path) -> None:
    archive = tmp_path / "good.k3b"
    archive.write_bytes(sealed_archive())
    settings = Settings(public_url="http://x", verify_memory_bytes=64 * 2**20)
    code, _ = await refusal(ChildVerifier(settings))
    assert code in {"verification-memory", "verification-crashed"}


async def test_verify_good_bundle_gives_its_document(tmp_path: Path) -> None:
    archive = tmp_path / "good.k3b"
    archive.write_bytes(sealed_archive())
    verification = await ChildVerifier(Settings(public_url="http://x")).verify(
        archive, EXAMPLE_CHANGE
    )
    assert isinstance(verification, Verified)
    assert verification.document.manifest.change == EXAMPLE_CHANGE


@pytest.mark.parametrize(
    ("limits", "where"),
    [
        ({"max_content_bytes": 150_000}, "all files together"),
        ({"max_archive_bytes": 10_000}, "the bundle file"),
    ],
)
async def test_verify_over_a_limit_of_size_names_what_is_too_large(
    tmp_path: Path, limits: dict[str, int], where: str
) -> None:
    archive = tmp_path / "good.k3b"
    archive.write_bytes(sealed_archive())
    settings = Settings(public_url="http://x", **limits)  # type: ignore[arg-type]
    verification = await ChildVerifier(settings).verify(archive, EXAMPLE_CHANGE)
    assert isinstance(verification, Refused)
    (finding,) = verification.findings
    assert (finding.code, finding.where) == ("archive-too-large", where)


async def test_verify_reads_no_file_that_is_larger_than_its_content_may_be(tmp_path: Path) -> None:
    archive = tmp_path / "hole.k3b"
    with archive.open("wb") as file:
        file.truncate(2**33)
    settings = Settings(public_url="http://x", max_archive_bytes=2**34)
    verification = await ChildVerifier(settings).verify(archive, EXAMPLE_CHANGE)
    assert isinstance(verification, Refused)
    (finding,) = verification.findings
    assert finding.code == "archive-too-large"
    assert f"found {2**33} or more" in finding.why
