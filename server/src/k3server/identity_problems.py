"""What is said about identity tokens that are not believed. Pure."""

from typing import Final

from k3server.account_ports import IssuerUnavailableError
from k3server.errors import Problem, ProblemFinding, PublicError
from k3server.workflow_identity import IdentityTokenError

__all__ = ["NO_ISSUER", "issuer_away", "not_believed", "other_key"]

NO_ISSUER: Final = IdentityTokenError(
    "identity-token-not-accepted",
    "Expected an API token, found an identity token, which this registry was not told to take.",
    "Send with an API token or `github_account`, or ask the registry's operator.",
)
"""A registry without an issuer."""

_SHOWN: Final = 80


def other_key(key_id: str) -> IdentityTokenError:
    """The token names a key that the issuer does not publish."""
    return IdentityTokenError(
        "identity-token-signature",
        f"Expected a key that the issuer publishes, found {key_id[:_SHOWN]!a}.",
    )


def not_believed(error: IdentityTokenError) -> PublicError:
    """401 with the one finding."""
    finding = ProblemFinding(code=error.code, where="authorization", why=error.why, hint=error.hint)
    return PublicError(
        Problem(
            401,
            "The identity token is not believed",
            f"{finding.why} {finding.hint}",
            findings=(finding,),
            headers={"WWW-Authenticate": 'Bearer realm="k3-eval registry", error="invalid_token"'},
        )
    )


def issuer_away(error: IssuerUnavailableError) -> PublicError:
    """503: whether the token is good cannot be told now."""
    return PublicError(
        Problem(
            503,
            "The issuer's keys cannot be asked for",
            f"Expected the keys of the issuer of identity tokens, found: {error} "
            "The archive is kept; send the submission again later.",
            headers={"Retry-After": "60"},
        )
    )
