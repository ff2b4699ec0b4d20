"""What sealing needs of a signing key, wherever the key lives."""

from typing import Protocol

__all__ = ["Signer", "SigningKeyError"]


class SigningKeyError(Exception):
    """A key cannot be used for signing; the message says what to do."""


class Signer(Protocol):
    """Something that can sign as one SSH key."""

    @property
    def public_key(self) -> str:
        """The public key as an OpenSSH line without a comment."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Sign a message in the namespace of this project; returns an SSHSIG blob."""
        ...
