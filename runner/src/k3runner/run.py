"""Runs a plan and seals the evidence; the one entry of everything that measures."""

import asyncio
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from k3bundle import layout
from k3bundle.canonical import canonical_json, plan_sha256, sha256_hex
from k3bundle.environment import NodeFacts
from k3bundle.isolation_record import IsolationAudit
from k3bundle.plan import Plan
from k3bundle.run import AttemptRecord, RunIdentity
from k3bundle.sign import Signer
from k3bundle.subject import ChangeUnderTest, SubjectFacts
from k3bundle.verdict import Verdict
from k3runner.boot_run import run_existing_server, run_slot
from k3runner.early_scrub import EarlyScrub
from k3runner.effective_config import flatten_config
from k3runner.engine_probe import EngineProbe, EngineSilentError
from k3runner.errors import EngineError, MachineError, UsageError
from k3runner.events import BundleSealed, Event, Remark, RunFinished, RunStarted
from k3runner.image import AssertedImage
from k3runner.image_tree import is_in_image
from k3runner.journal import Journal, mend, read_lines
from k3runner.kernel_run import run_package
from k3runner.leftovers import left_sentences, refuse_files_of_others
from k3runner.local_config import dump_local_config, load_local_config
from k3runner.nonce import choose_nonce
from k3runner.plan import build_plan
from k3runner.readiness import warnings_of_accelerators
from k3runner.run_context import RunContext, utc_now
from k3runner.run_folder import BUNDLE_FOLDER, LOCAL_CONFIG, create_run_folder, hold, write_once
from k3runner.run_ledger import RunLedger
from k3runner.run_state import RunState, state_of
from k3runner.run_watch import RunWatch
from k3runner.sealing import local_identities, prepare_signer, seal_run
from k3runner.settings import RunConfig
from k3runner.subject_facts import Facts, read_facts, refuse_changed
from k3runner.tiers.own_files import read_prompts
from k3runner.vocabulary import EXTERNAL_VOCABULARY, read_vocabulary

__all__ = ["ConfigOverrides", "RunResult", "resume", "run"]

_NO_HANDSHAKE = "Start it, or correct the URL."


@dataclass(frozen=True)
class RunResult:
    """What a finished run leaves."""

    run_folder: Path
    """Folder with the journal, logs and the bundle."""
    bundle_path: Path
    """The sealed bundle."""
    bundle_sha256: str
    """Digest of the bundle: SHA-256 of its manifest."""
    verdict: Verdict
    """The derived verdict."""


@dataclass(frozen=True)
class ConfigOverrides:
    """What `resume` may change; None keeps what the first attempt used."""

    engine_python: Path | None = None
    """Another path of the same engine environment."""
    model_folder: Path | None = None
    """Another path of the same model."""
    key_path: Path | None = None
    """Another signing key."""
    engine_url: str | None = None
    """Another address of the same existing server."""
    agent_socket: Path | None = None
    """Socket of the user's ssh-agent now."""
    image: AssertedImage | None = None
    """What the launcher says of the image now; None: what it said at first."""


def run(
    config: RunConfig,
    change: ChangeUnderTest,
    emit: Callable[[Event], None],
    *,
    isolation: IsolationAudit | None = None,
) -> RunResult:
    """Runs the plan of `config` from the start and seals a bundle.

    Args:
        config: Fully resolved configuration.
        change: What the evidence is for.
        emit: Called with every event, in order, from the calling thread.
        isolation: Audit of the change, for the bundle; None: the bundle has none.

    Raises:
        EngineError: The engine could not be started; the run folder can be resumed.
        MachineError: The machine lacks something.
        RegistryError: The registry that was asked for a nonce did not give one.
        KeyboardInterrupt: Stopped; no engine is left running and the run folder can be resumed.
    """
    signer = _signer(config, emit)
    facts = _facts(config, change, emit)
    plan = _planned(config, facts.node)
    nonce = choose_nonce(config.registry_url, change, plan_sha256(plan), signer)
    identity = RunIdentity(
        run_id=secrets.token_hex(16),
        nonce=nonce.value,
        nonce_source=nonce.source,
        plan_sha256=plan_sha256(plan),
        created_at_utc=utc_now(),
    )
    folder = create_run_folder(config.runs_folder, identity.created_at_utc, identity.run_id)
    scrub = EarlyScrub(folder, local_identities(_places(config, folder)))
    with hold(folder):
        for name, record in (
            (layout.RUN, identity),
            (layout.PLAN, plan),
            (layout.SUBJECT, facts.subject),
            (layout.ENVIRONMENT, facts.node),
            (layout.EARLIER, RunLedger(config.state_folder).start(identity, change)),
            *(() if isolation is None else ((layout.ISOLATION, isolation),)),
        ):
            write_once(folder / name, canonical_json(scrub.record(name, record)))
        write_once(folder / LOCAL_CONFIG, dump_local_config(config))
        start = _Start(
            *(folder, scrub, plan, identity, facts, facts.subject, RunState()),
            attempt=0,
            torn_lines=0,
        )
        return _execute(config, start, signer, emit)


def resume(
    run_folder: Path, overrides: ConfigOverrides, emit: Callable[[Event], None]
) -> RunResult:
    """Finishes an interrupted run: keeps finished cells, boots only what is missing.

    Args:
        run_folder: Folder of the interrupted run.
        overrides: Places that have moved.
        emit: As in `run`.

    Raises:
        UsageError: The folder is not a run, or is already sealed.
        MachineError: Plan, model, image or engine packages differ from the first attempt's,
            another runner holds the folder, or files in it belong to another user.
        EngineError: As in `run`.
        KeyboardInterrupt: As in `run`.
    """
    # Looked at first: a folder that is no run may hold very many files.
    if (run_folder / LOCAL_CONFIG).exists():
        refuse_files_of_others(run_folder)
    config = _overridden(load_local_config(run_folder), overrides)
    with hold(run_folder):
        if any((run_folder / BUNDLE_FOLDER).glob(f"*{layout.BUNDLE_SUFFIX}")):
            raise UsageError(
                f"{run_folder} is finished and sealed; there is nothing to resume.",
                "Its bundle is in the folder `bundle`.",
            )
        signer = _signer(config, emit)
        identity, plan, facts = _recorded(run_folder)
        found = _facts(config, facts.subject.change, emit)
        _refuse_changed_plan(plan, _planned(config, found.node))
        refuse_changed(facts, found)
        torn = mend(run_folder)
        scrub = EarlyScrub(run_folder, local_identities(_places(config, run_folder)))
        state = state_of(read_lines(run_folder / layout.CELLS))
        attempt = len(read_lines(run_folder / layout.ATTEMPTS))
        start = _Start(
            *(run_folder, scrub, plan, identity, facts, found.subject, state),
            attempt=attempt,
            torn_lines=torn,
        )
        return _execute(config, start, signer, emit)


def _facts(config: RunConfig, change: ChangeUnderTest, emit: Callable[[Event], None]) -> Facts:
    external = _external_model(config)
    if is_in_image():
        emit(Remark("First every file of this image is read, for the digest of its file tree."))
    return read_facts(config, change, external_model_name=external)


def _planned(config: RunConfig, node: NodeFacts) -> Plan:
    return build_plan(
        config.tier, config.subject, node, config.pairing, only=config.only_deployments
    )


@dataclass(frozen=True)
class _Start:
    """Where an attempt starts from."""

    folder: Path
    scrub: EarlyScrub
    plan: Plan
    identity: RunIdentity
    facts: Facts
    subject: SubjectFacts
    """As this start of the runner read it."""
    state: RunState
    attempt: int
    torn_lines: int


def _execute(
    config: RunConfig, start: _Start, signer: Signer, emit: Callable[[Event], None]
) -> RunResult:
    plan, identity = start.plan, start.identity
    emit(
        RunStarted(
            run_folder=start.folder,
            plan=plan,
            plan_sha256=identity.plan_sha256,
            resumed=start.attempt > 0,
        )
    )
    for remark in (*start.facts.node.remarks, *left_sentences(config.runs_folder)):
        emit(Remark(remark))
    if config.engine_python is not None:
        for doubt in warnings_of_accelerators(config.engine_python):
            emit(Remark(doubt))
    places = _places(config, start.folder)
    with (
        Journal(start.folder, start.scrub.record) as journal,
        RunWatch(config, start.folder, nonce=identity.nonce, places=places, emit=emit) as watch,
    ):
        context = _context(config, start, journal, watch, emit)
        _journal_attempt(context, torn_lines=start.torn_lines)
        asyncio.run(_run_boots(context))
    sealed = seal_run(start.folder, identity.run_id, signer, local_identities(places))
    RunLedger(config.state_folder).sealed(identity.run_id, sealed.verdict.status)
    emit(RunFinished(verdict=sealed.verdict))
    emit(BundleSealed(bundle_path=sealed.path, bundle_sha256=sealed.sha256))
    return RunResult(
        run_folder=start.folder,
        bundle_path=sealed.path,
        bundle_sha256=sealed.sha256,
        verdict=sealed.verdict,
    )


def _context(
    config: RunConfig,
    start: _Start,
    journal: Journal,
    watch: RunWatch,
    emit: Callable[[Event], None],
) -> RunContext:
    facts = start.facts.subject
    return RunContext(
        config=config,
        plan=start.plan,
        nonce=start.identity.nonce,
        folder=start.folder,
        journal=journal,
        state=start.state,
        attempt=start.attempt,
        subject_sha256=sha256_hex(canonical_json(start.subject)),
        commit_sha=facts.change.commit_sha,
        package_version=facts.engine.version,
        model=facts.model.name,
        vocabulary=(
            read_vocabulary(config.model_folder)
            if config.model_folder is not None
            else EXTERNAL_VOCABULARY
        ),
        prompt_files=read_prompts(config.prompt_file),
        places=_places(config, start.folder),
        scrub=start.scrub,
        watch=watch,
        emit=emit,
    )


async def _run_boots(context: RunContext) -> None:
    """Runs all slots in order. An engine that dies in a cell is started once more at once.

    That start opens a new attempt: a boot is named by its slot and attempt, and the slots of an
    attempt are in order.
    """
    for slot in context.plan.boots:
        if context.plan.pairing == "package":
            await run_package(context, slot)
            continue
        if context.config.engine_url is not None:
            await run_existing_server(context, slot, context.config.engine_url)
            continue
        await run_slot(context, slot, last=False)
        if context.state.missing_cells(context.plan, slot.slot):
            context = replace(context, attempt=context.attempt + 1)
            _journal_attempt(context, torn_lines=0)
            context.emit(
                Remark(
                    f"Boot {slot.slot} is started once more, as attempt {context.attempt}, for the "
                    "cells it did not finish."
                )
            )
            await run_slot(context, slot, last=True)


def _journal_attempt(context: RunContext, *, torn_lines: int) -> None:
    context.journal.attempt(
        AttemptRecord(
            attempt=context.attempt,
            started_at_utc=utc_now(),
            resumed=context.attempt > 0,
            torn_lines_dropped=torn_lines,
            subject_sha256=context.subject_sha256,
        )
    )


def _signer(config: RunConfig, emit: Callable[[Event], None]) -> Signer:
    """The signing key, checked before the first boot and not after the last."""
    signer, made = prepare_signer(config.key_path, config.agent_socket)
    if made:
        emit(Remark(f"A signing key was made: {config.key_path}."))
    return signer


def _external_model(config: RunConfig) -> str | None:
    """Name of the model that an existing server serves; None when engines are booted."""
    url = config.engine_url
    if url is None:
        return None

    async def ask() -> tuple[str, ...]:
        async with EngineProbe(url, config.limits.probe_s) as probe:
            return await probe.served_models()

    try:
        models = asyncio.run(ask())
    except EngineSilentError as error:
        raise EngineError(f"Nothing answers at {url}.", _NO_HANDSHAKE) from error
    if not models:
        raise EngineError(f"The server at {url} names no model in /v1/models.", _NO_HANDSHAKE)
    return models[0]


def _overridden(config: RunConfig, overrides: ConfigOverrides) -> RunConfig:
    return replace(
        config,
        engine_python=overrides.engine_python or config.engine_python,
        model_folder=overrides.model_folder or config.model_folder,
        key_path=overrides.key_path or config.key_path,
        engine_url=overrides.engine_url or config.engine_url,
        agent_socket=overrides.agent_socket,
        image=config.image if overrides.image is None else overrides.image,
    )


def _recorded(folder: Path) -> tuple[RunIdentity, Plan, Facts]:
    return (
        RunIdentity.model_validate_json((folder / layout.RUN).read_bytes()),
        Plan.model_validate_json((folder / layout.PLAN).read_bytes()),
        Facts(
            subject=SubjectFacts.model_validate_json((folder / layout.SUBJECT).read_bytes()),
            node=NodeFacts.model_validate_json((folder / layout.ENVIRONMENT).read_bytes()),
        ),
    )


def _refuse_changed_plan(recorded: Plan, found: Plan) -> None:
    if plan_sha256(recorded) == plan_sha256(found):
        return
    before, now = (flatten_config(json.loads(canonical_json(one)), ()) for one in (recorded, found))
    key = next(key for key in sorted(before | now) if before.get(key) != now.get(key))
    raise MachineError(
        f"The plan is not the one this run began with: {key} was {before.get(key, 'absent')} "
        f"and is {now.get(key, 'absent')}.",
        "Use the tier and subject of the first attempt, or start a new run.",
    )


def _places(config: RunConfig, folder: Path) -> dict[str, str]:
    """Paths of this machine and what records call them."""
    places = {str(folder): "<run>"}
    if config.model_folder is not None:
        places[str(config.model_folder)] = "<model>"
    if config.engine_python is not None:
        places[str(config.engine_python)] = "<engine-python>"
        places[str(config.engine_python.parent.parent)] = "<engine>"
    return places
