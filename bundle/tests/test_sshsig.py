"""SSH signatures: against recorded output of ssh-keygen, always, and the real one where it is."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3bundle.sign import SigningKeyError, generate_key, load_signer
from k3bundle.sshsig import (
    SignatureError,
    armor,
    dearmor,
    fingerprint,
    public_key_line,
    verify_sshsig,
)
from k3bundle_testing import example_signer

VECTORS = Path(__file__).parent / "sshsig_vectors"
MESSAGE = (VECTORS / "message.bin").read_bytes()
ACCEPTED = ("example", "ed25519", "ed25519_message_sha256", "ecdsa256", "rsa3072")
REFUSED = {
    "refused_namespace": "Expected a signature for k3-eval@v1, found one for 'git'",
    "refused_rsa1024": "Expected an RSA key of 2048 to 8192 bits, found 1024",
    "refused_ecdsa384": "Expected a key of type ssh-ed25519",
}


def _signature(name: str) -> bytes:
    return dearmor((VECTORS / f"{name}.sig").read_text())


@pytest.mark.parametrize("name", ACCEPTED)
def test_verify_recorded_signature_gives_its_key(name: str) -> None:
    expected = public_key_line((VECTORS / f"{name}.pub").read_text())
    assert verify_sshsig(_signature(name), MESSAGE) == expected


@pytest.mark.parametrize("name", ACCEPTED)
def test_verify_recorded_signature_of_another_message_is_refused(name: str) -> None:
    with pytest.raises(SignatureError, match="Expected the signature of these bytes"):
        verify_sshsig(_signature(name), MESSAGE + b" ")


@pytest.mark.parametrize(("name", "why"), REFUSED.items())
def test_verify_refuses_recorded_signature(name: str, why: str) -> None:
    with pytest.raises(SignatureError, match=why):
        verify_sshsig(_signature(name), MESSAGE)


def test_verify_in_the_other_namespace_accepts_that_signature() -> None:
    line = verify_sshsig(_signature("refused_namespace"), MESSAGE, "git")
    assert line == public_key_line((VECTORS / "refused_namespace.pub").read_text())


def test_sign_makes_the_bytes_that_ssh_keygen_makes() -> None:
    signature = example_signer().sign(MESSAGE)
    assert signature == _signature("example")
    assert armor(signature) == (VECTORS / "example.sig").read_text()


def test_fingerprint_is_what_ssh_keygen_prints() -> None:
    lines = (VECTORS / "fingerprints.txt").read_text().splitlines()
    recorded = dict(line.split() for line in lines)
    names = [path.stem for path in VECTORS.glob("*.pub")]
    found = {name: _fingerprint_of(name) for name in names if name != "refused_ecdsa384"}
    recorded.pop("refused_ecdsa384")
    assert found == recorded


def _fingerprint_of(name: str) -> str:
    return fingerprint((VECTORS / f"{name}.pub").read_text())


@pytest.mark.parametrize("name", ACCEPTED)
def test_verify_every_flipped_byte_is_refused(name: str) -> None:
    signature = _signature(name)
    for at in range(len(signature)):
        damaged = bytearray(signature)
        damaged[at] ^= 1 << (at % 8)
        with pytest.raises(SignatureError):
            verify_sshsig(bytes(damaged), MESSAGE)


@pytest.mark.parametrize("name", ACCEPTED)
def test_verify_cut_or_longer_is_refused(name: str) -> None:
    signature = _signature(name)
    for bad in (*(signature[:n] for n in range(len(signature))), signature + b"\0"):
        with pytest.raises(SignatureError):
            verify_sshsig(bad, MESSAGE)


@given(st.binary(max_size=400), st.booleans())
def test_verify_any_bytes_is_a_sentence(data: bytes, start: bool) -> None:
    with pytest.raises(SignatureError, match="Expected"):
        verify_sshsig((b"SSHSIG\0\0\0\1" if start else b"") + data, MESSAGE)


@pytest.mark.parametrize(
    "text", ["", "x", "-----BEGIN SSH SIGNATURE-----\n!\n-----END SSH SIGNATURE-----\n"]
)
def test_dearmor_other_text_is_refused(text: str) -> None:
    with pytest.raises(SignatureError, match="Expected"):
        dearmor(text)


def test_generate_key_is_private_and_signs(tmp_path: Path) -> None:
    generate_key(tmp_path / "key")
    signer = load_signer(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "key.pub").read_text() == signer.public_key + "\n"
    assert verify_sshsig(signer.sign(b"hello"), b"hello") == signer.public_key


def test_generate_key_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("mine")
    with pytest.raises(SigningKeyError, match="Expected no file"):
        generate_key(tmp_path / "key")
    assert (tmp_path / "key").read_text() == "mine"
    assert not (tmp_path / "key.pub").exists()


def test_load_signer_open_to_others_is_refused(tmp_path: Path) -> None:
    generate_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(SigningKeyError, match=r"found mode 0640. Run: chmod 600"):
        load_signer(tmp_path / "key")


@pytest.mark.parametrize("content", [b"", b"\0" * 70000, b"-----BEGIN OPENSSH PRIVATE KEY-----"])
def test_load_signer_other_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(SigningKeyError, match="Expected an OpenSSH private key"):
        load_signer(tmp_path / "key")


def test_load_signer_missing_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(SigningKeyError, match="Make one with: ssh-keygen -t ed25519"):
        load_signer(tmp_path / "key")


def test_sign_and_verify_with_ssh_keygen_on_this_machine(tmp_path: Path) -> None:
    """Without ssh-keygen the recorded vectors above are the whole test, and must be there."""
    assert {path.stem for path in VECTORS.glob("*.sig")} == {*ACCEPTED, *REFUSED}
    program = shutil.which("ssh-keygen")
    if program is None:
        return
    generate_key(tmp_path / "key")
    signer = load_signer(tmp_path / "key")
    namespace = ["-n", "k3-eval@v1"]
    sign = [program, "-q", "-Y", "sign", "-f", str(tmp_path / "key"), *namespace]
    theirs = subprocess.run(sign, input=MESSAGE, capture_output=True, check=True).stdout
    assert verify_sshsig(dearmor(theirs.decode()), MESSAGE) == signer.public_key
    (tmp_path / "allowed").write_text(f"somebody {signer.public_key}\n")
    (tmp_path / "ours.sig").write_text(armor(signer.sign(MESSAGE)))
    verify = [program, "-Y", "verify", "-f", str(tmp_path / "allowed"), "-I", "somebody"]
    verify += [*namespace, "-s", str(tmp_path / "ours.sig")]
    done = subprocess.run(verify, input=MESSAGE, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
