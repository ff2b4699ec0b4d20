"""What an image is made of, as a bill of materials (SPDX) and as a statement of origin (SLSA).

Both depend on the inputs and the commit only: no time of day, no random name. Neither is signed.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from k3image.fetched import Fetched
from k3image.source import Source

__all__ = ["Part", "bill_of_materials", "parts_of", "published_line", "statement_of_origin"]

_NOT_SAID: Final = "NOASSERTION"


@dataclass(frozen=True, order=True)
class Part:
    """One thing that an image is made of."""

    purl: str
    """Package URL, the name that both documents use."""
    name: str
    version: str
    sha256: str
    """Digest of the file that it came in."""


def parts_of(fetched: Fetched) -> tuple[Part, ...]:
    """Debian packages and wheels of an image, sorted; what only builds is left out."""
    return tuple(sorted({*_debian(fetched), *_wheels(fetched)}))


def _debian(fetched: Fetched) -> Iterator[Part]:
    for one in fetched.inputs.packages_of(fetched.flavour.packages, fetched.architecture):
        purl = (
            f"pkg:deb/debian/{quote(one.name)}@{quote(one.version, safe='')}"
            f"?arch={one.architecture}&distro={fetched.inputs.suite}"
        )
        yield Part(purl, one.name, one.version, one.sha256)


def _wheels(fetched: Fetched) -> Iterator[Part]:
    for file in fetched.locks.values():
        for one in fetched.wheels[file].wheels:
            purl = f"pkg:pypi/{one.name}@{quote(one.version, safe='')}"
            yield Part(purl, one.name, one.version, one.sha256)


def bill_of_materials(fetched: Fetched, source: Source) -> str:
    """The bill of materials, SPDX 2.3 as JSON."""
    name = f"k3-eval-{fetched.flavour.name}-{fetched.architecture}"
    image = _spdx_package("SPDXRef-image", name, source.commit, None)
    parts = parts_of(fetched)
    packages = [
        _spdx_package(f"SPDXRef-{number}-{_plain(part.name)}", part.name, part.version, part)
        for number, part in enumerate(parts)
    ]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-image")]
    relations += [("SPDXRef-image", "CONTAINS", str(one["SPDXID"])) for one in packages]
    return _text(
        {
            "spdxVersion": "SPDX-2.3",
            "dataLicense": "CC0-1.0",
            "SPDXID": "SPDXRef-DOCUMENT",
            "name": name,
            "documentNamespace": f"urn:k3-eval:{name}:{source.commit}:{fetched.inputs.sha256}",
            "creationInfo": {"created": source.created, "creators": ["Tool: k3image"]},
            "packages": [image, *packages],
            "relationships": [
                {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                for one, kind, other in relations
            ],
        }
    )


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "-", name)


def _spdx_package(key: str, name: str, version: str, part: Part | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "SPDXID": key,
        "name": name,
        "versionInfo": version,
        "downloadLocation": _NOT_SAID,
        "filesAnalyzed": False,
        "licenseConcluded": _NOT_SAID,
        "licenseDeclared": _NOT_SAID,
        "copyrightText": _NOT_SAID,
    }
    if part is not None:
        found["checksums"] = [{"algorithm": "SHA256", "checksumValue": part.sha256}]
        found["externalRefs"] = [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": part.purl,
            }
        ]
    return found


def statement_of_origin(
    fetched: Fetched, source: Source, manifest_digest: str, builders: dict[str, str]
) -> str:
    """How an image came about: an in-toto statement with SLSA's provenance, version 1.

    Args:
        fetched: The inputs.
        source: The commit.
        manifest_digest: Digest of the image's manifest.
        builders: Program -> version that was here.
    """
    sources = [{"uri": "git+file:///k3-eval", "digest": {"gitCommit": source.commit}}]
    parts = [{"uri": part.purl, "digest": {"sha256": part.sha256}} for part in parts_of(fetched)]
    flavour = fetched.flavour.name
    return _text(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": f"k3-eval:{flavour}", "digest": _digest(manifest_digest)}],
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {
                "buildDefinition": {
                    "buildType": "urn:k3-eval:image-build:1",
                    "externalParameters": {
                        "flavour": flavour,
                        "architecture": fetched.architecture,
                        "commit": source.commit,
                    },
                    "internalParameters": {
                        "inputs_sha256": fetched.inputs.sha256,
                        "source_date_epoch": source.epoch,
                    },
                    "resolvedDependencies": [*sources, *parts],
                },
                "runDetails": {
                    "builder": {"id": "urn:k3-eval:own-machine", "version": builders},
                },
            },
        }
    )


def published_line(fetched: Fetched, source: Source, manifest_digest: str, tree: str) -> str:
    """What a registry is given to know the image by, as one line.

    Args:
        fetched: The inputs.
        source: The commit.
        manifest_digest: Digest of the image's manifest.
        tree: Digest of its sealed file tree.
    """
    told = {
        "flavour": fetched.flavour.name,
        "architecture": fetched.architecture,
        "commit": source.commit,
        "manifest_digest": manifest_digest,
        "tree_sha256": tree,
    }
    return json.dumps(told, sort_keys=True) + "\n"


def _digest(manifest_digest: str) -> dict[str, str]:
    return {"sha256": manifest_digest.removeprefix("sha256:")}


def _text(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"
