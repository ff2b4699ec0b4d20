"""What somebody else ran, and whether a run here would be the same plan."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from k3bundle.bundle import parse_records
from k3bundle.canonical import plan_sha256
from k3bundle.layout import BUNDLE_SUFFIX
from k3bundle.plan import Plan
from k3bundle.policy import Policy
from k3bundle.seal import bundle_sha256
from k3bundle.subject import ChangeUnderTest
from k3bundle.verify import verify
from k3runner.bundle_file import read_bundle
from k3runner.errors import MachineError, RefusedError, RegistryError
from k3runner.node_facts import read_node_facts
from k3runner.plan import EXTERNAL_SUBJECT, build_plan
from k3runner.registry_client import RegistryClient
from k3runner.registry_lookup import download, read_submission
from k3runner.settings import RunConfig
from k3runner.wording import plural

__all__ = ["Original", "fetch_original", "refuse_other_plan"]

_SHORT: Final = 16


@dataclass(frozen=True)
class Original:
    """The submission that is to be repeated, as its verified bundle says."""

    path: Path
    """Its bundle's file, here."""
    plan: Plan
    """What was run."""
    change: ChangeUnderTest
    """What it is evidence for."""

    @property
    def shipped_subject(self) -> str | None:
        """Name of the subject to load; None where a server was measured that ran already."""
        return None if self.plan.subject == EXTERNAL_SUBJECT else self.plan.subject


async def fetch_original(client: RegistryClient, submission_id: str, folder: Path) -> Original:
    """Download the bundle of a submission and verify it here.

    Args:
        client: The registry.
        submission_id: Id of the submission: the digest of its bundle.
        folder: Where the bundle is kept.

    Raises:
        RefusedError: The bundle has findings.
        RegistryError: It cannot be had, or the registry sent another bundle.
        MachineError: The folder cannot be made.
    """
    submission = await read_submission(client, submission_id)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(
            f"The folder {folder} cannot be made: {error.strerror}.",
            "Give another place with --runs.",
        ) from error
    path = folder / f"original-{submission_id[:_SHORT]}{BUNDLE_SUFFIX}"
    await download(client, submission, path)
    files = read_bundle(path)
    if bundle_sha256(files) != submission_id:
        raise RegistryError(
            f"The registry at {client.registry} sent another bundle than {submission_id}.",
            "Tell the registry's operator.",
        )
    # The registry's word is not taken for it: everything is derived again here.
    report = verify(files, Policy(require_standard=True))
    if report.findings or report.manifest is None:
        raise RefusedError(
            f"The bundle of submission {submission_id[:_SHORT]} is refused with "
            f"{plural(len(report.findings), 'finding')}.",
            "Nothing was started. Tell the registry's operator.",
            report.findings,
        )
    return Original(path, parse_records(files).plan, report.manifest.change)


def refuse_other_plan(original: Original, config: RunConfig) -> None:
    """Check that a run with `config` on this machine is the same plan.

    Raises:
        MachineError: It is another one; the sentence says in what the plans differ.
    """
    plan = build_plan(
        config.tier,
        config.subject,
        read_node_facts(),
        config.pairing,
        only=config.only_deployments,
    )
    if plan_sha256(plan) == plan_sha256(original.plan):
        return
    names = [
        name.replace("_", " ")
        for name in type(plan).model_fields
        if getattr(plan, name) != getattr(original.plan, name)
    ]
    raise MachineError(
        f"A run here would be another plan: it differs in {', '.join(names)}.",
        "Use a machine like the first one, the same version of k3-eval, and the same --subject, "
        "--engine-url, --prompts and --trace.",
    )
