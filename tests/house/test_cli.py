"""The commands behind the Makefile: wrong values are one sentence and status 2."""

import socket

import pytest

from k3house.cli import main
from k3house.problem import EXIT_USAGE

CHANGE = ["eval", "--repository", "a/b", "--pull-request", "1", "--commit", "a" * 40]
EXIT_ENVIRONMENT = 5


@pytest.mark.parametrize("port", ["abc", "0", "65536", "99999", "-1", "8 8"])
def test_a_wrong_port_is_a_sentence(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CHANGE, f"--registry-port={port}"]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert "REGISTRY_PORT must be a port from 1 to 65535" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("text", ["yes", "7", "true", " "])
def test_a_switch_is_one_or_zero(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CHANGE, "--registry-port=8765", f"--keep={text}"]) == EXIT_USAGE
    assert "KEEP must be 1, or 0, or left out" in capsys.readouterr().err
    assert main(["lock", f"--upgrade={text}"]) == EXIT_USAGE
    assert "UPGRADE must be 1, or 0, or left out" in capsys.readouterr().err


def test_a_pull_request_number_has_both_limits(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["eval", "--repository", "a/b", "--pull-request", "9" * 20, "--commit", "a" * 40]
    assert main([*wrong, "--registry-port=8765"]) == EXIT_USAGE
    assert "from 1 to 10000000" in capsys.readouterr().err


def test_serving_on_a_busy_port_is_refused_before_anything_is_installed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        assert main(["serve", f"--registry-port={port}"]) == EXIT_ENVIRONMENT
    assert f"Port {port} on 127.0.0.1 cannot be used" in capsys.readouterr().err
