"""Published keys, asked of a process that serves GitHub's published interface."""

from collections.abc import Iterator

import pytest

from k3bundle_testing import example_signer, other_signer, signer_fingerprint
from k3server.account_ports import KeysUnavailableError, NoDirectoryError
from k3server.adapters.forge_keys import ForgeKeys, NoKeys
from k3server.forge.client import ForgeClient
from k3server_testing.github.process import GithubProcess


@pytest.fixture(scope="module")
def github() -> Iterator[GithubProcess]:
    with GithubProcess() as process:
        yield process


@pytest.fixture
def keys(github: GithubProcess) -> ForgeKeys:
    lines = [example_signer().public_key, "ssh-dss AAAA", "no key at all"]
    github.set(keys={"alice": lines, "bob": [other_signer().public_key]})
    return ForgeKeys(ForgeClient(github.url, "", account=""))


def test_fingerprints_of_an_account_are_those_of_its_keys(keys: ForgeKeys) -> None:
    assert signer_fingerprint() in keys.fingerprints("Alice")
    assert signer_fingerprint() not in keys.fingerprints("bob")
    assert keys.fingerprints("nobody") == frozenset()


def test_found_keys_are_remembered_and_missing_ones_asked_for_again(
    github: GithubProcess, keys: ForgeKeys
) -> None:
    keys.fingerprints("alice")
    keys.fingerprints("nobody")
    github.set(keys={"nobody": [example_signer().public_key]})
    assert signer_fingerprint() in keys.fingerprints("alice")
    assert signer_fingerprint() in keys.fingerprints("nobody")


def test_silent_forge_is_told_and_not_taken_for_no_keys(
    github: GithubProcess, keys: ForgeKeys
) -> None:
    github.fail(502)
    with pytest.raises(KeysUnavailableError, match="502"):
        keys.fingerprints("alice")
    with pytest.raises(NoDirectoryError, match="was not told"):
        NoKeys().fingerprints("alice")
