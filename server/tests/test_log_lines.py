"""The log tells what happened, on one line each, and no secret."""

import json
import logging
from pathlib import Path

import pytest

from k3server.cli import main
from k3server.log_lines import LogForm, formatter, without_secrets

# Made here in pieces, so that no scanner takes this file for a leak.
SECRETS = (
    "f" * 60,
    "c2VjcmV0" * 3,
    "A1b2" * 9,
    "hunter2",
)
TEXT = (
    f"token k3r_{'0' * 16}_{SECRETS[0]} Authorization: Bearer {SECRETS[1]}.x "
    f"ghp_{SECRETS[2]} postgresql://k3:{SECRETS[3]}@127.0.0.1/k3 "
    f"eyJhbGciOiJSUzI1NiJ9.{SECRETS[1]}.{SECRETS[2]}"
)


def line(form: LogForm, message: str, error: BaseException | None = None) -> str:
    caught = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("k3server", logging.ERROR, "x", 1, message, (), caught)
    return formatter(form).format(record)


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_are_replaced_in_messages_and_traces(form: LogForm) -> None:
    made = line(form, f"Before {TEXT} after", ValueError(TEXT))
    assert not [secret for secret in SECRETS if secret in made]
    # The part of a token that may be shown stays, and so does everything else.
    assert f"k3r_{'0' * 16}_<secret>" in made
    assert "Before token" in made
    assert made.count("ValueError") == 1


def test_json_is_one_object_on_one_line() -> None:
    made = line("json", "two\nlines and \u2028", RuntimeError("why"))
    assert "\n" not in made
    assert made.isascii()
    found = json.loads(made)
    assert list(found) == ["at_utc", "level", "logger", "message", "error"]
    assert (found["level"], found["message"]) == ("ERROR", "two\nlines and \u2028")
    assert found["at_utc"].endswith("Z")


def test_ordinary_words_stay() -> None:
    text = "GET /api/v1/blobs/" + "ab" * 32 + " answered 200 to a bearer of news"
    assert without_secrets(text) == text


def test_the_commands_take_the_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decide", f"--data={tmp_path}", "--log=json", "log"]) == 0
    with pytest.raises(SystemExit):
        main(["decide", f"--data={tmp_path}", "--log=xml", "log"])
    assert "--log" in capsys.readouterr().err
