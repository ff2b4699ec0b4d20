"""Kernels of graphs by step size, from traces in the form of the torch profiler."""

from typing import Any

import pytest

from k3runner.kernel_trace import TraceStep, decode_steps, kernel_profiles

Event = dict[str, Any]


def _step(name: str, ts: float, *, tid: int = 1, dur: float = 100.0) -> Event:
    return {
        "ph": "X", "cat": "user_annotation", "name": name, "pid": 7, "tid": tid, "ts": ts,
        "dur": dur,
    }  # fmt: skip


def _launch(ts: float, correlation: int, *, tid: int = 1, name: str = "cudaGraphLaunch") -> Event:
    return {
        "ph": "X", "cat": "cuda_runtime", "name": name, "pid": 7, "tid": tid, "ts": ts, "dur": 5.0,
        "args": {"correlation": correlation, "cbid": 311},
    }  # fmt: skip


def _kernel(name: str, correlation: int, ts: float = 500.0) -> Event:
    return {
        "ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 20, "ts": ts, "dur": 3.0,
        "args": {"correlation": correlation, "graph id": 4, "graph node id": 9, "stream": 20},
    }  # fmt: skip


DECODE_8 = "execute_context_0(0)_generation_8(8)"


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        (DECODE_8, 8),
        ("execute_context_0(0)_generation_8(64)", 64),
        ("execute_61_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq16sk99sqsq128sqsk7)", 16),
    ],
)
def test_a_decode_step_has_the_kernels_of_its_graph(name: str, tokens: int) -> None:
    trace = [
        _step(name, 0.0),
        _launch(10.0, 1),
        _kernel("kda_decode", 1),
        _kernel("latent_moe", 1, 600.0),
        _launch(20.0, 2, name="cudaLaunchKernel"),
        _kernel("sampler", 2),
    ]
    assert decode_steps(trace) == (
        TraceStep(tokens, launched_graph=True, kernels=frozenset({"kda_decode", "latent_moe"})),
    )


@pytest.mark.parametrize(
    "name",
    [
        "execute_context_1(512)_generation_7(7)",
        "execute_context_0(0)_generation_0(0)",
        "execute_77_context_1(sq1024sk0sqsq0sqsk0)_generation_1(sq1sk2sqsq1sqsk2)",
        "gpu_model_runner: forward",
        "## Call CompiledFxGraph ##",
    ],
)
def test_steps_with_prompts_and_other_annotations_are_left_out(name: str) -> None:
    assert decode_steps([_step(name, 0.0), _launch(10.0, 1), _kernel("kda_decode", 1)]) == ()


def test_launches_of_other_steps_and_threads_are_not_mixed_in() -> None:
    trace = [
        _step(DECODE_8, 0.0),
        _launch(10.0, 1),
        _launch(50.0, 3, tid=2),
        _step(DECODE_8, 200.0),
        _launch(210.0, 2),
        _kernel("a", 1),
        _kernel("b", 2),
        _kernel("c", 3),
    ]
    assert [step.kernels for step in decode_steps(trace)] == [frozenset("a"), frozenset("b")]


def test_a_step_without_a_graph_says_so() -> None:
    (step,) = decode_steps([_step(DECODE_8, 0.0), _launch(10.0, 1, name="cudaLaunchKernel")])
    assert not step.launched_graph


def test_a_profile_keeps_what_every_step_of_every_rank_ran() -> None:
    def rank(*names: str) -> list[Event]:
        return [_step(DECODE_8, 0.0), _launch(1.0, 1), *(_kernel(name, 1) for name in names)]

    (profile,) = kernel_profiles("boot-0.0", [rank("a", "b"), rank("b", "c")])
    assert (profile.unpadded_tokens, profile.steps, profile.graph_steps) == (8, 2, 2)
    assert profile.kernels == ("b",)


def test_sizes_are_kept_apart_and_steps_without_graphs_are_counted() -> None:
    trace = [
        _step(DECODE_8, 0.0),
        _launch(1.0, 1),
        _kernel("a", 1),
        _step(DECODE_8, 200.0),
        _step("execute_context_0(0)_generation_4(4)", 400.0),
    ]
    profiles = kernel_profiles("boot-0.0", [trace])
    found = [(p.unpadded_tokens, p.steps, p.graph_steps, p.kernels) for p in profiles]
    assert found == [(4, 1, 0, ()), (8, 2, 1, ("a",))]


def test_events_of_odd_shape_are_passed_over() -> None:
    odd: list[Event] = [
        {},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": "soon", "args": {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "args": None},
        {"ph": "i", "cat": "user_annotation", "name": DECODE_8, "ts": 1},
        {"ph": "X", "cat": "user_annotation", "name": DECODE_8, "ts": 1, "dur": None},
    ]
    assert decode_steps(odd) == ()
