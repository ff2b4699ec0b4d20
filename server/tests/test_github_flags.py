"""What the flags about GitHub lack is said before anything is served."""

import argparse
from contextlib import closing
from pathlib import Path

import pytest

from k3server.commands.github_flags import add_github_flags, forge_of, issuer_of, teller_of
from k3server.errors import MachineError
from k3server.forge.teller import Teller
from k3server.settings import Settings
from k3server_testing.registry import Registry

WHOLE = (
    "--github-url=http://127.0.0.1:1",
    "--github-account=bot",
    "--github-repository=Example/Engine",
)


def teller(registry: Registry, *flags: str) -> Teller | None:
    parser = argparse.ArgumentParser()
    add_github_flags(parser)
    chosen = parser.parse_args(flags)
    return teller_of(chosen, Settings(public_url="http://x"), registry.parts(), forge_of(chosen))


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_teller_needs_all_of_its_flags_and_the_token(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(registry.database):
        monkeypatch.setenv("GITHUB_TOKEN", "secret")
        assert teller(registry) is None
        assert teller(registry, *WHOLE) is not None
        for left_out in (0, 1):
            flags = [flag for number, flag in enumerate(WHOLE) if number != left_out]
            with pytest.raises(MachineError, match="one of them missing"):
                teller(registry, *flags)
        monkeypatch.delenv("GITHUB_TOKEN")
        with pytest.raises(MachineError, match="GITHUB_TOKEN"):
            teller(registry, *WHOLE)


def test_app_needs_its_number_and_its_key(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    key = tmp_path / "app.pem"
    key.write_text("no key")
    with closing(registry.database):
        for flags, words in (
            (["--github-app=7"], "found one"),
            ([f"--github-app-key={key}"], "found one"),
            (["--github-app=7", f"--github-app-key={key}"], "found none"),
            (["--github-app=7", "--github-app-key=absent"], "No such file"),
        ):
            with pytest.raises(MachineError, match=words):
                teller(registry, *WHOLE, *flags)
        with pytest.raises(SystemExit):
            teller(registry, *WHOLE, "--github-app=none")


def test_issuer_is_none_without_its_flag() -> None:
    parser = argparse.ArgumentParser()
    add_github_flags(parser)
    assert issuer_of(parser.parse_args([])) is None
    issuer = issuer_of(parser.parse_args(["--github-actions-issuer=https://issuer.example"]))
    assert issuer is not None
    assert issuer.address == "https://issuer.example"
