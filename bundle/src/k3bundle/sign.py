"""Signing keys: in a file of their own, or in an ssh-agent. Verification needs none of this.

A file with a private key signs by itself: unencrypted, Ed25519. A file with a public key names a
key that an agent holds, encrypted on disk or not, as `ssh-keygen -Y sign -f KEY.pub` has it.
"""

import os
import stat
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

from k3bundle.agent import agent_signer
from k3bundle.signer import Signer, SigningKeyError
from k3bundle.sshsig import NAMESPACE, signed_data, sshsig_blob, verify_sshsig

__all__ = [
    "NAMESPACE",
    "Ed25519Signer",
    "Signer",
    "SigningKeyError",
    "generate_key",
    "load_signer",
    "verify_sshsig",
]

_LARGEST_KEY_FILE: Final = 1 << 16


class Ed25519Signer:
    """Signs with an Ed25519 key in memory."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @property
    def public_key(self) -> str:
        """The public key as an OpenSSH line without a comment."""
        line = self._key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        return line.decode()

    def sign(self, message: bytes) -> bytes:
        """Sign a message in the namespace of this project; returns an SSHSIG blob."""
        return sshsig_blob(self.public_key, self._key.sign(signed_data(message)))


def generate_key(path: Path) -> None:
    """Make an Ed25519 key pair in OpenSSH format: `path` (mode 0600) and `path.pub`.

    Raises:
        SigningKeyError: `path` exists; a key is never overwritten.
        OSError: The folder cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        message = f"Expected no file at {path}, found one. Use it, or choose another name."
        raise SigningKeyError(message) from None
    with os.fdopen(handle, "wb") as stream:
        stream.write(private)
    public = path.with_name(path.name + ".pub")
    public.write_text(Ed25519Signer(key).public_key + "\n", encoding="ascii")


def load_signer(path: Path, agent: Path | None = None) -> Signer:
    """Load a signing key.

    Args:
        path: An unencrypted Ed25519 private key in OpenSSH format, readable by its owner only; or
            the public key of a key that the agent holds.
        agent: Socket of the ssh-agent; None: there is none.

    Returns:
        The signer.

    Raises:
        SigningKeyError: The file is missing, open to others, encrypted or of another kind, or the
            agent does not hold the key.
    """
    make = f"Make one with: ssh-keygen -t ed25519 -N '' -f {path}"
    try:
        with path.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            data = stream.read(_LARGEST_KEY_FILE)
    except OSError as error:
        message = f"Expected a signing key at {path}, found: {error.strerror}. {make}"
        raise SigningKeyError(message) from error
    if _is_public(path, data):
        return agent_signer(path, agent)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        message = f"Expected {path} to be open to its owner only, found mode "
        message += f"{stat.S_IMODE(mode):04o}. Run: chmod 600 {path}"
        raise SigningKeyError(message)
    return Ed25519Signer(_private_key(data, path, make))


def _is_public(path: Path, data: bytes) -> bool:
    return path.suffix == ".pub" or data.startswith((b"ssh-", b"ecdsa-", b"sk-"))


def _private_key(data: bytes, path: Path, make: str) -> Ed25519PrivateKey:
    try:
        key = load_ssh_private_key(data, password=None)
    except TypeError as error:
        public = path.with_name(path.name + ".pub")
        message = f"Expected an unencrypted key at {path}, found an encrypted one. Let an agent "
        message += f"hold it, and name its public key: `ssh-add {path}`, then --key {public}."
        raise SigningKeyError(message) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        message = f"Expected an OpenSSH private key at {path}, found another file. {make}"
        raise SigningKeyError(message) from error
    if not isinstance(key, Ed25519PrivateKey):
        message = f"Expected an Ed25519 key at {path}, found another type. {make}"
        raise SigningKeyError(message)
    return key
