"""What evidence a repository wants before a change is merged, from a file of its own. Pure.

The file is read at the base commit of the pull request and never at its head: a change cannot lower
the bar that it has to pass.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from pydantic import Field, ValidationError

from k3bundle.plan import TierName
from k3bundle.record import CellId, Record, ShortText
from k3bundle.verdict import ClaimName
from k3server.trust import LADDER, TrustLevel

__all__ = [
    "POLICY_PATH",
    "Decision",
    "Evidence",
    "EvidencePolicy",
    "PolicyError",
    "decide",
    "parse_policy",
]

POLICY_PATH: Final = ".k3-eval.toml"
"""Where a repository keeps it."""
_LARGEST_BYTES: Final = 65_536


class PolicyError(Exception):
    """The file is not a policy; the text is a sentence for the repository's maintainers."""


class RequiredTier(Record):
    """One kind of evidence that must be there."""

    tier: TierName
    """The tier."""
    subject: ShortText | None = None
    """Name of the subject; None: any."""
    least_trust: TrustLevel = "signed"
    """Weakest level that counts."""
    newest_within_days: int | None = Field(default=None, ge=1, le=3650)
    """Age that evidence may have; None: any."""
    claims: tuple[ClaimName, ...] = ("isolated", "bounded", "correct")
    """Claims that must be PASS."""
    cells: tuple[CellId, ...] = ()
    """Cells that must be PASS, whatever the verdict as a whole."""
    independent: int = Field(default=1, ge=1, le=16)
    """Contributors that must each have such evidence."""


class EvidencePolicy(Record):
    """The whole file."""

    policy_version: Literal["1"]
    """Format of the file."""
    required: tuple[RequiredTier, ...] = Field(min_length=1, max_length=32)
    """Everything that must be there."""


@dataclass(frozen=True)
class Evidence:
    """One submission, as far as a policy asks."""

    bundle_sha256: str
    """The submission."""
    commit_sha: str
    """Commit that it is evidence for."""
    tier: TierName
    """Tier that was run."""
    subject: str
    """Name of the subject."""
    trust: TrustLevel
    """Its level now."""
    contributor: str
    """Who stands behind it; the key's fingerprint where nobody is known."""
    received_at: datetime
    """When it arrived, in UTC."""
    passed_claims: frozenset[str]
    """Claims that are PASS."""
    passed_cells: frozenset[str]
    """Cells that are PASS."""
    counts: bool = True
    """False for what is in the playground, quarantined or retracted."""


@dataclass(frozen=True)
class Decision:
    """Whether everything is there."""

    met: bool
    """True when nothing is missing."""
    missing: tuple[str, ...]
    """A sentence for each requirement that is not met."""
    used: tuple[str, ...]
    """Submissions that meet requirements, in order of arrival."""


def parse_policy(content: bytes) -> EvidencePolicy:
    """Reads a policy file.

    Raises:
        PolicyError: It is none.
    """
    if len(content) > _LARGEST_BYTES:
        raise PolicyError(
            f"{POLICY_PATH} has {len(content)} bytes; at most {_LARGEST_BYTES} are read."
        )
    try:
        found = tomllib.loads(content.decode("utf-8"))
        required = tuple(RequiredTier.model_validate(_tuples(one)) for one in _tables(found))
        return EvidencePolicy.model_validate({**found, "required": required})
    except UnicodeDecodeError as error:
        raise PolicyError(f"{POLICY_PATH} is not UTF-8 text.") from error
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{POLICY_PATH} is not TOML: {error}.") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the top"
        raise PolicyError(f"{POLICY_PATH}: {where}: {first['msg']}.") from error


def decide(
    policy: EvidencePolicy, commit_sha: str, evidence: Sequence[Evidence], now: datetime
) -> Decision:
    """Holds what was submitted against what is wanted.

    Args:
        policy: What is wanted.
        commit_sha: Head of the pull request; evidence for another commit does not count.
        evidence: All submissions for the pull request.
        now: The registry's clock, in UTC.
    """
    missing: list[str] = []
    used: set[str] = set()
    for wanted in policy.required:
        good = [one for one in evidence if _meets(one, wanted, commit_sha, now)]
        contributors = {one.contributor for one in good}
        if len(contributors) < wanted.independent:
            missing.append(_sentence(wanted, len(contributors)))
        used |= {one.bundle_sha256 for one in good}
    ordered = sorted(evidence, key=lambda one: (one.received_at, one.bundle_sha256))
    return Decision(
        met=not missing,
        missing=tuple(missing),
        used=tuple(one.bundle_sha256 for one in ordered if one.bundle_sha256 in used),
    )


def _meets(found: Evidence, wanted: RequiredTier, commit_sha: str, now: datetime) -> bool:
    days = wanted.newest_within_days
    return (
        found.counts
        and found.commit_sha == commit_sha
        and found.tier == wanted.tier
        and wanted.subject in (None, found.subject)
        and LADDER.index(found.trust) >= LADDER.index(wanted.least_trust)
        and (days is None or now - found.received_at <= timedelta(days=days))
        and found.passed_claims.issuperset(wanted.claims)
        and found.passed_cells.issuperset(wanted.cells)
    )


def _sentence(wanted: RequiredTier, found: int) -> str:
    what = f"tier {wanted.tier}"
    if wanted.subject is not None:
        what += f" of {wanted.subject}"
    parts = [f"at least {wanted.least_trust}"]
    if wanted.claims:
        parts.append(f"with {', '.join(wanted.claims)} PASS")
    if wanted.cells:
        parts.append(f"with PASS in {', '.join(wanted.cells)}")
    if wanted.newest_within_days is not None:
        parts.append(f"at most {wanted.newest_within_days} days old")
    need = "evidence" if wanted.independent == 1 else f"{wanted.independent} contributors"
    have = "none" if found == 0 else str(found)
    return f"{need} for {what}, {', '.join(parts)}: found {have}"


def _tables(found: dict[str, object]) -> list[dict[str, object]]:
    tables = found.get("required", [])
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise PolicyError(f"{POLICY_PATH}: required: a list of tables is due.")
    return tables


def _tuples(table: dict[str, object]) -> dict[str, object]:
    """A file has lists where records have tuples."""
    return {key: tuple(one) if isinstance(one, list) else one for key, one in table.items()}
