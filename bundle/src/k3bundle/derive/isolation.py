"""Whether the arms differ only in what the plan declares.

Three facts decide: no file of referee, engine or model changed while an engine ran, the installed
engine files are those of the wheel's RECORD, and the effective configuration that the running
servers report differs, within each pair of boots, only in keys that the plan allows. Arguments on a
command line are not enough: an engine may ignore them. An audit of the change is told beside it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product
from typing import Literal

from k3bundle.bundle import RunRecords
from k3bundle.derive.claim_parts import SAME_ARMS
from k3bundle.derive.plan_shape import Pair, arms_alike, pairs, plan_problem
from k3bundle.derive.selection import Selection
from k3bundle.derive.sentences import counted, listed, quote
from k3bundle.isolation_record import outside_files
from k3bundle.run import BootReady

__all__ = ["Isolation", "judge_isolation"]


@dataclass(frozen=True)
class Isolation:
    """The finding behind the claim `isolated`."""

    status: Literal["PASS", "FAIL", "INVALID", "NOT_CLAIMED"]
    sentence: str
    for_want_of_boots: bool = False
    """True when the only trouble is that boots of the plan have not been run."""


def judge_isolation(records: RunRecords, selection: Selection) -> Isolation:
    """Judge whether the arms differ only in what the plan declares."""
    problem = plan_problem(records.plan)
    if problem is not None:
        return Isolation("INVALID", problem)
    altered = _alteration(records)
    if altered is not None:
        return Isolation("FAIL", altered)
    engine = records.subject.engine
    if engine.differences:
        files = listed([f"{d.path} ({d.kind})" for d in engine.differences])
        whose = "package" if records.plan.pairing == "package" else "engine"
        found = counted(len(engine.differences), f"{whose} file differs", f"{whose} files differ")
        return Isolation("FAIL", f"{found} from the RECORD of the installed wheel: {files}.")
    if records.plan.pairing != "paired":
        return Isolation("NOT_CLAIMED", _one_arm(records))
    if engine.files_checked == 0:
        return Isolation("INVALID", "No engine file was compared with the RECORD of its wheel.")
    return _judge_configurations(records, selection)


def _one_arm(records: RunRecords) -> str:
    """Why there is nothing to compare."""
    if records.plan.pairing == "single":
        return "One server was measured; there is no arm to compare with."
    return f"No engine ran, so there are no arms to compare.{_separation_words(records)}"


def _alteration(records: RunRecords) -> str | None:
    """Which protected files changed while an engine ran; None when none did."""
    for record in records.separation:
        if record.alterations:
            files = listed([f"{quote(one.path)} ({one.kind})" for one in record.alterations])
            count = len(record.alterations) + record.alterations_left_out
            found = counted(count, "protected file was", "protected files were")
            return f"{found} altered while {record.boot_id} ran: {files}."
    return None


def _judge_configurations(records: RunRecords, selection: Selection) -> Isolation:
    ready: dict[str, list[BootReady]] = {}
    for event in records.boots:
        if event.event == "ready":
            ready.setdefault(event.boot_id, []).append(event)
    missing = [slot.slot for slot in selection.slots if not selection.boot_ids(slot.slot)]
    silent = _silent_boot(selection, ready)
    allowed: set[str] = set()
    for left, right in _compared(pairs(records.plan), selection, ready):
        where = f"between {left.boot_id} and {right.boot_id}"
        if left.engine_version != right.engine_version:
            versions = f"{quote(left.engine_version)} and {quote(right.engine_version)}"
            return Isolation("FAIL", f"The engine version differs {where}: {versions}.")
        keys = _differing(left.effective_config, right.effective_config)
        excess = [key for key in keys if not _is_allowed(key, records)]
        if excess:
            found = counted(len(excess), "key", "keys")
            return Isolation(
                "FAIL",
                f"The effective configuration differs {where} in {found} that the plan does not "
                f"allow: {listed([_difference(key, left, right) for key in excess])}.",
            )
        allowed.update(keys)
    if silent is not None:
        return Isolation("INVALID", silent)
    if missing:
        boots = counted(len(missing), "boot")
        return Isolation(
            "INVALID",
            f"{boots} of {len(selection.slots)} finished no cell, so their configuration cannot "
            "be compared.",
            for_want_of_boots=True,
        )
    if arms_alike(records.plan):
        return Isolation("NOT_CLAIMED", SAME_ARMS)
    return Isolation("PASS", _pass_sentence(records, sorted(allowed)))


def _silent_boot(selection: Selection, ready: Mapping[str, list[BootReady]]) -> str | None:
    for slot in selection.slots:
        for boot_id in selection.boot_ids(slot.slot):
            events = ready.get(boot_id, [])
            if not events or any(not event.effective_config for event in events):
                return (
                    f"The effective configuration of {boot_id} is not known, so it cannot be "
                    "compared between the arms."
                )
    return None


def _compared(
    planned: tuple[Pair, ...], selection: Selection, ready: Mapping[str, list[BootReady]]
) -> Iterator[tuple[BootReady, BootReady]]:
    """Every baseline boot of a pair with every candidate boot of it that counts."""
    for pair in planned:
        sides = [
            [event for boot_id in selection.boot_ids(slot.slot) for event in ready.get(boot_id, [])]
            for slot in (pair.baseline, pair.candidate)
        ]
        for left, right in product(*sides):
            if left.effective_config and right.effective_config:
                yield left, right


def _differing(left: Mapping[str, str], right: Mapping[str, str]) -> list[str]:
    return [key for key in sorted({*left, *right}) if left.get(key) != right.get(key)]


def _is_allowed(key: str, records: RunRecords) -> bool:
    patterns = records.plan.allowed_config_differences
    return any(key == pattern or fnmatchcase(key, pattern) for pattern in patterns)


def _difference(key: str, left: BootReady, right: BootReady) -> str:
    values = [
        quote(config[key])[:60] if key in config else "absent"
        for config in (left.effective_config, right.effective_config)
    ]
    return f"{quote(key)} ({values[0]} against {values[1]})"


def _pass_sentence(records: RunRecords, allowed: list[str]) -> str:
    checked = records.subject.engine.files_checked
    differ = (
        f"differ only in {listed(allowed)}, as planned" if allowed else "have one configuration"
    )
    return (
        f"{counted(checked, 'engine file')} match the RECORD of the installed wheel, and the arms "
        f"{differ}.{_separation_words(records)}{_audit_words(records)}"
    )


def _separation_words(records: RunRecords) -> str:
    if not records.separation:
        return ""
    whose = "Its commands" if records.plan.pairing == "package" else "Engines"
    same = [record for record in records.separation if record.engine_user == "same"]
    if not same:
        return f" {whose} ran as another user than the referee, and no protected file changed."
    return (
        f" No protected file changed, but {whose.lower()} ran as the referee's own user: "
        f"{quote(same[0].why_same or 'for no reason that is recorded')}."
    )


def _audit_words(records: RunRecords) -> str:
    """What the audit of the change says; it names places and decides nothing."""
    if records.isolation is None:
        return ""
    outside = outside_files(records.isolation)
    if not outside:
        return " By its audit the change touches no code that other models use."
    areas = sorted({file.area or "named by no rule" for file in outside})
    return (
        f" By its audit the change touches {counted(len(outside), 'file')} that other models use: "
        f"{listed([quote(area) for area in areas])}."
    )
