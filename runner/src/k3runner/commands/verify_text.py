"""A verification report as lines for a person and as an object for a program. Pure."""

from dataclasses import asdict
from typing import Any

from k3bundle.verify import Report
from k3runner.commands.failure import finding_lines
from k3runner.display.sentences import bare_sentence
from k3runner.status_mark import mark_of
from k3runner.visible import visible
from k3runner.wording import plural

__all__ = ["report_lines", "report_object"]


def report_lines(report: Report) -> list[str]:
    """Return the report as lines: soundness, then verdict, then every finding."""
    count = len(report.findings)
    lines = [f"refused: {plural(count, 'finding')}" if count else "sound: no finding"]
    if report.manifest is not None:
        change = report.manifest.change
        lines.append(f"change   {change.repository} #{change.pull_request} {change.commit_sha}")
    if report.verdict is not None:
        mark = mark_of(report.verdict.status)
        lines.append(f"verdict  {mark.glyph} {mark.word}: {bare_sentence(report.verdict)}")
    lines.append(f"signer   {visible(report.signer_fingerprint or 'none that checks out')}")
    return [*lines, *finding_lines(report.findings)]


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
    }
