"""Images as folders of blobs (OCI image layout): written around one layer, and read."""

import hashlib
import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from k3image.inputs import digest_of
from k3image.problem import EXIT_INPUT, ImageError

__all__ = ["Image", "Layer", "read_image", "write_base"]

_TYPE: Final = "application/vnd.oci.image."


@dataclass(frozen=True)
class Layer:
    """One layer of an image."""

    digest: str
    media_type: str
    path: Path


@dataclass(frozen=True)
class Image:
    """One image of a layout."""

    digest: str
    """Digest of its manifest, `sha256:...`."""
    manifest: dict[str, Any]
    config_digest: str
    config: dict[str, Any]
    layers: tuple[Layer, ...]
    """The lowest first."""


def write_base(
    layer: Path, layout: Path, *, tag: str, architecture: str, epoch: int, labels: dict[str, str]
) -> str:
    """Write an image of one uncompressed layer; the layer's file is moved into it.

    Returns:
        Digest of the manifest.
    """
    shutil.rmtree(layout, ignore_errors=True)
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    digest, size = digest_of(layer), layer.stat().st_size
    shutil.move(layer, blobs / digest)
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    config = _put(
        blobs,
        {
            "created": created,
            "architecture": architecture,
            "os": "linux",
            "config": {"Env": [f"PATH={path}"], "Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            "history": [{"created": created, "created_by": "packages of inputs.toml"}],
        },
    )
    manifest = _put(
        blobs,
        {
            "schemaVersion": 2,
            "mediaType": f"{_TYPE}manifest.v1+json",
            "config": {"mediaType": f"{_TYPE}config.v1+json", **config},
            "layers": [
                {
                    "mediaType": f"{_TYPE}layer.v1.tar",
                    "digest": f"sha256:{digest}",
                    "size": size,
                }
            ],
        },
    )
    listed = {
        "mediaType": f"{_TYPE}manifest.v1+json",
        **manifest,
        "platform": {"architecture": architecture, "os": "linux"},
        "annotations": {f"{_NAME}": tag},
    }
    (layout / "index.json").write_bytes(_canonical({"schemaVersion": 2, "manifests": [listed]}))
    (layout / "oci-layout").write_bytes(_canonical({"imageLayoutVersion": "1.0.0"}))
    return str(manifest["digest"])


_NAME: Final = "org.opencontainers.image.ref.name"


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _put(blobs: Path, value: object) -> dict[str, object]:
    content = _canonical(value)
    digest = hashlib.sha256(content).hexdigest()
    (blobs / digest).write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}


def read_image(layout: Path) -> Image:
    """The only image of a layout.

    Raises:
        ImageError: The folder is no layout with one image, or a blob is not what its name says.
    """
    try:
        listed = json.loads((layout / "index.json").read_bytes())["manifests"]
        if len(listed) != 1:
            raise ImageError(
                f"{layout} holds {len(listed)} images, and one is expected.",
                "export one image into a folder of its own.",
                EXIT_INPUT,
            )
        manifest = json.loads(_blob(layout, listed[0]["digest"]).read_bytes())
        config_digest = manifest["config"]["digest"]
        return Image(
            digest=listed[0]["digest"],
            manifest=manifest,
            config_digest=config_digest,
            config=json.loads(_blob(layout, config_digest).read_bytes()),
            layers=tuple(
                Layer(one["digest"], one["mediaType"], _blob(layout, one["digest"]))
                for one in manifest["layers"]
            ),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ImageError(
            f"{layout} is no OCI layout that can be read: {type(error).__name__}: {error}.",
            "export the image again, for example: skopeo copy ... oci:FOLDER:tag",
            EXIT_INPUT,
        ) from error


def _blob(layout: Path, digest: str) -> Path:
    path = layout / "blobs" / "sha256" / digest.removeprefix("sha256:")
    if digest_of(path) != path.name:
        raise ImageError(
            f"The blob {path.name[:12]} of {layout} does not have the content that its name says.",
            "export the image again.",
            EXIT_INPUT,
        )
    return path
