"""Bringing the set up: what is missing is said before anything starts."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from k3image import compose
from k3image.cli import FOLDER_OF_CONTAINERS
from k3image.compose import ADDRESS, FLAVOURS, check_compose
from k3image.engine import Store
from k3image.inputs import read_inputs
from k3image.problem import ImageError


def test_the_services_are_those_of_the_file_and_wait_for_each_other(root: Path) -> None:
    services = yaml.safe_load((root / "compose.yaml").read_text())["services"]
    assert set(FLAVOURS) == set(services) - {"smoke"}
    for number, name in enumerate(FLAVOURS):
        assert set(services[name].get("depends_on", {})) <= set(FLAVOURS[:number])
    (port,) = services["registry"]["ports"]
    assert f"http://{port.rpartition(':')[0]}" == ADDRESS


def test_without_the_program_or_an_image_nothing_starts(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []

    store = Store(tmp_path, {})
    monkeypatch.setattr(Store, "run", lambda *words, **_: started.append(words))
    monkeypatch.setattr("k3image.compose.shutil.which", lambda _: None)
    with pytest.raises(ImageError, match="podman-compose is not here"):
        check_compose(store, tmp_path, root, tmp_path, lambda _: None)
    monkeypatch.setattr("k3image.compose.shutil.which", lambda name: name)
    with pytest.raises(ImageError, match="The flavour database is not built here") as refused:
        check_compose(store, tmp_path, root, tmp_path, lambda _: None)
    assert str(refused.value).endswith("Next: make image FLAVOUR=database")
    assert started == []


def test_a_service_that_stays_ill_is_told_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "podman").write_text(
        '#!/bin/sh\n[ "$1" = logs ] && echo "no room" && exit 0\nexit 1\n'
    )
    (programs / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(compose, "_HEALTHY_S", 0.1)
    with pytest.raises(ImageError, match=r"store is not healthy after 0\.1 s; it said: no room"):
        compose._wait(Store(tmp_path, {}), "store")


def test_no_layout_of_a_flavour_takes_the_place_of_the_containers(root: Path) -> None:
    flavours = {one.name for one in read_inputs(root / "image" / "inputs.toml").flavours}
    assert FOLDER_OF_CONTAINERS not in flavours
    assert not flavours & {"apt", "cache", "check", "work"}
