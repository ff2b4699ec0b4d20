"""What a registry answered, as lines for a person. Pure."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from k3runner.registry_lookup import text_of, texts_of
from k3runner.status_mark import Status, mark_of, without_status

__all__ = ["comparison_lines", "submission_lines", "wanted_lines"]

_SHORT: Final = 12
_MOST_ROWS: Final = 500


def submission_lines(found: Mapping[str, Any]) -> list[str]:
    """Verdict first, then how far it can be believed, then where it is."""
    change = f"{text_of(found, 'repository')} #{text_of(found, 'pull_request')}"
    who = text_of(found, "identity")
    lines = [
        _verdict(found),
        f"change   {change} {text_of(found, 'commit_sha')}",
        f"trust    {text_of(found, 'trust')}, {f'by {who}' if who else 'by nobody known'}",
        f"nonce    {text_of(found, 'nonce')}",
    ]
    if text_of(found, "space") == "playground":
        lines.append("space    playground: it counts for nothing until somebody stands behind it")
    if text_of(found, "state") != "visible":
        lines.append(f"state    {text_of(found, 'state')}: {text_of(found, 'reason')}")
    return [*lines, f"page     {text_of(found, 'url')}"]


def comparison_lines(found: Mapping[str, Any]) -> list[str]:
    """Whether they compare, whether they agree, then the numbers side by side."""
    one, other = found["one"], found["other"]
    lines = [f"one      {_named(one)}", f"other    {_named(other)}"]
    if not found["comparable"]:
        lines.append("compare  no: a difference between their numbers would say nothing")
        return [*lines, *(f"         {why}" for why in texts_of(found, "reasons"))]
    apart = "independent" if found["independent"] else "not independent"
    said = "one reproduces the other" if found["agree"] else "one does not reproduce the other"
    lines.append(f"compare  {said}; their contributors are {apart}")
    lines += [f"         {why}" for why in texts_of(found, "disagreements")]
    lines += [
        f"cell     {text_of(row, 'cell_id')}: {text_of(row, 'one') or '-'}, "
        f"{text_of(row, 'other') or '-'}"
        for row in _rows(found, "cells")
    ]
    lines += [
        f"ratio    {text_of(row, 'cell_id')} {text_of(row, 'metric')}: "
        f"{_ratio(row.get('one'))}, {_ratio(row.get('other'))}"
        for row in _rows(found, "ratios")
    ]
    return lines


def wanted_lines(found: Mapping[str, Any]) -> list[str]:
    """What is wanted, and who brings it."""
    cell = text_of(found, "cell_id")
    change = f"{text_of(found, 'repository')} #{text_of(found, 'pull_request')}"
    lines = [
        f"wanted   {text_of(found, 'tier')} of {text_of(found, 'subject')}"
        f"{f', cell {cell}' if cell else ''}",
        f"change   {change} {text_of(found, 'commit_sha')}",
    ]
    until = text_of(found, "claimed_until_utc")
    who = f" by {text_of(found, 'claimed_by')} until {until}" if until else ""
    return [*lines, f"state    {text_of(found, 'state')}{who}"]


def _verdict(found: Mapping[str, Any]) -> str:
    status, sentence = text_of(found, "verdict"), text_of(found, "sentence")
    known = next((each for each in get_args(Status) if each == status), None)
    if known is None:
        return f"verdict  {status}: {sentence}"
    mark = mark_of(known)
    return f"verdict  {mark.glyph} {mark.word}: {without_status(sentence, known)}"


def _named(found: Mapping[str, Any]) -> str:
    digest, commit = text_of(found, "submission_id")[:_SHORT], text_of(found, "commit_sha")[:_SHORT]
    return f"{digest} {text_of(found, 'verdict')}, {text_of(found, 'trust')}, commit {commit}"


def _rows(found: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [row for row in found[name][:_MOST_ROWS] if isinstance(row, dict)]


def _ratio(found: object) -> str:
    if not isinstance(found, dict) or not isinstance(found.get("ratio"), int | float):
        return "-"
    bounds = found.get("lower"), found.get("upper")
    text = f"{found['ratio']:.3f}"
    if all(isinstance(bound, int | float) for bound in bounds):
        text += f" ({bounds[0]:.3f} to {bounds[1]:.3f})"
    return text
