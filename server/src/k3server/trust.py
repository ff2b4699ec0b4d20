"""What a reader may believe about who made a bundle, and about its nonce. Pure.

A signature says who, never that the numbers are true.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from k3bundle.run import RunIdentity
from k3bundle.subject import ChangeUnderTest

__all__ = [
    "LADDER",
    "NONCE_SENTENCES",
    "TRUST_SENTENCES",
    "Attribution",
    "NonceStanding",
    "NonceTicket",
    "Space",
    "State",
    "TrustLevel",
    "highest",
    "lowers_trust",
    "nonce_standing",
    "trust_level",
]

TrustLevel = Literal["self-reported", "signed", "reproduced", "audited"]
"""`self-reported`: nobody vouches for the key. `signed`: the owner of the key is known.
`reproduced`: an independent contributor's run of the same plan agrees. `audited`: an operator of
this registry looked into it."""

LADDER: Final[tuple[TrustLevel, ...]] = ("self-reported", "signed", "reproduced", "audited")
"""The levels, the weakest first."""

TRUST_SENTENCES: Final[dict[TrustLevel, str]] = {
    "self-reported": "Measured and reported by the contributor; the signing key is not registered "
    "here. The numbers follow from the raw records, and nobody has repeated the run.",
    "signed": "Signed with a key whose owner this registry knows. The numbers follow from the raw "
    "records, and nobody has repeated the run.",
    "reproduced": "Another contributor, who shares no key, organisation or known accelerator with "
    "this one, ran the same plan on the same commit and found the same within the stated margin.",
    "audited": "An operator of this registry looked into the run and stands by it.",
}
"""What each level means, in a sentence for a person."""

Space = Literal["main", "playground"]
"""`playground`: nobody is known to stand behind the submission."""

State = Literal["visible", "quarantined", "retracted"]
"""`quarantined`: hidden until an operator has looked at it. `retracted`: shown with the reason, and
no evidence any more."""


@dataclass(frozen=True)
class Attribution:
    """Someone who stands behind a submission."""

    identity: str
    """`token:ACCOUNT`, `github:ACCOUNT` or `key:SHA256:...`."""
    trust: TrustLevel
    """How far that carries on its own: `self-reported` or `signed`."""
    organisation: str | None = None
    """Organisation of an account, as the operator noted it."""


def highest(levels: Iterable[TrustLevel]) -> TrustLevel:
    """The strongest of some levels; the weakest of all where there is none."""
    return max(levels, key=LADDER.index, default=LADDER[0])


NonceStanding = Literal["issued-here", "local", "unknown", "foreign", "expired", "reused"]
"""Where the nonce of a run comes from, as far as this registry can tell."""

NONCE_SENTENCES: Final[dict[NonceStanding, str]] = {
    "issued-here": "issued here for this change, plan and key, used once and in time",
    "local": "chosen by the contributor",
    "unknown": "said to come from a registry, but not issued by this one",
    "foreign": "issued here, but for another change, plan or key, which lowers the trust level",
    "expired": "issued here, but expired before the bundle arrived, which lowers the trust level",
    "reused": "issued here, but already used by another bundle, which lowers the trust level",
}
"""What each standing means, to follow the word nonce and a colon."""

_LOWERING: Final[frozenset[NonceStanding]] = frozenset({"foreign", "expired", "reused"})


def lowers_trust(standing: NonceStanding) -> bool:
    """Whether a run with such a nonce is `self-reported`, whoever signed it.

    The prompts of a run with a nonce that was issued for something else, used before or kept for
    long may have been known, so it also witnesses nothing.
    """
    return standing in _LOWERING


def trust_level(
    vouched: Iterable[TrustLevel], standing: NonceStanding, *, witnessed: bool, audited: bool
) -> TrustLevel:
    """The level of a submission.

    Args:
        vouched: How far each attribution carries on its own; empty: nobody stands behind it.
        standing: Of its nonce.
        witnessed: Whether an independent run agrees.
        audited: Whether an operator stands by it; that holds whatever the nonce.
    """
    levels = [] if lowers_trust(standing) else list(vouched)
    if levels and witnessed:
        levels.append("reproduced")
    if audited:
        levels.append("audited")
    return highest(levels)


@dataclass(frozen=True)
class NonceTicket:
    """A nonce that this registry issued, and what it was issued for."""

    nonce: str
    """64 lower-case hexadecimal digits."""
    change: ChangeUnderTest
    """The change that will be evaluated."""
    plan_sha256: str
    """The plan that will be run."""
    issued_at: datetime
    """When it was issued, in UTC."""
    expires_at: datetime
    """When it stops counting, in UTC."""
    signer: str | None = None
    """Fingerprint of the key that will sign the bundle; None: issued before that was asked for."""


def nonce_standing(
    run: RunIdentity,
    change: ChangeUnderTest,
    signer: str,
    *,
    ticket: NonceTicket | None,
    used_by_another: bool,
    received_at: datetime,
) -> NonceStanding:
    """Judge the nonce of a run.

    Args:
        run: The run, with its nonce and plan digest.
        change: The change that the bundle is evidence for.
        signer: Fingerprint of the key that signed the bundle.
        ticket: The ticket under which this registry issued the nonce; None when it did not.
        used_by_another: Whether another submission already used the ticket.
        received_at: When the submission arrived, by the registry's clock.
    """
    if ticket is None:
        return "unknown" if run.nonce_source == "registry" else "local"
    if ticket.change != change or ticket.plan_sha256 != run.plan_sha256:
        return "foreign"
    if ticket.signer not in {None, signer}:
        return "foreign"
    if used_by_another:
        return "reused"
    if received_at > ticket.expires_at:
        return "expired"
    return "issued-here"
