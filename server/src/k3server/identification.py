"""The use case of identity: who stands behind a request or a submission.

A name is never taken on trust: a token proves an account of this registry, and a GitHub account is
believed only when it publishes the key that signed the bundle.
"""

from dataclasses import dataclass
from typing import Final

from starlette.concurrency import run_in_threadpool

from k3server.account_ports import (
    IssuerUnavailableError,
    KeysUnavailableError,
    NoDirectoryError,
    Scope,
    Token,
)
from k3server.bearer import is_valid, parts_of
from k3server.errors import Problem, ProblemFinding, PublicError
from k3server.identity_problems import NO_ISSUER, issuer_away, not_believed, other_key
from k3server.parts import Parts
from k3server.settings import Settings
from k3server.trust import Attribution
from k3server.workflow_identity import (
    IdentityTokenError,
    Workflow,
    is_identity_token,
    key_id_of,
    owner_of,
    workflow_of,
)

__all__ = ["Caller", "Identification"]

_SCHEME: Final = "bearer "


@dataclass(frozen=True)
class Caller:
    """Who sends a request, as far as the request says."""

    token: Token | None = None
    """The token that it carries, which works and has the scope."""
    github_account: str | None = None
    """The account that is said to publish the signing key; not yet believed."""
    workflow: Workflow | None = None
    """The workflow that sends it, where an identity token says so."""

    @property
    def identity(self) -> str | None:
        """`token:ACCOUNT` or `actions:OWNER/NAME`; None without a token."""
        if self.workflow is not None:
            return self.workflow.identity
        return None if self.token is None else f"token:{self.token.account}"

    @property
    def organisation(self) -> str | None:
        """Organisation of an account as the operator noted it; owner of a workflow's repository."""
        if self.workflow is not None:
            return self.workflow.owner
        return None if self.token is None else self.token.organisation


class Identification:
    """Finds out who somebody is."""

    def __init__(self, settings: Settings, parts: Parts) -> None:
        self._settings = settings
        self._parts = parts

    async def sender(
        self, header: str | None, blob_sha256: str, github_account: str | None
    ) -> Caller:
        """Who sends an archive: an API token or an identity token in the header, or nobody known.

        Args:
            header: The Authorization header.
            blob_sha256: The archive; an identity token must have been made for it.
            github_account: Account that is said to publish the signing key.

        Raises:
            PublicError: The header carries no token that works (401), one without the scope
                (403), or the issuer cannot be asked for its keys (503).
        """
        text = _bearer(header)
        if not is_identity_token(text):
            return Caller(await self.token(header, "submit"), github_account)
        audience = f"{self._settings.public_url}/api/v1/blobs/{blob_sha256}"
        return Caller(None, github_account, await self._workflow(text, audience))

    async def _workflow(self, text: str, audience: str) -> Workflow:
        issuer = self._parts.issuer
        if issuer is None:
            raise not_believed(NO_ISSUER)
        try:
            key_id = key_id_of(text)
            key = await run_in_threadpool(issuer.key, key_id)
            if key is None:
                raise not_believed(other_key(key_id))
            now = self._parts.clock.now()
            return workflow_of(text, key, issuer=issuer.address, audience=audience, now=now)
        except IdentityTokenError as error:
            raise not_believed(error) from None
        except IssuerUnavailableError as error:
            raise issuer_away(error) from None

    async def token(self, header: str | None, scope: Scope) -> Token | None:
        """The token of an Authorization header; None without a header.

        Raises:
            PublicError: The header carries no token that works (401), or one without the scope
                (403).
        """
        if header is None:
            return None
        found = parts_of(_bearer(header))
        token = None
        if found is not None:
            token = await run_in_threadpool(self._parts.accounts.find, found[0])
        if found is None or token is None:
            raise _no_token()
        if not is_valid(token, found[1], self._parts.clock.now()):
            raise _no_token()
        if scope not in token.scopes:
            raise _no_scope(scope)
        return token

    async def required_token(self, header: str | None, scope: Scope) -> Token:
        """The same for a request that needs a token.

        Raises:
            PublicError: There is none that works (401), it lacks the scope, or its account is
                banned (403).
        """
        token = await self.token(header, scope)
        if token is None:
            raise _no_token()
        identity = f"token:{token.account}"
        reason = await run_in_threadpool(self._parts.moderation.ban_of, identity)
        if reason is not None:
            raise _banned(reason)
        return token

    async def attribution(self, caller: Caller, signer: str) -> Attribution | None:
        """Who stands behind a bundle that this key signed; None: nobody is known.

        Raises:
            PublicError: The named GitHub account does not publish the key or this registry asks no
                accounts (422), the account cannot be asked for its keys (503), or signer or caller
                are banned (403).
        """
        found = await self._found(caller, signer)
        names = [f"key:{signer}", *([] if found is None else [found.identity])]
        if caller.identity is not None:
            names.append(caller.identity)
        # Whoever is banned as an account is banned with the workflows of that account.
        names += [f"github:{owner}" for name in names if (owner := owner_of(name)) is not None]
        reason = await run_in_threadpool(self._parts.moderation.ban_of, *names)
        if reason is not None:
            raise _banned(reason)
        return found

    async def _found(self, caller: Caller, signer: str) -> Attribution | None:
        organisation = caller.organisation
        if caller.github_account is not None:
            await self._check_published(caller.github_account, signer)
            identity = f"github:{caller.github_account.lower()}"
            return Attribution(identity, "signed", organisation)
        if signer in self._settings.known_signers:
            return Attribution(f"key:{signer}", "signed", organisation)
        if caller.identity is not None:
            return Attribution(caller.identity, "self-reported", organisation)
        return None

    async def _check_published(self, account: str, signer: str) -> None:
        try:
            keys = await run_in_threadpool(self._parts.keys.fingerprints, account)
        except KeysUnavailableError as error:
            raise _keys_away(account, error) from None
        except NoDirectoryError as error:
            raise _no_directory(error) from None
        if signer not in keys:
            raise _not_published(account, signer)


def _bearer(header: str | None) -> str:
    """The token of an Authorization header; empty where it carries none."""
    if header is None or not header.lower().startswith(_SCHEME):
        return ""
    return header[len(_SCHEME) :].strip()


def _no_token() -> PublicError:
    return PublicError(
        Problem(
            401,
            "The token does not work",
            "Expected a header `Authorization: Bearer k3r_...` with a token that works, found "
            "another one, or one that expired or was revoked. Ask the registry's operator.",
            headers={"WWW-Authenticate": 'Bearer realm="k3-eval registry"'},
        )
    )


def _no_scope(scope: Scope) -> PublicError:
    return PublicError(
        Problem(
            403,
            "The token may not do this",
            f"Expected a token with the scope `{scope}`, found one without it. "
            "Ask the registry's operator for one.",
        )
    )


def _banned(reason: str) -> PublicError:
    return PublicError(
        Problem(
            403,
            "The contributor is banned",
            f"Expected a contributor who may submit, found one who is banned: {reason} "
            "Write to the registry's operator if that is wrong.",
        )
    )


def _not_published(account: str, signer: str) -> PublicError:
    finding = ProblemFinding(
        code="key-not-published",
        where="github_account",
        why=f"Expected the GitHub account {account} to publish the key {signer}, found other keys.",
        hint="Add the public key to the account as a signing key, or leave `github_account` out.",
    )
    detail = f"{finding.where}: {finding.why} {finding.hint}"
    return PublicError(Problem(422, "The key is not the account's", detail, findings=(finding,)))


def _no_directory(error: NoDirectoryError) -> PublicError:
    # No 503: it is the same however often it is sent.
    finding = ProblemFinding(
        code="accounts-not-asked",
        where="github_account",
        why=f"Expected a registry that asks accounts for their keys, found: {error}",
        hint="Leave `github_account` out, or send with a token of this registry.",
    )
    detail = f"{finding.where}: {finding.why} {finding.hint}"
    return PublicError(Problem(422, "No account can be named here", detail, findings=(finding,)))


def _keys_away(account: str, error: KeysUnavailableError) -> PublicError:
    return PublicError(
        Problem(
            503,
            "The keys cannot be asked for",
            f"Expected the published keys of the GitHub account {account}, found: {error} "
            "The archive is kept; send the submission again later, or without `github_account`.",
            headers={"Retry-After": "60"},
        )
    )
