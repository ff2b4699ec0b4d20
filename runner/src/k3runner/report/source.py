"""Loads what a report is about: a sealed bundle that verifies, or the folder of a run."""

from collections.abc import Mapping
from pathlib import Path

from k3bundle.bundle import parse_records
from k3bundle.derive import derive
from k3bundle.errors import BundleError
from k3bundle.layout import BOOTS, BUNDLE_SUFFIX, PLAN, REQUIRED_FILES, VERDICT
from k3bundle.policy import Policy
from k3bundle.seal import bundle_sha256
from k3bundle.verify import verify
from k3runner.bundle_file import read_bundle
from k3runner.errors import RefusedError, UsageError
from k3runner.report.build import build_view
from k3runner.report.view import ReportView, SealView
from k3runner.wording import plural

__all__ = ["load_view"]


def load_view(source: Path) -> ReportView:
    """Return the view of a bundle or of a run folder.

    Raises:
        UsageError: There is neither at this path.
        RefusedError: The bundle has findings; the error carries them.
        BundleError: The archive or the folder's files cannot be read.
    """
    if source.is_dir():
        return _folder_view(source)
    return _bundle_view(source, read_bundle(source))


def _bundle_view(path: Path, files: Mapping[str, bytes]) -> ReportView:
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
    return build_view(records, derive(records), seal)


def _folder_view(folder: Path) -> ReportView:
    if not (folder / PLAN).is_file() or not (folder / BOOTS).is_file():
        raise UsageError(
            f"{folder} is not a run folder: it lacks {PLAN} or {BOOTS}.",
            f"Give the run_folder that `k3-eval run` printed, or a {BUNDLE_SUFFIX} file.",
        )
    wanted = [name for name in REQUIRED_FILES if name != VERDICT]
    files = {name: (folder / name).read_bytes() for name in wanted if (folder / name).is_file()}
    try:
        records = parse_records(files)
    except BundleError as error:
        raise RefusedError(
            f"The run in {folder} is not whole yet.",
            f"Finish it with `k3-eval resume {folder}`.",
            error.findings,
        ) from error
    return build_view(records, derive(records), None)
