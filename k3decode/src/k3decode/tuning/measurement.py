"""Times of all candidates of one launch, in turns on one GPU, and the line that keeps them."""

import hashlib
import json
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from k3decode.layer_bench.ratio import ratio_of_rounds
from k3decode.op import Case, Op, Trial
from k3decode.replay_times import event_time_us
from k3decode.tuning.choice import Asked, Question, forced
from k3decode.turns import Turns

__all__ = ["SCHEMA", "compared", "measure_case", "measurement_id", "take_turns"]

SCHEMA = "k3decode.tune/1"
# Copies of a launch's tensors together, so that inputs come from memory.
_ROTATED_BYTES = 240_000_000
_MOST_COPIES = 24
_WARM_UP = 3
_RANKS = re.compile(r"(?:^|_)tp(\d+)(?=_)")


def measure_case(  # noqa: PLR0917
    op: Op, case: Case, device: torch.device, turns: Turns, rounds: int, replays: int
) -> dict[str, Any] | None:
    """Compare all candidates of the choice that a case's launch has.

    A candidate whose results are not right is refused, and not timed.

    Returns:
        What a line says of it, without circumstances and id; None where there is nothing to choose.
    """
    with turns.together():
        asked = _asked(op, case, device)
        question = next(iter(asked.answers), None)
        if question is None or len(asked.answers[question][0]) < 2:  # noqa: PLR2004
            return None
        names, rule = asked.answers[question]
        refused, graphs = {}, {}
        copies = 0
        for name in names:
            with forced(op.name, name):
                first = case.prepare(op.launch, device)
                if (problem := _problem(first, device)) is not None:
                    refused[name] = problem
                    continue
                copies = min(_MOST_COPIES, max(2, -(-_ROTATED_BYTES // first.cost.bytes)))
                trials = [case.prepare(op.launch, device) for _ in range(copies)]
                graphs[name] = _captured(trials)
    if rule in refused:
        return {**_head(op, case, question, rule), "refused": refused, "candidates": {}}
    with turns.alone():
        times = take_turns(graphs, rounds=rounds, replays=replays)
    each = {name: [time / copies for time in found] for name, found in times.items()}
    return {
        **_head(op, case, question, rule),
        "copies": copies,
        "rounds": rounds,
        "replays": replays,
        "refused": refused,
        "candidates": compared(each, rule),
    }


def _asked(op: Op, case: Case, device: torch.device) -> Asked:
    with forced(op.name) as asked:
        case.prepare(op.launch, device).run()
    if len(asked.answers) > 1:
        shapes = ", ".join(question.shape for question in asked.answers)
        raise ValueError(f"{op.name} {case.name}: expected one choice in a case, found {shapes}")
    return asked


def _head(op: Op, case: Case, question: Question, rule: str) -> dict[str, Any]:
    return {
        "op": op.name,
        "case": case.name,
        "shape": question.shape,
        "rows": question.rows,
        "ranks": [int(ranks) for ranks in _RANKS.findall(case.name)],
        "rule": rule,
    }


def _problem(trial: Trial, device: torch.device) -> str | None:
    """What is wrong with a candidate's results, or that it does not run."""
    try:
        trial.run()
        torch.cuda.synchronize(device)
    # Whatever it raises, the other candidates are measured.
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:400]
    bad = [f"{one.output}: {one.sentence}" for one in trial.judge() if not one.passed]
    return "; ".join(bad)[:400] or None


def _captured(trials: Sequence[Trial]) -> Callable[[], None]:
    trials[0].run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for trial in trials:
            trial.run()

    # Its tensors must live as long as the graph.
    def replay(kept: tuple[Any, Sequence[Trial]] = (graph, trials)) -> None:
        kept[0].replay()

    return replay


def take_turns(
    replay_of: Mapping[str, Callable[[], None]],
    *,
    rounds: int,
    replays: int,
    time_us: Callable[[Callable[[], None]], float] = event_time_us,
) -> dict[str, list[float]]:
    """Median microseconds of each in each round; in every other round the order is turned around.

    Args:
        replay_of: replays of a graph, by name.
        rounds: turns of each.
        replays: timed in a turn, after some that are not.
        time_us: microseconds of one replay.
    """
    found: dict[str, list[float]] = {name: [] for name in replay_of}
    for turn in range(rounds):
        order = list(replay_of.items())
        for name, replay in order if turn % 2 == 0 else order[::-1]:
            for _ in range(_WARM_UP):
                replay()
            found[name].append(statistics.median(time_us(replay) for _ in range(replays)))
    return found


def compared(times: Mapping[str, Sequence[float]], rule: str) -> dict[str, dict[str, float]]:
    """Each candidate's median, and how much faster than the rule's it is, with its interval."""
    found = {}
    for name, each in times.items():
        ratio = ratio_of_rounds(times[rule], each)
        numbers = (statistics.median(each), ratio.mean, ratio.low, ratio.high)
        words = ("us", "ratio", "ratio_low", "ratio_high")
        found[name] = {word: round(n, 4) for word, n in zip(words, numbers, strict=True)}
    return found


def measurement_id(record: Mapping[str, Any]) -> str:
    """Name of a line by what it says, its id aside."""
    said = {name: value for name, value in record.items() if name != "id"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]
