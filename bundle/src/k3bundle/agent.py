"""Signing with a key that an ssh-agent holds (draft-miller-ssh-agent): the key never leaves it.

Two questions are asked of the agent: which keys it has, and to sign with one of them. Whatever it
answers is checked: a signature that does not verify here is an error and not a bundle.
"""

import socket
import stat
from pathlib import Path
from typing import Final

from k3bundle.signer import SigningKeyError
from k3bundle.ssh_wire import SignatureError, WireReader, wire_string
from k3bundle.sshsig import (
    fingerprint,
    key_blob,
    public_key_line,
    signed_data,
    sshsig_of,
    verify_sshsig,
)

__all__ = ["AgentSigner", "agent_signer"]

_ASK_KEYS: Final = 11
_KEYS: Final = 12
_ASK_SIGNATURE: Final = 13
_SIGNATURE: Final = 14
_RSA_SHA2_512: Final = 4
"""Flag of a request: without it an RSA key would sign with SHA-1, which nobody accepts here."""
_LARGEST_ANSWER: Final = 256 * 1024
_MOST_KEYS: Final = 1024
_LIMIT_S: Final = 120.0
"""A key may ask its owner to touch it or to type something."""
_LARGEST_KEY_FILE: Final = 1 << 16


class AgentSigner:
    """Signs with a key of an agent."""

    def __init__(self, public_key: str, agent: Path) -> None:
        """Remembers a key; the agent is asked anew for each signature.

        Args:
            public_key: OpenSSH line of the key.
            agent: Socket of the agent.
        """
        self._public_key = public_key
        self._agent = agent

    @property
    def public_key(self) -> str:
        """The public key as an OpenSSH line without a comment."""
        return self._public_key

    def sign(self, message: bytes) -> bytes:
        """Ask the agent to sign; returns an SSHSIG blob.

        Raises:
            SigningKeyError: The agent is gone, refuses, or signs something else.
        """
        name = fingerprint(self._public_key)
        flags = _RSA_SHA2_512 if self._public_key.startswith("ssh-rsa ") else 0
        request = b"".join(
            (
                wire_string(key_blob(self._public_key)),
                wire_string(signed_data(message)),
                flags.to_bytes(4, "big"),
            )
        )
        kind, reader = _ask(self._agent, _ASK_SIGNATURE, request)
        if kind != _SIGNATURE:
            raise SigningKeyError(
                f"Expected a signature by {name} from the agent at {self._agent}, found that it "
                "refuses. Unlock it, confirm the key, or add it again with `ssh-add FILE`."
            )
        try:
            inner = reader.string()
            reader.end()
            blob = sshsig_of(self._public_key, inner)
            verify_sshsig(blob, message)
        except SignatureError as error:
            raise SigningKeyError(
                f"Expected a signature by {name} that verifies, found another answer of the agent "
                f"at {self._agent}: {error} Use a key of type ssh-ed25519."
            ) from error
        return blob


def agent_signer(public_key_file: Path, agent: Path | None) -> AgentSigner:
    """Find a key in an agent.

    Args:
        public_key_file: File that holds the public key, for example `id_ed25519.pub`.
        agent: Socket of the agent, as `SSH_AUTH_SOCK` names it; None: there is none.

    Raises:
        SigningKeyError: There is no such file, no agent, or the agent does not have the key.
    """
    wanted = _public_key(public_key_file)
    name = fingerprint(wanted)
    if agent is None:
        raise SigningKeyError(
            f"Expected an ssh-agent that holds {name} of {public_key_file}, found that "
            'SSH_AUTH_SOCK is not set. Start one with `eval "$(ssh-agent)" && ssh-add`.'
        )
    held = _held(agent)
    if key_blob(wanted) not in held:
        raise SigningKeyError(
            f"Expected {name} of {public_key_file} in the agent at {agent}, found "
            f"{len(held)} other keys there. "
            f"Add it with `ssh-add {public_key_file.with_suffix('')}`."
        )
    return AgentSigner(wanted, agent)


def _public_key(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            text = stream.read(_LARGEST_KEY_FILE).decode("ascii")
        return public_key_line(text)
    except OSError as error:
        message = f"Expected a public key at {path}, found: {error.strerror}. Give the .pub file of"
        raise SigningKeyError(f"{message} a key that the agent holds.") from error
    except (UnicodeDecodeError, SignatureError) as error:
        message = f"Expected an OpenSSH public key at {path}, found other content: {error}"
        raise SigningKeyError(message) from error


def _held(agent: Path) -> frozenset[bytes]:
    """The public keys that an agent holds, as blobs."""
    kind, reader = _ask(agent, _ASK_KEYS, b"")
    if kind != _KEYS:
        raise SigningKeyError(
            f"Expected the agent at {agent} to list its keys, found that it refuses. Unlock it "
            "with `ssh-add -X`."
        )
    try:
        return _read_keys(reader)
    except SignatureError as error:
        message = f"Expected a list of keys from the agent at {agent}, found another answer: "
        raise SigningKeyError(f"{message}{error} Use an agent of OpenSSH.") from error


def _read_keys(reader: WireReader) -> frozenset[bytes]:
    count = reader.uint32()
    if count > _MOST_KEYS:
        raise SignatureError(f"Expected at most {_MOST_KEYS} keys, found {count}.")
    blobs = []
    for _ in range(count):
        blobs.append(reader.string())
        # The comment of the key.
        reader.string()
    reader.end()
    return frozenset(blobs)


def _ask(agent: Path, kind: int, body: bytes) -> tuple[int, WireReader]:
    """Send one request; returns the kind of the answer and what follows."""
    try:
        is_socket = stat.S_ISSOCK(agent.stat().st_mode)
        answer = _exchange(agent, bytes([kind]) + body) if is_socket else b""
    except TimeoutError as error:
        raise SigningKeyError(
            f"Expected an answer of the agent at {agent} within {_LIMIT_S:g} s, found none. Touch "
            "the key or confirm its use in time."
        ) from error
    except SignatureError as error:
        raise SigningKeyError(
            f"Expected an answer of the agent at {agent}, found: {error} Restart the agent."
        ) from error
    except OSError as error:
        raise SigningKeyError(
            f"Expected an ssh-agent at {agent}, found: {error.strerror or error}. Start one with "
            '`eval "$(ssh-agent)" && ssh-add`.'
        ) from error
    if not is_socket:
        raise SigningKeyError(
            f"Expected the socket of an ssh-agent at {agent}, found another file. Set "
            "SSH_AUTH_SOCK to that of a running agent."
        )
    return answer[0], WireReader(answer[1:])


def _exchange(agent: Path, message: bytes) -> bytes:
    """Send a message and read the answer, both with their length before them."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(_LIMIT_S)
        link.connect(str(agent))
        link.sendall(wire_string(message))
        size = int.from_bytes(_exactly(link, 4), "big")
        if not 1 <= size <= _LARGEST_ANSWER:
            raise SignatureError(f"{size} bytes where at most {_LARGEST_ANSWER} are expected.")
        return _exactly(link, size)


def _exactly(link: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = link.recv(size - len(found))
        if not piece:
            raise SignatureError(f"Expected {size} bytes, found the end after {len(found)}.")
        found += piece
    return found
