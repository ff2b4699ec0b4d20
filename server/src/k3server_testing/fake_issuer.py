"""An issuer of identity tokens on loopback, with keys of its own, and tokens good and bad."""

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

__all__ = ["FakeIssuer"]

_LIFE_S = 300
_KEY_BITS = 2048


class FakeIssuer:
    """Publishes its keys while its context lasts."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
        self.status = 200
        """Status of its answers."""
        self.asked = 0
        """How often somebody wanted its keys."""
        self.key_id = "first"
        """Name of its key."""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                content = issuer.published() if self.path == "/.well-known/jwks" else b"{}"
                self.send_response(issuer.status)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Location", "/.well-known/jwks")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def published(self) -> bytes:
        """Its keys, as issuers publish them."""
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return json.dumps({"keys": [{**public, "kid": self.key_id, "use": "sig"}]}).encode()

    def claims(self, audience: str, now: float) -> dict[str, Any]:
        """What a good token of a workflow says."""
        return {
            "iss": self.address,
            "aud": audience,
            "sub": "repo:Example/Engine:ref:refs/heads/main",
            "repository": "Example/Engine",
            "repository_owner": "Example",
            "actor": "octocat",
            "iat": now,
            "nbf": now - 60,
            "exp": now + _LIFE_S,
        }

    def token(self, claims: Mapping[str, Any], **changes: Any) -> str:
        """A token.

        Args:
            claims: What it says.
            **changes: `key`, `algorithm` or `headers`, where it is no good one.
        """
        made = {"key": self.key, "algorithm": "RS256", "headers": {"kid": self.key_id}, **changes}
        return jwt.encode(dict(claims), **made)
