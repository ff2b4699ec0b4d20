"""Verifies a bundle's file, and tells the report as lines for a person or as an object."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from k3bundle.errors import BundleError
from k3bundle.plan import TierName
from k3bundle.policy import Policy
from k3bundle.verify import Report, verify
from k3runner.bundle_file import read_bundle
from k3runner.commands.failure import finding_lines
from k3runner.display.sentences import bare_sentence
from k3runner.errors import UsageError
from k3runner.status_mark import mark_of
from k3runner.visible import visible
from k3runner.wording import plural

__all__ = ["report_lines", "report_object", "tier_named", "verified"]


def verified(path: Path, policy: Policy) -> Report:
    """Return the report of the bundle at `path`; an archive that cannot be read has findings too.

    Raises:
        UsageError: There is no such file.
    """
    try:
        return verify(read_bundle(path), policy)
    except BundleError as error:
        return Report(findings=error.findings, verdict=None, manifest=None, signer_fingerprint=None)


def tier_named(name: str | None) -> TierName | None:
    """The tier of that name; None for none.

    Raises:
        UsageError: There is no such tier.
    """
    tiers: tuple[TierName, ...] = get_args(TierName)
    found = next((tier for tier in tiers if tier == name), None)
    if name is not None and found is None:
        raise UsageError(
            f"No tier `{name}`; the tiers are {', '.join(tiers)}.", "Name one of them."
        )
    return found


def report_lines(report: Report) -> list[str]:
    """Return the report as lines: soundness, then verdict, then every finding."""
    count = len(report.findings)
    lines = [f"refused: {plural(count, 'finding')}" if count else "sound: no finding"]
    if report.manifest is not None:
        change = report.manifest.change
        lines.append(f"change   {change.repository} #{change.pull_request} {change.commit_sha}")
    if report.verdict is not None:
        mark = mark_of(report.verdict.status)
        said = f"{mark.glyph} {mark.word}: {bare_sentence(report.verdict)}"
        if count:
            said = f"none; a refused bundle is no evidence. Its records alone would say {said}"
        lines.append(f"verdict  {said}")
        lines.append(f"standard {_standard(report)}")
    if report.signer_fingerprint is not None:
        lines.append(f"signer   {visible(report.signer_fingerprint)}")
    return [*lines, *finding_lines(report.findings)]


def _standard(report: Report) -> str:
    looser = report.looser_than_standard
    if not looser:
        return f"the plan asks for all that the {report.tier or 'named'} tier does"
    more = f" and {len(looser) - 1} more" if len(looser) > 1 else ""
    return f"not met: the plan asks for less than the {report.tier} tier, {looser[0]}{more}"


def report_object(report: Report) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "sound": not report.findings,
        "findings": [asdict(finding) for finding in report.findings],
        "verdict": None if report.verdict is None else report.verdict.status,
        "change": None
        if report.manifest is None
        else report.manifest.change.model_dump(mode="json"),
        "signer": report.signer_fingerprint,
        "tier": report.tier,
        "meets_standard": not report.findings and not report.looser_than_standard,
        "looser_than_standard": list(report.looser_than_standard),
    }
