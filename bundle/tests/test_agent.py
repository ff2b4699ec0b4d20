"""Signing through an ssh-agent: a real one where it is installed, and one that answers anything."""

import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from k3bundle.policy import Policy
from k3bundle.seal import seal
from k3bundle.sign import SigningKeyError, generate_key, load_signer
from k3bundle.ssh_wire import wire_string
from k3bundle.sshsig import fingerprint, key_blob, sshsig_of, verify_sshsig
from k3bundle.verify import verify
from k3bundle_testing import example_signer, good_run_files, other_signer

PROGRAMS = {name: shutil.which(name) for name in ("ssh-agent", "ssh-add", "ssh-keygen")}
NOW = "2026-01-02T04:00:00Z"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    """The socket of an ssh-agent that is started for the test and ended after it."""
    found = tmp_path / "agent.sock"
    started = subprocess.run(
        [str(PROGRAMS["ssh-agent"]), "-a", str(found), "-s"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    pid = int(started.stdout.split("SSH_AGENT_PID=")[1].split(";")[0])
    try:
        yield found
    finally:
        os.kill(pid, signal.SIGTERM)


def add(agent: Path, key: Path, *flags: str) -> None:
    subprocess.run(
        [str(PROGRAMS["ssh-add"]), "-q", *flags, str(key)],
        env={"SSH_AUTH_SOCK": str(agent), "PATH": os.environ["PATH"]},
        capture_output=True, check=True,
    )  # fmt: skip


def keygen(path: Path, *flags: str) -> Path:
    words = [str(PROGRAMS["ssh-keygen"]), "-q", "-N", "", "-C", "", *flags, "-f", str(path)]
    subprocess.run(words, capture_output=True, check=True)
    return path


def test_the_programs_of_openssh_are_here_or_the_protocol_is_all_that_is_tested() -> None:
    # The tests below that need them are collected only where all three are installed.
    assert all(PROGRAMS.values()) or not any(PROGRAMS.values())


if all(PROGRAMS.values()):

    def test_a_key_of_a_real_agent_seals_a_bundle_that_verifies(
        agent: Path, tmp_path: Path
    ) -> None:
        generate_key(tmp_path / "key")
        own = load_signer(tmp_path / "key")
        add(agent, tmp_path / "key")
        # Only the public half is left on disk.
        (tmp_path / "key").unlink()
        signer = load_signer(tmp_path / "key.pub", agent)
        assert signer.public_key == own.public_key
        sealed = seal(good_run_files(), signer, NOW)
        known = frozenset({fingerprint(own.public_key)})
        report = verify(sealed, Policy(allowed_signers=known))
        assert report.findings == ()
        assert report.signer_fingerprint in known
        # Ed25519 signs deterministically, so the agent's envelope is the key file's own.
        assert sealed == seal(good_run_files(), own, NOW)

    @pytest.mark.parametrize("flags", [("-t", "ecdsa", "-b", "256"), ("-t", "rsa", "-b", "3072")])
    def test_other_kinds_of_keys_sign_through_a_real_agent(
        flags: tuple[str, ...], agent: Path, tmp_path: Path
    ) -> None:
        add(agent, keygen(tmp_path / "key", *flags))
        signer = load_signer(tmp_path / "key.pub", agent)
        assert verify_sshsig(signer.sign(b"hello"), b"hello") == signer.public_key

    def test_a_key_that_the_agent_lost_is_a_sentence(agent: Path, tmp_path: Path) -> None:
        generate_key(tmp_path / "key")
        add(agent, tmp_path / "key")
        signer = load_signer(tmp_path / "key.pub", agent)
        add(agent, tmp_path / "key", "-d")
        with pytest.raises(SigningKeyError, match=r"found that it refuses\. Unlock it, confirm"):
            signer.sign(b"hello")
        with pytest.raises(
            SigningKeyError, match=r"found 0 other keys there. Add it with `ssh-add"
        ):
            load_signer(tmp_path / "key.pub", agent)

    def test_an_encrypted_key_file_names_the_agent_as_the_way(tmp_path: Path) -> None:
        words = [str(PROGRAMS["ssh-keygen"]), "-q", "-t", "ed25519", "-N", "a pass phrase", "-f"]
        subprocess.run([*words, str(tmp_path / "key")], capture_output=True, check=True)
        with pytest.raises(SigningKeyError, match=r"`ssh-add .*key`, then --key .*key\.pub\."):
            load_signer(tmp_path / "key")


def public_file(folder: Path) -> Path:
    path = folder / "id.pub"
    path.write_text(example_signer().public_key + " somebody@somewhere\n")
    return path


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Starts agents that send given bytes, one answer for each connection."""
    servers: list[socket.socket] = []

    def start(*answers: bytes) -> Path:
        path = tmp_path / f"agent-{len(servers)}.sock"
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind(str(path))
        server.listen()
        servers.append(server)

        def serve() -> None:
            for answer in answers:
                link, _ = server.accept()
                with link:
                    size = int.from_bytes(link.recv(4), "big")
                    while size > 0:
                        size -= len(link.recv(size))
                    link.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return path

    yield start
    for server in servers:
        server.close()


def keys(*lines: str) -> bytes:
    blobs = b"".join(wire_string(key_blob(line)) + wire_string(b"comment") for line in lines)
    return wire_string(b"\x0c" + len(lines).to_bytes(4, "big") + blobs)


def signature(inner: bytes) -> bytes:
    return wire_string(b"\x0e" + wire_string(inner))


def inner_of(message: bytes) -> bytes:
    """What the example's key signs, as an agent answers it."""
    blob = example_signer().sign(message)
    end = len(sshsig_of(example_signer().public_key, b"")) - 4
    return blob[end + 4 :]


def test_protocol_asks_for_keys_and_a_signature(
    answering: Callable[..., Path], tmp_path: Path
) -> None:
    mine = example_signer().public_key
    agent = answering(keys(other_signer().public_key, mine), signature(inner_of(b"hello")))
    signer = load_signer(public_file(tmp_path), agent)
    assert signer.sign(b"hello") == example_signer().sign(b"hello")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (wire_string(b"\x05"), r"found that it refuses. Unlock it with `ssh-add -X`\."),
        (b"", "found the end after 0"),
        (wire_string(b""), "0 bytes where at most"),
        ((1 << 30).to_bytes(4, "big"), "1073741824 bytes where at most"),
        (wire_string(b"\x0c\x00\x00\x00\x02"), "found another answer: Expected 4 bytes"),
        (wire_string(b"\x0c\xff\xff\xff\xff"), "Expected at most 1024 keys"),
        (keys()[:-1] + b"\x00\x00", "Expected .* found"),
    ],
)
def test_an_agent_that_answers_something_else_is_a_sentence(
    answer: bytes, words: str, answering: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(SigningKeyError, match=words):
        load_signer(public_file(tmp_path), answering(answer))


def test_a_signature_of_another_message_is_never_taken(
    answering: Callable[..., Path], tmp_path: Path
) -> None:
    mine = example_signer().public_key
    agent = answering(keys(mine), signature(inner_of(b"another message")))
    signer = load_signer(public_file(tmp_path), agent)
    with pytest.raises(SigningKeyError, match=r"a signature by SHA256:.* that verifies"):
        signer.sign(b"hello")


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (None, "SSH_AUTH_SOCK is not set. Start one with"),
        ("nowhere", "No such file or directory. Start one with"),
        ("id.pub", "found another file. Set SSH_AUTH_SOCK"),
    ],
)
def test_without_an_agent_a_public_key_signs_nothing(
    agent: str | None, words: str, tmp_path: Path
) -> None:
    path = public_file(tmp_path)
    with pytest.raises(SigningKeyError, match=words):
        load_signer(path, None if agent is None else tmp_path / agent)


@pytest.mark.parametrize("content", ["", "ssh-ed25519 AAAA\n", "no key\n", "ssh-ed25519 \u00e9\n"])
def test_a_public_key_file_that_is_none_is_a_sentence(content: str, tmp_path: Path) -> None:
    path = tmp_path / "id.pub"
    path.write_text(content)
    with pytest.raises(SigningKeyError, match=r"Expected an OpenSSH public key at .*id\.pub"):
        load_signer(path, tmp_path / "agent")
