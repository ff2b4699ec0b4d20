"""Where the nonce of a run comes from: a registry that issues it, or local randomness."""

import json
import secrets
import urllib.request
from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from k3bundle.record import Sha256
from k3bundle.sign import Signer
from k3bundle.sshsig import fingerprint
from k3bundle.subject import ChangeUnderTest
from k3runner.errors import RegistryError

__all__ = ["Nonce", "choose_nonce"]

_LIMIT_S = 15
_SHA256 = TypeAdapter[str](Sha256)


@dataclass(frozen=True)
class Nonce:
    """A nonce and who chose it."""

    value: str
    """64 hexadecimal digits."""
    source: Literal["registry", "local"]
    """Who chose it."""


def choose_nonce(
    registry_url: str | None, change: ChangeUnderTest, plan_sha256: str, signer: Signer
) -> Nonce:
    """Asks the registry for a nonce, or draws one when no registry is named.

    Args:
        registry_url: Base URL of the registry; None: draw locally.
        change: What the run is for; the registry binds the nonce to it.
        plan_sha256: Digest of the plan; bound too.
        signer: Key that will sign the bundle; bound too.

    Raises:
        RegistryError: A registry was named and gave no nonce.
    """
    if registry_url is None:
        return Nonce(value=secrets.token_hex(32), source="local")
    body = json.dumps(
        {
            "repository": change.repository,
            "pull_request": change.pull_request,
            "commit_sha": change.commit_sha,
            "plan_sha256": plan_sha256,
            "signer": fingerprint(signer.public_key),
        }
    ).encode()
    request = urllib.request.Request(  # noqa: S310
        f"{registry_url}/api/v1/nonces", data=body, headers={"Content-Type": "application/json"}
    )
    try:
        # The URL's scheme was checked to be http or https when settings were resolved.
        with urllib.request.urlopen(request, timeout=_LIMIT_S) as response:  # noqa: S310
            found = json.load(response)
        return Nonce(value=_SHA256.validate_python(found["nonce"]), source="registry")
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        raise RegistryError(
            f"The registry at {registry_url} gave no nonce: {error}.",
            "Start the registry, or leave out --registry to draw a nonce locally.",
        ) from error
