"""What a launch asks for when it has several ways to go."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

import torch

from k3decode.tuning.table import TunedRow, TuningTableError, kept_rows

__all__ = ["Asked", "Question", "choose", "forced", "tuned_choices"]

_LOG = logging.getLogger(__name__)
_Way = TypeVar("_Way")


@dataclass(frozen=True)
class Question:
    """A launch that has a choice."""

    op: str
    shape: str
    """What it is asked for, but for its rows."""
    rows: int


@dataclass
class Asked:
    """What launches asked inside `forced`."""

    op: str
    choice: str | None
    answers: dict[Question, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    """Candidates and the rule's one, of each question."""


_forced: ContextVar[Asked | None] = ContextVar("forced", default=None)


def choose(
    question: Question, candidates: Mapping[str, _Way], rule: str, device: torch.device
) -> _Way:
    """Choose a way: the one measured on this GPU, else the rule's.

    Where a GPU has no table at all, that is said once.

    Args:
        question: the launch.
        candidates: ways it can go, by name; each gives right results.
        rule: the one that is taken without a measurement.
        device: where it runs; a CPU, where only stand-ins run, has no table.

    Raises:
        TuningTableError: the table names no candidate.
        ValueError: the rule, or what is forced, names none.
    """
    if rule not in candidates:
        raise ValueError(f"expected a rule among {', '.join(candidates)}, found '{rule}'")
    inside = _forced.get()
    if inside is not None and inside.op == question.op:
        inside.answers[question] = (tuple(candidates), rule)
        name = inside.choice or rule
        if name not in candidates:
            raise ValueError(f"expected one of {', '.join(candidates)}, found '{name}'")
        return candidates[name]
    row = _measured(question, _gpu_name(device))
    if row is None:
        return candidates[rule]
    if row.choice in candidates:
        return candidates[row.choice]
    if row.rows > question.rows:
        # More rows have other candidates.
        return candidates[rule]
    raise TuningTableError(
        f"{question.op} {question.shape}, {question.rows} rows: expected one of "
        f"{', '.join(candidates)}, found '{row.choice}' in the table of {row.gpu}: measure again "
        "with k3decode.tune"
    )


@contextmanager
def forced(op: str, choice: str | None = None) -> Iterator[Asked]:
    """Let all launches of an op go one way, or by its rule, and note what they ask.

    Args:
        op: whose launches.
        choice: candidate, which each launch must have; None for the rule's.
    """
    asked = Asked(op, choice)
    token = _forced.set(asked)
    try:
        yield asked
    finally:
        _forced.reset(token)


def tuned_choices(question: Question) -> set[str]:
    """What the tables of all GPUs choose, so that it can be compiled ahead of time."""
    gpus = {row.gpu for row in kept_rows()}
    found = (_row_for(question, _rows_of(gpu)) for gpu in gpus)
    return {row.choice for row in found if row is not None}


def _row_for(question: Question, rows: Iterable[TunedRow]) -> TunedRow | None:
    """The row of fewest rows that are enough, and fewer than twice as many."""
    fitting = [
        row
        for row in rows
        if (row.op, row.shape) == (question.op, question.shape)
        and question.rows <= row.rows < 2 * question.rows
    ]
    return min(fitting, key=lambda row: row.rows, default=None)


@cache
def _rows_of(gpu: str) -> tuple[TunedRow, ...]:
    return tuple(row for row in kept_rows() if row.gpu == gpu)


@cache
def _measured(question: Question, gpu: str | None) -> TunedRow | None:
    """Row of the GPU's table; None where it has none."""
    if gpu is None:
        return None
    rows = _rows_of(gpu)
    if not rows:
        _say_that_it_is_a_default(gpu)
    return _row_for(question, rows)


@cache
def _say_that_it_is_a_default(gpu: str) -> None:
    _LOG.warning(
        "k3decode: expected a tuning table for %s, found none: launches choose by rules that were "
        "made for an NVIDIA H200; measure with python -m k3decode.tune",
        gpu,
    )


@cache
def _gpu_name(device: torch.device) -> str | None:
    if device.type != "cuda":
        return None
    name: str = torch.cuda.get_device_name(device)
    return name
