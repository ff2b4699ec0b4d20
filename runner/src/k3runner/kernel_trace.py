"""Which kernels the graphs of a step hold, from a torch profiler trace of vLLM. Pure.

The trace is Chrome's format. vLLM marks each step with an annotation that says how many requests
and tokens it held; a graph is launched by one runtime call, and every kernel that it runs carries
that call's correlation id. So: annotation -> launches inside it -> kernels with their ids.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from k3bundle.graph_record import KernelProfile

__all__ = ["TraceStep", "decode_steps", "kernel_profiles"]

_PLAIN: Final = re.compile(r"^execute_context_(\d+)\((\d+)\)_generation_(\d+)\((\d+)\)$")
"""`execute_context_REQUESTS(TOKENS)_generation_REQUESTS(TOKENS)`."""
_DETAILED: Final = re.compile(
    r"^execute_\d+_context_(\d+)\(sq(\d+)\w*\)_generation_(\d+)\(sq(\d+)\w*\)$"
)
"""The form of newer versions; `sq` is the number of query tokens."""
_LAUNCH: Final = ("cudaGraphLaunch", "cuGraphLaunch")
_NAME_LIMIT: Final = 400


@dataclass(frozen=True)
class TraceStep:
    """One decode step of a trace."""

    tokens: int
    """Tokens that it held; prompts none."""
    launched_graph: bool
    """Whether it launched a graph."""
    kernels: frozenset[str]
    """Names of the kernels that its graphs ran."""


@dataclass(frozen=True)
class _Marked:
    begin: float
    end: float
    thread: object
    tokens: int


def decode_steps(events: Iterable[Mapping[str, Any]]) -> tuple[TraceStep, ...]:
    """Steps of a trace that held no prompt, in order of time.

    Args:
        events: `traceEvents` of one rank's trace.
    """
    marked: list[_Marked] = []
    launches: list[tuple[object, float, int]] = []
    kernels: dict[int, set[str]] = {}
    for event in events:
        arguments = event.get("args")
        category, name = event.get("cat"), str(event.get("name", ""))
        begin = event.get("ts")
        if event.get("ph") != "X" or not isinstance(begin, int | float):
            continue
        if category == "user_annotation":
            step = _marked(name, event, float(begin))
            if step is not None:
                marked.append(step)
        correlation = arguments.get("correlation") if isinstance(arguments, Mapping) else None
        if not isinstance(correlation, int):
            continue
        if category in {"cuda_runtime", "cuda_driver"} and name.startswith(_LAUNCH):
            launches.append((_thread(event), float(begin), correlation))
        elif category == "kernel":
            kernels.setdefault(correlation, set()).add(name[:_NAME_LIMIT])
    return tuple(_steps(marked, launches, kernels))


def kernel_profiles(
    boot_id: str, traces: Iterable[Iterable[Mapping[str, Any]]]
) -> tuple[KernelProfile, ...]:
    """What the graphs of each size hold for certain.

    A name is kept only if every graph step of that size ran it, on every rank: what some steps or
    some ranks ran proves nothing about the others.

    Args:
        boot_id: Boot that was profiled.
        traces: `traceEvents` of each rank.
    """
    by_size: dict[int, list[TraceStep]] = {}
    for trace in traces:
        for step in decode_steps(trace):
            by_size.setdefault(step.tokens, []).append(step)
    return tuple(
        KernelProfile(
            boot_id=boot_id,
            unpadded_tokens=tokens,
            steps=len(steps),
            graph_steps=sum(step.launched_graph for step in steps),
            kernels=tuple(
                sorted(
                    frozenset.intersection(*graphs)
                    if (graphs := [step.kernels for step in steps if step.launched_graph])
                    else ()
                )
            ),
        )
        for tokens, steps in sorted(by_size.items())
    )


def _marked(name: str, event: Mapping[str, Any], begin: float) -> _Marked | None:
    """A decode step's annotation; None for any other."""
    match = _PLAIN.match(name) or _DETAILED.match(name)
    duration = event.get("dur")
    if match is None or not isinstance(duration, int | float):
        return None
    context_requests, context_tokens, _, tokens = (int(word) for word in match.groups())
    if context_requests or context_tokens or not tokens:
        return None
    return _Marked(begin, begin + float(duration), _thread(event), tokens)


def _steps(
    marked: list[_Marked],
    launches: list[tuple[object, float, int]],
    kernels: Mapping[int, set[str]],
) -> Iterable[TraceStep]:
    by_thread: dict[object, list[tuple[float, int]]] = {}
    for thread, at, correlation in launches:
        by_thread.setdefault(thread, []).append((at, correlation))
    for times in by_thread.values():
        times.sort()
    for step in sorted(marked, key=lambda one: one.begin):
        times = by_thread.get(step.thread, [])
        first = bisect_right(times, (step.begin, -1))
        last = bisect_right(times, (step.end, 1 << 62))
        inside = [correlation for _, correlation in times[first:last]]
        yield TraceStep(
            tokens=step.tokens,
            launched_graph=bool(inside),
            kernels=frozenset(name for one in inside for name in kernels.get(one, ())),
        )


def _thread(event: Mapping[str, Any]) -> object:
    return (str(event.get("pid")), str(event.get("tid")))
