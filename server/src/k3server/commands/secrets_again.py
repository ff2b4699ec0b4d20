"""`k3-registry rescan`: look for secrets in stored archives with the patterns of this version."""

import argparse
import asyncio
import sys
from typing import Final

from k3server.adapters.child_verifier import ChildVerifier
from k3server.adapters.sql.index import SqlIndex
from k3server.adapters.sql.moderation import SqlModeration
from k3server.adapters.system_clock import SystemClock
from k3server.commands.decisions import operator_name
from k3server.commands.storage import add_storage_flags, database_of, store_of
from k3server.exit_code import ExitCode
from k3server.secret_rescan import RescanReport, rescan
from k3server.settings import Settings

__all__ = ["add_rescan_flags", "run_rescan"]

_ANY_BYTES: Final = 1 << 40
_REASON: Final = "A secret was found in the bundle when it was scanned again."


def add_rescan_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `rescan`."""
    add_storage_flags(parser)
    parser.add_argument(
        "--report-only", action="store_true", help="say what was found and quarantine nothing"
    )


def run_rescan(chosen: argparse.Namespace) -> int:
    """Scan every archive again, each in a process with limits; a line on stdout per finding."""
    # What was taken before is looked into whatever its size; memory is limited all the same.
    verifier = ChildVerifier(Settings(public_url="", max_content_bytes=_ANY_BYTES))
    scanned = found = 0
    with database_of(chosen) as database:
        reports = rescan(
            store_of(chosen), SqlIndex(database), lambda path: asyncio.run(verifier.secrets(path))
        )
        for report in reports:
            scanned += 1
            if not report.findings:
                continue
            found += 1
            # What cannot be read may be read tomorrow; only a secret hides a submission.
            hides = report.has_secrets and not chosen.report_only
            if hides:
                SqlModeration(database).decide(
                    "quarantine",
                    report.bundle_sha256,
                    actor=operator_name(),
                    reason=_REASON,
                    at=SystemClock().now(),
                )
            _tell(report, "quarantined" if hides else "found")
    sys.stderr.write(f"k3-registry: {scanned} archives were scanned, {found} have findings.\n")
    return ExitCode.DAMAGE if found else ExitCode.CLEAN


def _tell(report: RescanReport, word: str) -> None:
    for finding in report.findings:
        # The place comes from a bundle, and a terminal would obey what it holds.
        where = ascii(finding.where)[1:-1]
        sys.stdout.write(f"{word} {report.bundle_sha256} {where}: {finding.why}\n")
