"""A long log is cut at both ends, and no half of a word stays."""

from pathlib import Path

from k3runner.log_text import log_text


def test_a_long_log_keeps_both_ends_without_halves_of_words(tmp_path: Path) -> None:
    log = tmp_path / "boot.log"
    log.write_text("first " + "a" * 50 + " middle " + "b" * 50 + " last")
    assert log_text(log, 40) == "first \n[... 108 bytes left out ...]\n last"
    assert log_text(log, 400) == log.read_text()
