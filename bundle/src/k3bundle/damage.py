"""Names the damaged file among files that came out of a damaged archive."""

from collections.abc import Iterator, Mapping

from pydantic import TypeAdapter

from k3bundle import layout
from k3bundle.bundle import parse_file
from k3bundle.canonical import sha256_hex
from k3bundle.dsse import open_envelope
from k3bundle.finding import Finding
from k3bundle.manifest import Manifest

__all__ = ["damaged_files"]

_HINT = "Take the bundle file again from where it was made, or make it again with k3-eval."
_MANIFEST = TypeAdapter[Manifest](Manifest)


def damaged_files(files: Mapping[str, bytes]) -> Iterator[Finding]:
    """Yield a finding for each file that is not what the manifest says.

    A damaged manifest is told from a damaged file by the digest of the manifest that was signed.

    Args:
        files: Files that could be unpacked: path -> content.

    Yields:
        Findings with the code `file-digest`; none when nothing can be said.
    """
    data = files.get(layout.MANIFEST)
    if data is None:
        return
    attestation = open_envelope(files.get(layout.ATTESTATION, b""))
    statement = attestation.statement if attestation.signer_fingerprint else None
    signed = statement.subject[0].digest.get("sha256") if statement else None
    manifest = parse_file(files, layout.MANIFEST, _MANIFEST, [])
    if manifest is None or (signed is not None and signed != sha256_hex(data)):
        yield _finding(layout.MANIFEST, signed, sha256_hex(data))
        return
    for listed in manifest.files:
        content = files.get(listed.path)
        if content is not None and sha256_hex(content) != listed.sha256:
            yield _finding(listed.path, listed.sha256, sha256_hex(content))
    if attestation.findings and layout.ATTESTATION in files:
        why = f"Expected the attestation that was packed, found: {attestation.findings[0].why}"
        yield Finding("file-digest", layout.ATTESTATION, why, _HINT)


def _finding(path: str, expected: str | None, found: str) -> Finding:
    wanted = f"SHA-256 {expected}" if expected else "a manifest"
    return Finding("file-digest", path, f"Expected {wanted}, found SHA-256 {found}.", _HINT)
