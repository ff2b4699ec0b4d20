"""What a process says, on its way into a log: whole lines, clean, at once, to the last one."""

import os
from pathlib import Path

import pytest

from k3runner.process_output import BoundedOutput, CleanLog, OutputPipe
from k3runner.scrub import Identities, Scrubber

TOKEN = "hf_" + "a1B2" * 8 + "xy"
KEY = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3Bl\n" * 40 + "-----END OPENSSH PRIVATE KEY-----\n"
)
NOBODY = Identities(home="", user="", host="", places={})


def scrub(text: str) -> str:
    return Scrubber(NOBODY).scrub(text)


def logged(path: Path, text: str, size: int) -> str:
    """The log after the text came in pieces of so many bytes."""
    log = CleanLog(path, scrub)
    content = text.encode()
    for start in range(0, len(content), size):
        log.take(content[start : start + size])
    log.take(b"")
    return path.read_bytes().decode("utf-8")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 31, 100_000])
def test_b55_a_secret_is_clean_however_it_is_cut_on_its_way(size: int, tmp_path: Path) -> None:
    text = f"bytes é of\n{KEY}token={TOKEN}\rstep 3 of 9\rlast word {TOKEN}"
    expected = "bytes é of\n<private-key>\ntoken=<hf-token>\rstep 3 of 9\rlast word <hf-token>"
    assert logged(tmp_path / "log", text, size) == expected


def test_a_whole_line_is_in_the_log_at_once_and_a_half_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = CleanLog(path, scrub)
    log.take(b"ready\nhf_a1B2a1B2")
    assert path.read_text() == "ready\n"
    log.take(b"a1B2a1B2a1B2\n")
    assert path.read_text() == "ready\n<hf-token>\n"
    log.take(b"")


def test_a_line_without_an_end_is_cut_between_words(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = CleanLog(path, scrub)
    log.take(b"word " * 20_000 + TOKEN[:20].encode())
    assert path.stat().st_size > 0
    log.take(TOKEN[20:].encode())
    log.take(b"")
    assert path.read_text() == "word " * 20_000 + "<hf-token>"


def test_a_private_key_without_an_end_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    text = "-----BEGIN RSA PRIVATE KEY-----\n" + "b3Bl\n" * 20_000
    found = logged(tmp_path / "log", text, 4096)
    assert found.startswith("<private-key>")


def test_a_full_disk_does_not_stop_whoever_is_logged() -> None:
    # Every write to this device fails as on a full disk.
    log = CleanLog(Path("/dev/full"), scrub)
    log.take(b"one\n")
    log.take(b"")


def test_output_beyond_its_limit_is_counted_and_not_kept() -> None:
    output = BoundedOutput(10)
    output.take(b"12345")
    output.take(b"67890")
    assert (output.size, output.content) == (10, b"1234567890")
    output.take(b"1")
    assert (output.size, output.content) == (11, b"")


def test_a_pipe_gives_all_and_then_the_end() -> None:
    pieces: list[bytes] = []
    pipe = OutputPipe(pieces.append)
    os.write(pipe.write_end, b"said")
    pipe.begin()
    pipe.wait(10.0)
    assert pieces == [b"said", b""]
