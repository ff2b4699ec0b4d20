"""What a reader demands of a bundle beyond being whole and honest about its own numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from k3bundle import layout
from k3bundle.finding import Finding
from k3bundle.manifest import Manifest
from k3bundle.plan import Plan, TierName
from k3bundle.standard_gates import looser_than_standard
from k3bundle.subject import ChangeUnderTest
from k3bundle.verdict import Verdict

__all__ = ["Policy", "policy_findings"]

_TIERS: Final[tuple[TierName, ...]] = ("smoke", "kernels", "quick", "standard", "full")


@dataclass(frozen=True)
class Policy:
    """Demands of a reader; None demands nothing."""

    change: ChangeUnderTest | None = None
    """The change that the bundle must be evidence for."""
    minimum_tier: TierName | None = None
    """The cheapest tier that is enough."""
    allowed_signers: frozenset[str] | None = None
    """Fingerprints (`SHA256:...`) of the keys that may sign."""
    require_attestation: bool = True
    """Whether an unsigned bundle is refused."""
    allowed_plans: frozenset[str] | None = None
    """Digests of the plans that count; a plan holds the gates, so another plan is another test."""
    require_standard: bool = False
    """Whether a plan that asks for less than its tier's standard is refused."""
    allowed_verdicts: frozenset[str] | None = None
    """Verdict statuses that are enough."""


def policy_findings(
    policy: Policy,
    *,
    manifest: Manifest | None,
    plan: Plan | None,
    verdict: Verdict | None,
    signer_fingerprint: str | None,
) -> Iterator[Finding]:
    """Yield a finding for each demand that is not met; what could not be read is not judged."""
    if manifest is not None:
        yield from _change(policy, manifest)
        yield from _plan_digest(policy, manifest)
    if plan is not None:
        yield from _tier(policy, plan)
        yield from _standard(policy, plan)
    if verdict is not None:
        yield from _verdict(policy, verdict)
    if signer_fingerprint is not None:
        yield from _signer(policy, signer_fingerprint)


def _change(policy: Policy, manifest: Manifest) -> Iterator[Finding]:
    if policy.change is None or policy.change == manifest.change:
        return
    why = f"Expected evidence for {_words(policy.change)}, found {_words(manifest.change)}."
    hint = "Submit the bundle to the pull request and commit that it was made for."
    yield Finding("change-mismatch", f"{layout.MANIFEST} $.change", why, hint)


def _plan_digest(policy: Policy, manifest: Manifest) -> Iterator[Finding]:
    digest = manifest.run.plan_sha256
    if policy.allowed_plans is None or digest in policy.allowed_plans:
        return
    why = f"Expected a plan of the standard evaluation, found the plan {digest}."
    hint = "Run a tier as this release of k3-eval plans it, without edited gates."
    yield Finding("plan-digest-mismatch", layout.PLAN, why, hint)


def _standard(policy: Policy, plan: Plan) -> Iterator[Finding]:
    looser = looser_than_standard(plan) if policy.require_standard else ()
    if not looser:
        return
    more = f" and {len(looser) - 1} more" if len(looser) > 1 else ""
    why = f"Expected a plan as strict as the {plan.tier} tier, found that {looser[0]}{more}."
    hint = "Run the tier as this release of k3-eval plans it, without edited gates."
    yield Finding("plan-digest-mismatch", layout.PLAN, why, hint)


def _tier(policy: Policy, plan: Plan) -> Iterator[Finding]:
    minimum = policy.minimum_tier
    # A kernel package that no engine ran is no evidence of serving, whatever it cost.
    another_kind = plan.tier == "kernels" and minimum != "kernels"
    if minimum is None or (not another_kind and _TIERS.index(plan.tier) >= _TIERS.index(minimum)):
        return
    why = f"Expected tier {minimum} or above, found {plan.tier}."
    hint = f"Run: k3-eval run --tier {minimum}"
    yield Finding("policy-tier", f"{layout.PLAN} $.tier", why, hint)


def _verdict(policy: Policy, verdict: Verdict) -> Iterator[Finding]:
    if policy.allowed_verdicts is None or verdict.status in policy.allowed_verdicts:
        return
    wanted = " or ".join(sorted(policy.allowed_verdicts))
    why = f"Expected the verdict {wanted}, found {verdict.status}."
    hint = "Read the report: it names the cells that decided the verdict."
    yield Finding("policy-verdict", f"{layout.VERDICT} $.status", why, hint)


def _signer(policy: Policy, signer_fingerprint: str) -> Iterator[Finding]:
    if policy.allowed_signers is None or signer_fingerprint in policy.allowed_signers:
        return
    why = f"Expected an allowed signer, found {signer_fingerprint}."
    hint = "Ask the reader of the bundle to allow this key, or sign with an allowed one."
    yield Finding("signer-not-allowed", layout.ATTESTATION, why, hint)


def _words(change: ChangeUnderTest) -> str:
    return f"{change.repository}#{change.pull_request} at {change.commit_sha}"
