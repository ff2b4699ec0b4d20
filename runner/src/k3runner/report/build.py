"""Builds what a report shows from records and verdict. Pure; numbers are taken, never derived."""

import shlex
from typing import Final, cast

from k3bundle.bundle import RunRecords
from k3bundle.standard_gates import looser_than_standard
from k3bundle.verdict import Claim, Verdict
from k3runner.report.cell_rows import cell_rows
from k3runner.report.charts import (
    coverage_bars,
    interval_rows,
    ratio_rows,
    serving_charts,
    token_rows,
)
from k3runner.report.facts import attempt_rows, boot_rows, fact_groups
from k3runner.report.isolation import audit_view, separation_rows
from k3runner.report.kernels import kernels_view
from k3runner.report.machine import machine_view
from k3runner.report.rates import rate_charts
from k3runner.report.view import ClaimCard, HeadlineView, ReportView, SealView
from k3runner.status_mark import Status, without_status
from k3runner.wording import number_with_unit

__all__ = ["CLAIM_QUESTIONS", "build_view", "trust_of"]

CLAIM_QUESTIONS: Final = {
    "isolated": "Do the arms differ in the decode path and in nothing else?",
    "bounded": "Did the candidate serve the decode steps, with every feature kept?",
    "correct": "Do both arms produce the same tokens?",
    "faster": "Is the candidate faster, with a bound on the doubt?",
}
"""The question that each claim answers."""
_OF_PACKAGE: Final = {
    "isolated": "Was anything of referee or package altered while it ran?",
    "bounded": "Does an engine serve with these kernels, with every feature kept?",
    "correct": "Does every op agree with its reference, and read nothing too early?",
    "faster": "Is an engine faster with these kernels?",
}
"""The same for a kernel package, which no engine runs."""


def build_view(records: RunRecords, verdict: Verdict, seal: SealView | None) -> ReportView:
    """Return everything that a report of this run shows.

    Args:
        records: What the run recorded.
        verdict: Derived from these records.
        seal: What is known about the sealed bundle; None for an unsealed run folder.
    """
    change = records.subject.change
    trust, trust_sentence = trust_of(seal)
    token_cell, tokens = token_rows(records)
    return ReportView(
        repository=change.repository,
        pull_request=change.pull_request,
        commit_sha=change.commit_sha,
        tier=records.plan.tier,
        subject=records.plan.subject,
        only=records.plan.only_deployments,
        looser=looser_than_standard(records.plan),
        status=verdict.status,
        sentence=without_status(verdict.sentence, verdict.status),
        trust=trust,
        trust_sentence=trust_sentence,
        resumed=verdict.resumed,
        created_at_utc=records.run.created_at_utc,
        claims=tuple(_claim(claim, records.plan.pairing) for claim in verdict.claims),
        headline=tuple(
            HeadlineView(number_with_unit(n.name, n.value), n.label, n.cell_id)
            for n in verdict.headline
        ),
        cells=cell_rows(records.plan, verdict),
        charts=serving_charts(verdict),
        intervals=interval_rows(records.plan, verdict),
        ratios=ratio_rows(records.plan, verdict),
        rates=rate_charts(records.plan, verdict),
        coverage=coverage_bars(records.plan, verdict),
        minimum_coverage=records.plan.gates.minimum_decode_coverage,
        token_cell=token_cell,
        tokens=tokens,
        audit=audit_view(records.isolation),
        separation=separation_rows(records),
        machine=machine_view(records, verdict),
        kernels=kernels_view(verdict),
        boots=boot_rows(records),
        attempts=attempt_rows(records),
        facts=fact_groups(records),
        packages=tuple(sorted(records.subject.engine.packages.items())),
        limits=verdict.limits,
        seal=seal,
        plan_sha256=records.run.plan_sha256,
        commands=_commands(records, seal),
    )


def _claim(claim: Claim, pairing: str) -> ClaimCard:
    questions = _OF_PACKAGE if pairing == "package" else CLAIM_QUESTIONS
    return ClaimCard(
        name=claim.name,
        question=questions[claim.name],
        status=cast(Status, claim.status),
        sentence=claim.sentence,
        cells=claim.cells,
    )


def trust_of(seal: SealView | None) -> tuple[str, str]:
    """How far a report is to be trusted: the label, and the sentence that explains it."""
    if seal is None:
        return (
            "unsealed",
            "Read from a run folder that is not sealed: nothing is signed or scrubbed, and anyone "
            "could have edited it.",
        )
    signed = f" and signed by {seal.signer}" if seal.signer else ", without a signature"
    return (
        "self-reported",
        f"Measured on the contributor's machine{signed}. Every number was derived again from the "
        "raw records for this report; that the records are true is the signer's word.",
    )


def _commands(records: RunRecords, seal: SealView | None) -> tuple[tuple[str, str], ...]:
    change = records.subject.change
    about = (
        f"--repository {change.repository} --pull-request {change.pull_request} "
        f"--commit {change.commit_sha}"
    )
    served = records.plan.pairing == "single"
    what = "--engine-url URL" if served else f"--subject {shlex.quote(records.subject.subject)}"
    only = "".join(f" --deployment {name}" for name in records.plan.only_deployments)
    plan_flags = f"--tier {records.plan.tier} {what}{only}"
    commands = [
        ("Measure it again", f"k3-eval run {plan_flags} {about}"),
        (
            f"See that the plan is the same ({records.run.plan_sha256[:12]})",
            f"k3-eval plan {plan_flags}",
        ),
    ]
    if seal is not None:
        signer = f" --signer {seal.signer}" if seal.signer else ""
        verify = f"k3-eval verify {shlex.quote(seal.file_name)} {about}{signer}"
        commands.insert(0, ("Check this bundle", verify))
    return tuple(commands)
