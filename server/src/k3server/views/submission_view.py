"""What the page of a submission shows, in the order in which it shows it. Pure."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from k3bundle.layout import BUNDLE_SUFFIX
from k3bundle.run import BootReady, BootStarted, BootStopped
from k3bundle.verdict import (
    CellCoverage,
    CellResult,
    CellSkipped,
    Evidence,
    FeatureEvidence,
    GreedyEvidence,
    RatioInterval,
    ServingEvidence,
)
from k3server.document import SubmissionDocument
from k3server.published_images import IMAGE_SENTENCES, image_standing
from k3server.submission import Submission
from k3server.views.plot import RatioPlot, StripPlot, ratio_plot, strip_plot
from k3server.views.wording import Quantity, percent_text, quantity

__all__ = [
    "BootLine",
    "CoverageCell",
    "CoverageRow",
    "Figure",
    "ServingBlock",
    "SubmissionView",
    "submission_view",
]


@dataclass(frozen=True)
class Figure:
    """One headline number."""

    quantity: Quantity
    label: str
    cell_id: str | None


@dataclass(frozen=True)
class CoverageCell:
    """Coverage of one cell in one boot."""

    coverage: CellCoverage
    share_text: str
    """Percent, or a dash when there was no decode step."""
    bar_width: float
    """Of 60."""


@dataclass(frozen=True)
class CoverageRow:
    """Coverage of one cell, a column per boot; None where the boot did not finish it."""

    cell_id: str
    boots: tuple[CoverageCell | None, ...]
    reasons: tuple[tuple[str, int], ...]
    """Fallback reasons over all boots with their steps, most frequent first."""


@dataclass(frozen=True)
class ServingBlock:
    """Measurements of one serving cell."""

    cell: CellResult
    evidence: ServingEvidence
    strips: tuple[StripPlot, ...]
    ratios: RatioPlot | None
    judged: bool
    """Whether the tier claims speed; otherwise the ratios are shown and not judged."""


@dataclass(frozen=True)
class BootLine:
    """One start of the engine."""

    started: BootStarted
    ready: BootReady | None
    stopped: BootStopped | None


@dataclass(frozen=True)
class SubmissionView:
    """Everything the template needs beside the submission itself."""

    submission: Submission
    figures: tuple[Figure, ...]
    boot_names: tuple[str, ...]
    coverage: tuple[CoverageRow, ...]
    serving: tuple[ServingBlock, ...]
    greedy: tuple[tuple[CellResult, GreedyEvidence], ...]
    features: tuple[tuple[CellResult, FeatureEvidence], ...]
    boots: tuple[BootLine, ...]
    download_name: str
    reproduce: str
    """Command line that repeats the run."""
    image: str
    """How the image stands to those that are known here, in a sentence."""


def submission_view(submission: Submission, published: Mapping[str, str]) -> SubmissionView:
    """Arrange a submission for its page.

    Args:
        submission: The submission.
        published: Manifest digest -> digest of the file tree, of images that are known here.
    """
    document = submission.document
    cells = document.verdict.cells
    pairs = [(cell, evidence) for cell in cells if (evidence := _evidence(cell)) is not None]
    change = document.manifest.change
    return SubmissionView(
        submission=submission,
        figures=tuple(
            Figure(quantity(number.name, number.value), number.label, number.cell_id)
            for number in document.verdict.headline
        ),
        boot_names=tuple(f"{boot.slot} {boot.arm}" for boot in document.plan.boots),
        coverage=tuple(row for cell in cells if (row := _coverage_row(document, cell)) is not None),
        serving=tuple(
            _serving(cell, evidence, judged=document.plan.gates.claims_speed)
            for cell, evidence in pairs
            if isinstance(evidence, ServingEvidence)
        ),
        greedy=tuple((cell, found) for cell, found in pairs if isinstance(found, GreedyEvidence)),
        features=tuple(
            (cell, found) for cell, found in pairs if isinstance(found, FeatureEvidence)
        ),
        boots=_boots(document),
        download_name=(
            f"{change.repository.replace('/', '-')}-{change.pull_request}-"
            f"{document.bundle_sha256[:16]}{BUNDLE_SUFFIX}"
        ),
        reproduce=_reproduce(document),
        image=IMAGE_SENTENCES[image_standing(document.subject.image, published)],
    )


def _evidence(cell: CellResult) -> Evidence | None:
    return None if isinstance(cell, CellSkipped) else cell.evidence


def _coverage_row(document: SubmissionDocument, cell: CellResult) -> CoverageRow | None:
    if isinstance(cell, CellSkipped) or document.plan.pairing == "package":
        return None
    by_slot = {each.slot: each for each in cell.coverage}
    steps: dict[str, int] = {}
    for each in cell.coverage:
        for reason, count in each.fallback_reasons.items():
            steps[reason] = steps.get(reason, 0) + count
    return CoverageRow(
        cell_id=cell.cell_id,
        boots=tuple(_coverage_cell(by_slot.get(boot.slot)) for boot in document.plan.boots),
        reasons=tuple(sorted(steps.items(), key=lambda item: (-item[1], item[0]))),
    )


def _coverage_cell(coverage: CellCoverage | None) -> CoverageCell | None:
    if coverage is None:
        return None
    share = coverage.share
    return CoverageCell(
        coverage=coverage,
        share_text="\N{EN DASH}" if share is None else f"{percent_text(share)} %",
        bar_width=0.0 if share is None else round(60 * share, 1),
    )


def _serving(cell: CellResult, evidence: ServingEvidence, *, judged: bool) -> ServingBlock:
    boots = evidence.boots
    strips = (
        strip_plot(boots, "output_tokens_per_s", "Throughput", "tokens/s"),
        strip_plot(boots, "ttft_ms_p50", "Time to first token, p50", "ms"),
        strip_plot(boots, "tpot_ms_p50", "Time per output token, p50", "ms"),
    )
    drawn: tuple[RatioInterval, ...] = evidence.intervals
    return ServingBlock(
        cell=cell,
        evidence=evidence,
        strips=tuple(strip for strip in strips if strip is not None),
        ratios=ratio_plot(drawn),
        judged=judged,
    )


def _boots(document: SubmissionDocument) -> tuple[BootLine, ...]:
    ready = {event.boot_id: event for event in document.boots if isinstance(event, BootReady)}
    stopped = {event.boot_id: event for event in document.boots if isinstance(event, BootStopped)}
    return tuple(
        BootLine(event, ready.get(event.boot_id), stopped.get(event.boot_id))
        for event in document.boots
        if isinstance(event, BootStarted)
    )


def _reproduce(document: SubmissionDocument) -> str:
    change = document.manifest.change
    words = [
        ("--tier", document.plan.tier),
        ("--subject", document.plan.subject),
        ("--repository", change.repository),
        ("--pull-request", str(change.pull_request)),
        ("--commit", change.commit_sha),
    ]
    words += [("--deployment", name) for name in document.plan.only_deployments]
    if document.plan.pairing == "single":
        words.append(("--engine-url", "http://127.0.0.1:8000"))
    lines = [f"  {flag} {shlex.quote(value)}" for flag, value in words]
    return " \\\n".join(["k3-eval run", *lines])
