"""What a failed tool said becomes one sentence with a next step. The texts are real ones."""

import pytest

from k3house.child import explain, tool_environment

SAID = {
    "filled up": "error: Failed to extract archive: torch.whl\n"
    "  Caused by: failed to write to file: No space left on device (os error 28)",
    "another digest": "error: Failed to read `six @ file:///w/six.whl`\n"
    "  Caused by: Hash mismatch for `six==1.17.0`\n\nExpected:\n  sha256:00\n",
    "could not be reached": "error: Request failed after 3 retries\n"
    "  Caused by: Failed to fetch: `https://index.test/simple/six/`\n"
    "  Caused by: client error (Connect)\n  Caused by: dns error",
    "No source offers": "  x No solution found when resolving dependencies:\n"
    "  Because there is no version of torch==2.13.0+cpu and you require torch==2.13.0+cpu, we "
    "can conclude that your requirements are unsatisfiable.",
}
PIP_SAID = {
    "another digest": "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
    "could not be reached": "WARNING: Retrying (Retry(total=4)) after connection broken by "
    "'NewConnectionError('<...>: Failed to establish a new connection: [Errno -2] Name or service "
    "not known')': /simple/uv/\nERROR: No matching distribution found for uv==0.13.9",
    "could not be reached ": "ERROR: Could not find a version that satisfies the requirement "
    "uv==0.13.9 (from versions: none)",
    "filled up": "ERROR: Could not install packages due to an OSError: [Errno 28] No space left "
    "on device",
}


@pytest.mark.parametrize(("expected", "said"), [*SAID.items(), *PIP_SAID.items()])
def test_explain_names_the_cause_and_the_next_step(expected: str, said: str) -> None:
    error = explain(said, "installing the engine environment")
    assert expected in str(error)
    assert "installing the engine environment" in str(error)
    assert " Next step: " in str(error)
    assert error.exit_code == 5


def test_explain_quotes_the_line_that_tells() -> None:
    error = explain(SAID["another digest"], "installing the engine environment")
    assert ": Caused by: Hash mismatch for `six==1.17.0`. Next step: " in str(error)


def test_explain_shows_the_end_of_an_unknown_failure() -> None:
    error = explain("\n".join(f"line {n}" for n in range(50)), "installing the dev environment")
    assert "line 49" in str(error)
    assert "line 1\n" not in str(error)


def test_tools_keep_byte_code_and_know_nothing_of_a_calling_make(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("MAKEFLAGS", "w -- PYTHON=python3")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    assert not {"PYTHONDONTWRITEBYTECODE", "MAKEFLAGS", "PYTHONPATH"} & set(tool_environment())
