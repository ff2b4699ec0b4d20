"""Where wheels come from: pip's configuration and WHEELS."""

from pathlib import Path

import pytest

from k3house.problem import HouseError
from k3house.source import find_sources, parse_pip_config


def test_pip_config_variable_wins_over_file() -> None:
    found = parse_pip_config(
        "global.find-links='/a /b'\nglobal.index-url='http://one.test'\n"
        ":env:.index-url='http://two.test'\n:env:.cert='/x.pem'\n"
    )
    assert found == {"find-links": ("/a", "/b"), "index-url": ("http://two.test",)}


def test_pip_config_with_lines_of_another_kind_is_read_past_them() -> None:
    assert parse_pip_config("WARNING: something\nglobal.index-url=broken'\n\n") == {}


def test_sources_hand_on_what_pip_is_configured_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    sources = find_sources(
        "global.find-links='/a'\nglobal.index-url='http://one.test'\n"
        "global.extra-index-url='http://two.test'\n",
        None,
    )
    assert sources.uv_arguments(offline=False) == [
        *("--find-links", "/a", "--default-index", "http://one.test", "--index", "http://two.test"),
        *("--index-strategy", "unsafe-best-match"),
    ]


def test_the_installers_own_index_variable_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://three.test")
    assert find_sources("global.index-url='http://one.test'\n", None).index_url is None


def test_wheel_folder_that_holds_everything_needs_no_index(tmp_path: Path) -> None:
    arguments = find_sources("", str(tmp_path)).uv_arguments(offline=True)
    assert arguments == ["--no-index", "--offline", "--find-links", str(tmp_path)]


def test_wheels_that_is_no_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(HouseError, match="is not a folder") as caught:
        find_sources("", str(tmp_path / "missing"))
    assert caught.value.exit_code == 2
