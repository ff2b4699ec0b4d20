"""Loads what a report is about: a sealed bundle that verifies, or the folder of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from k3bundle.bundle import RunRecords, parse_records
from k3bundle.canonical import canonical_json
from k3bundle.derive import derive
from k3bundle.errors import BundleError
from k3bundle.layout import (
    BOOTS,
    BUNDLE_SUFFIX,
    OPTIONAL_FILES,
    PLAN,
    REQUIRED_FILES,
    SCRUB_REPORT,
    VERDICT,
)
from k3bundle.policy import Policy
from k3bundle.scrub import ScrubReport
from k3bundle.seal import bundle_sha256
from k3bundle.verdict import Verdict
from k3bundle.verify import verify
from k3runner.bundle_file import read_bundle
from k3runner.errors import RefusedError, UsageError
from k3runner.report.view import SealView
from k3runner.run_folder import BUNDLE_FOLDER
from k3runner.wording import plural

__all__ = ["ReportedRun", "load_run"]


@dataclass(frozen=True)
class ReportedRun:
    """What a report is made from."""

    records: RunRecords
    """What the run recorded."""
    verdict: Verdict
    """Derived from these records, whatever the bundle says."""
    seal: SealView | None
    """What is known about the sealed bundle; None for an unsealed run folder."""


def load_run(source: Path) -> ReportedRun:
    """Return what a bundle or a run folder holds.

    A folder that holds a sealed bundle is shown through it; one that does not is shown as far as
    it went, and says that it is unsealed.

    Raises:
        UsageError: There is neither at this path.
        RefusedError: The bundle has findings; the error carries them.
        BundleError: The archive or the folder's files cannot be read.
    """
    if source.is_dir():
        return _in_folder(source)
    return _bundled(source, read_bundle(source))


def _bundled(path: Path, files: Mapping[str, bytes]) -> ReportedRun:
    report = verify(files, Policy())
    if report.findings or report.manifest is None:
        raise RefusedError(
            f"{path} is refused with {plural(len(report.findings), 'finding')}, "
            "so no report is made of it.",
            "Take the bundle as the runner wrote it.",
            report.findings,
        )
    records = parse_records(files)
    seal = SealView(
        bundle_sha256=bundle_sha256(files),
        signer=report.signer_fingerprint,
        sealed_at_utc=report.manifest.sealed_at_utc,
        file_name=path.name,
    )
    return ReportedRun(records, derive(records), seal)


def _in_folder(folder: Path) -> ReportedRun:
    sealed = sorted((folder / BUNDLE_FOLDER).glob(f"*{BUNDLE_SUFFIX}"))
    if sealed:
        return _bundled(sealed[0], read_bundle(sealed[0]))
    if not (folder / PLAN).is_file() or not (folder / BOOTS).is_file():
        raise UsageError(
            f"{folder} is not a run folder: it lacks {PLAN} or {BOOTS}.",
            f"Give the run_folder that `k3-eval run` printed, or a {BUNDLE_SUFFIX} file.",
        )
    try:
        records = parse_records(_unsealed_files(folder))
    except BundleError as error:
        raise RefusedError(
            f"The run in {folder} cannot be read.",
            f"If it was interrupted early, start it again; else `k3-eval resume {folder}`.",
            error.findings,
        ) from error
    return ReportedRun(records, derive(records), None)


def _unsealed_files(folder: Path) -> dict[str, bytes]:
    """Files of a run that may still go on: a half-written last line is left out, not judged."""
    files = {SCRUB_REPORT: canonical_json(ScrubReport(rules=()))}
    for name in (*REQUIRED_FILES, *OPTIONAL_FILES):
        path = folder / name
        if name in (VERDICT, SCRUB_REPORT):
            continue
        if name.endswith(".jsonl"):
            content = path.read_bytes() if path.is_file() else b""
            files[name] = content[: content.rfind(b"\n") + 1]
        elif path.is_file():
            files[name] = path.read_bytes()
    return files
