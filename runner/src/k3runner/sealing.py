"""From a run folder to a signed bundle: collect, scrub, derive, sign, write."""

import getpass
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from k3bundle import layout
from k3bundle.archive import write_archive
from k3bundle.canonical import canonical_json
from k3bundle.seal import bundle_sha256, seal
from k3bundle.sign import Signer, SigningKeyError, generate_key, load_signer
from k3bundle.verdict import Verdict
from k3runner.early_scrub import with_earlier
from k3runner.errors import MachineError
from k3runner.free_text import FREE_TEXT
from k3runner.journal import JOURNAL_FILES
from k3runner.log_text import log_text
from k3runner.run_context import utc_now
from k3runner.run_folder import BUNDLE_FOLDER
from k3runner.scrub import Identities, Scrubber, map_text

__all__ = ["SealedRun", "local_identities", "prepare_signer", "seal_run"]

_LOG_LIMIT_BYTES = 256 * 1024


@dataclass(frozen=True)
class SealedRun:
    """A sealed bundle."""

    path: Path
    """Where it lies."""
    sha256: str
    """Digest of the bundle."""
    verdict: Verdict
    """Derived verdict."""


def prepare_signer(key_path: Path, agent_socket: Path | None) -> tuple[Signer, bool]:
    """Loads the signing key, making one when there is none.

    Args:
        key_path: File of a private key, or of the public key of one that the agent holds.
        agent_socket: Socket of the ssh-agent; None: there is none.

    Returns:
        The signer, and whether its key was just made.

    Raises:
        MachineError: The key cannot be read or made.
    """
    # The public half alone cannot be made up.
    made = not key_path.exists() and key_path.suffix != ".pub"
    try:
        if made:
            key_path.parent.mkdir(parents=True, exist_ok=True)
            generate_key(key_path)
        return load_signer(key_path, agent_socket), made
    except (SigningKeyError, OSError) as error:
        raise MachineError(
            f"The signing key {key_path} cannot be used: {error}",
            "Give another key with --key or K3EVAL_KEY.",
        ) from error


def local_identities(places: Mapping[str, str]) -> Identities:
    """What this machine must not tell."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    home = os.path.expanduser("~")  # noqa: PTH111
    return Identities(home=home, user=user, host=socket.gethostname(), places=places)


def seal_run(folder: Path, run_id: str, signer: Signer, identities: Identities) -> SealedRun:
    """Seals a run folder.

    Args:
        folder: Run folder.
        run_id: Identity of the run; names the bundle file.
        signer: Signs the statement.
        identities: What is scrubbed.

    Raises:
        BundleError: The records are not whole.
        MachineError: The bundle cannot be written.
    """
    scrubber = Scrubber(identities)
    files = {
        name: _scrubbed((folder / name).read_bytes(), name, scrubber)
        for name in (layout.RUN, layout.PLAN, layout.SUBJECT, layout.ENVIRONMENT, *JOURNAL_FILES)
    }
    for name in (layout.ISOLATION, layout.EARLIER):
        if (folder / name).is_file():
            files[name] = _scrubbed((folder / name).read_bytes(), name, scrubber)
    for log in sorted((folder / "logs").glob("*.log")):
        text = scrubber.scrub(log_text(log, _LOG_LIMIT_BYTES))
        files[layout.LOG_PREFIX + log.name] = text.encode("utf-8")
    files[layout.SCRUB_REPORT] = canonical_json(with_earlier(scrubber.report(), folder))
    try:
        sealed = seal(files, signer, utc_now())
    except SigningKeyError as error:
        raise MachineError(
            f"Everything is measured, and the bundle could not be signed: {error}",
            f"Then run `k3-eval resume {folder}`; nothing is measured again.",
        ) from error
    path = folder / BUNDLE_FOLDER / f"{run_id}{layout.BUNDLE_SUFFIX}"
    try:
        path.parent.mkdir(exist_ok=True)
        write_archive(sealed, path)
    except OSError as error:
        raise MachineError(
            f"The bundle {path} cannot be written: {error.strerror}.",
            f"Free some space, then run `k3-eval resume {folder}`; nothing is measured again.",
        ) from error
    verdict = Verdict.model_validate_json(sealed[layout.VERDICT])
    return SealedRun(path=path, sha256=bundle_sha256(sealed), verdict=verdict)


def _scrubbed(content: bytes, name: str, scrubber: Scrubber) -> bytes:
    fields = FREE_TEXT.get(name, ())
    if not fields:
        return content
    lines = []
    for line in content.splitlines():
        record = json.loads(line)
        for field in fields:
            if field in record:
                record[field] = map_text(record[field], scrubber.scrub)
        lines.append(canonical_json(record))
    ending = b"\n" if name.endswith(".jsonl") else b""
    return b"\n".join(lines) + (ending if lines else b"")
