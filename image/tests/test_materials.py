"""Bill of materials and statement of origin: whole, of the inputs alone, and equal each time."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from k3image.build import image_annotations
from k3image.fetched import Fetched
from k3image.inputs import read_inputs
from k3image.materials import (
    bill_of_materials,
    parts_of,
    published_line,
    statement_of_origin,
)
from k3image.source import Source
from k3image.wheels import FetchedLock, InputWheel
from k3server.published_images import read_published_images

LOCK = "requirements/registry-full.txt"
DIGEST = "sha256:" + "d" * 64


@pytest.fixture
def source(root: Path) -> Source:
    return Source(root, "c" * 40, 1_764_000_000, is_dirty=False)


@pytest.fixture
def fetched(root: Path, tmp_path: Path) -> Fetched:
    inputs = read_inputs(root / "image" / "inputs.toml")
    wheel = InputWheel("some-thing", "1.0+cpu", tmp_path / "x.whl", "a" * 64)
    builds = InputWheel("hatchling", "1", tmp_path / "y.whl", "b" * 64)
    return Fetched(
        inputs=inputs,
        flavour=inputs.flavour("registry"),
        architecture="amd64",
        debs=tmp_path,
        wheels={
            LOCK: FetchedLock(tmp_path, (wheel,)),
            "requirements/build.txt": FetchedLock(tmp_path, (builds,)),
        },
        locks={"registry": LOCK},
    )


def test_every_package_and_wheel_of_the_image_is_a_part(fetched: Fetched) -> None:
    parts = parts_of(fetched)
    packages = fetched.inputs.packages_of("evaluation", "amd64")
    assert len(parts) == len(packages) + 1
    purls = {part.purl: part.sha256 for part in parts}
    assert purls["pkg:pypi/some-thing@1.0%2Bcpu"] == "a" * 64
    one = next(package for package in packages if package.name == "zlib1g")
    assert purls["pkg:deb/debian/zlib1g@1%3A1.2.13.dfsg-1?arch=amd64&distro=bookworm"] == one.sha256
    # What builds is in no image.
    assert not any("hatchling" in purl for purl in purls)


def test_the_bill_of_materials_has_what_its_format_asks_for(
    fetched: Fetched, source: Source
) -> None:
    text = bill_of_materials(fetched, source)
    assert text == bill_of_materials(fetched, source)
    bill: dict[str, Any] = json.loads(text)
    assert bill["spdxVersion"] == "SPDX-2.3"
    assert bill["creationInfo"]["created"] == "2025-11-24T16:00:00Z"
    keys = [one["SPDXID"] for one in bill["packages"]]
    assert len(keys) == len(set(keys)) == len(parts_of(fetched)) + 1
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", key) for key in keys)
    related = {one["relatedSpdxElement"] for one in bill["relationships"]}
    assert related == set(keys)
    assert all(
        {"name", "downloadLocation", "licenseConcluded"} <= set(one) for one in bill["packages"]
    )


def test_the_statement_of_origin_names_image_commit_and_every_input(
    fetched: Fetched, source: Source
) -> None:
    said = json.loads(statement_of_origin(fetched, source, DIGEST, {"buildah": "1.28.2"}))
    assert said["subject"] == [{"name": "k3-eval:registry", "digest": {"sha256": "d" * 64}}]
    definition = said["predicate"]["buildDefinition"]
    assert definition["internalParameters"]["inputs_sha256"] == fetched.inputs.sha256
    first, *others = definition["resolvedDependencies"]
    assert first["digest"] == {"gitCommit": source.commit}
    assert [one["digest"]["sha256"] for one in others] == [
        part.sha256 for part in parts_of(fetched)
    ]


def test_a_registry_is_given_one_line_that_it_reads(
    fetched: Fetched, source: Source, tmp_path: Path
) -> None:
    line = published_line(fetched, source, DIGEST, "e" * 64)
    assert line.count("\n") == 1
    (tmp_path / "published").write_text(f"{line}\n{line}")
    assert read_published_images(tmp_path / "published") == {DIGEST: "e" * 64}


def test_annotations_and_labels_say_the_same(root: Path, source: Source) -> None:
    told = image_annotations("cpu", source, DIGEST)
    assert told["org.opencontainers.image.created"] == "2025-11-24T16:00:00Z"
    labels = (root / "image" / "Dockerfile").read_text()
    assert all(f"{name}=" in labels for name in told)
