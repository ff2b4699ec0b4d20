"""Facts around a run, as labelled text. Pure."""

from collections import Counter

from k3bundle.bundle import RunRecords
from k3bundle.derive.earlier_runs import run_number
from k3bundle.run import BootReady, BootStarted, BootStopped
from k3bundle.subject import EngineBuild
from k3runner.report.view import FactGroup
from k3runner.wording import bytes_text, count_text, plural, seconds

__all__ = ["attempt_rows", "boot_rows", "fact_groups"]

_MS_PER_S = 1000


def fact_groups(records: RunRecords) -> tuple[FactGroup, ...]:
    """Return what ran, on what, and how: engine, model, machine, image, run."""
    return (
        FactGroup("Engine build", _engine(records.subject.engine)),
        FactGroup("Model", _model(records)),
        FactGroup("Machine", _machine(records)),
        FactGroup("Image and run", _run(records)),
    )


def boot_rows(records: RunRecords) -> tuple[tuple[str, ...], ...]:
    """Return one row per started boot: boot, arm, backend, attempt, ready after, how it ended."""
    backends = {arm.name: arm.decode_backend for arm in records.plan.arms}
    ready = {e.boot_id: e for e in records.boots if isinstance(e, BootReady)}
    stopped = {e.boot_id: e for e in records.boots if isinstance(e, BootStopped)}
    rows = []
    for boot in records.boots:
        if not isinstance(boot, BootStarted):
            continue
        up, end = ready.get(boot.boot_id), stopped.get(boot.boot_id)
        rows.append(
            (
                str(boot.slot),
                boot.arm,
                backends.get(boot.arm, "unknown"),
                str(boot.attempt),
                seconds(up.ready_after_ms / _MS_PER_S) if up else "never",
                _end(end),
            )
        )
    return tuple(rows)


def attempt_rows(records: RunRecords) -> tuple[tuple[str, ...], ...]:
    """Return one row per attempt: number, start, kind, torn lines dropped."""
    return tuple(
        (
            str(attempt.attempt),
            attempt.started_at_utc,
            "resumed" if attempt.resumed else "first start",
            count_text(attempt.torn_lines_dropped),
        )
        for attempt in records.attempts
    )


def _end(end: BootStopped | None) -> str:
    if end is None:
        return "no end recorded: the runner was stopped first"
    words = {"clean": "stopped", "killed": "killed", "crashed": "crashed"}
    how = words.get(end.how, "never ready")
    return how if end.how == "clean" or not end.detail else f"{how}: {end.detail}"


def _engine(engine: EngineBuild) -> tuple[tuple[str, str], ...]:
    changed = ", ".join(f"{d.path} ({d.kind})" for d in engine.differences)
    checked = f"{plural(engine.files_checked, 'file')} compared with their record: "
    return (
        ("Engine", f"{engine.name} {engine.version}"),
        ("Distribution", engine.distribution),
        ("Python", engine.python_version),
        ("Packages", plural(len(engine.packages), "package")),
        ("Files", checked + (changed or "none differs")),
    )


def _model(records: RunRecords) -> tuple[tuple[str, str], ...]:
    model = records.subject.model
    size = bytes_text(sum(file.size_bytes for file in model.files))
    files = f"{plural(len(model.files), 'file')}, {size}" if model.files else "not known"
    return (
        ("Name", model.name),
        ("Revision", model.revision),
        ("Weights", "random: accuracy means nothing" if model.random_weights else "as released"),
        ("Files", files),
    )


def _machine(records: RunRecords) -> tuple[tuple[str, str], ...]:
    node = records.environment
    names = Counter(gpu.name for gpu in node.gpus)
    gpus = ", ".join(f"{count} x {name}" for name, count in names.items()) or "none"
    facts = [
        ("CPU", f"{node.cpu_model}, {plural(node.cpu_count, 'CPU')} usable"),
        ("Memory", bytes_text(node.memory_bytes)),
        ("GPU", gpus),
        ("System", f"{node.operating_system}, kernel {node.kernel}, {node.architecture}"),
        ("Referee", f"k3-eval {node.runner_version} on Python {node.runner_python_version}"),
    ]
    if node.driver_version is not None:
        facts.insert(3, ("GPU driver", node.driver_version))
    if node.node_count > 1:
        facts.insert(0, ("Machines", f"{count_text(node.node_count)} alike, each with:"))
    return (*facts, *(("Remark", remark) for remark in node.remarks))


def _earlier(records: RunRecords) -> str:
    """How often the plan was started before, as far as the referee's machine remembers."""
    number = run_number(records)
    if number is None or records.earlier is None:
        return "not known"
    if number == 1:
        return "not here: the first run of this plan for this commit"
    verdicts = [run.verdict or "never sealed" for run in records.earlier.runs]
    return f"{plural(number - 1, 'run')} here: {', '.join(verdicts[-10:])}"


def _scrubbed(records: RunRecords) -> str:
    if not records.scrub.rules:
        return "not yet: the run is not sealed"
    replaced = sum(rule.replaced for rule in records.scrub.rules)
    return f"{plural(replaced, 'secret or identity', 'secrets or identities')} replaced"


def _run(records: RunRecords) -> tuple[tuple[str, str], ...]:
    image, run = records.subject.image, records.run
    source = "issued by a registry" if run.nonce_source == "registry" else "chosen locally"
    return (
        ("Image digest", image.manifest_digest or "not asserted"),
        ("Image made for", image.architecture or "not asserted"),
        ("Image tree", image.tree_sha256 or "not in an image"),
        ("Run", run.run_id),
        ("Nonce", f"{run.nonce}, {source}"),
        ("Plan", run.plan_sha256),
        ("Tried before", _earlier(records)),
        ("Scrubbed", _scrubbed(records)),
    )
