"""Path coverage from recorded graph tables and kernel names."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3bundle.derive.graph_steps import GraphReading, graph_steps
from k3bundle.graph_record import GraphMode, GraphRow, GraphTable, KernelProfile

SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
PATTERNS = ("*kda_decode*", "*latent_moe*")
OURS = ("kda_decode_sm103", "latent_moe_tail_kernel", "nvjet_gemm")
STOCK = ("fused_recurrent_kda", "nvjet_gemm")
Row = tuple[int, int, GraphMode, int]


def _table(moment: str, *rows: Row, sizes: tuple[int, ...] = SIZES) -> GraphTable:
    return GraphTable.model_validate(
        {
            "boot_id": "boot-0.0",
            "cell_id": "cell",
            "moment": moment,
            "capture_sizes": sizes,
            "rows": tuple(
                GraphRow(unpadded_tokens=tokens, padded_tokens=padded, mode=mode, count=count)
                for tokens, padded, mode, count in rows
            ),
        }
    )


def _profile(tokens: int, kernels: tuple[str, ...], *, graph_steps: int = 5) -> KernelProfile:
    return KernelProfile(
        boot_id="boot-0.0", unpadded_tokens=tokens, steps=5, graph_steps=graph_steps,
        kernels=kernels,
    )  # fmt: skip


def _reading(
    before: GraphTable,
    after: GraphTable,
    *profiles: KernelProfile,
    requests: int = 16,
    drafts: int = 0,
    patterns: tuple[str, ...] = PATTERNS,
) -> GraphReading:
    return graph_steps(
        before, after, profiles, expected_path="specialized", kernel_patterns=patterns,
        requests=requests, draft_tokens=drafts,
    )  # fmt: skip


def _share(reading: GraphReading) -> float:
    decode = [step for step in reading.steps if step.kind in {"decode", "verify"}]
    expected = sum(step.count for step in decode if step.path == "specialized")
    return expected / sum(step.count for step in decode)


def test_b23_16_requests_with_7_drafts_measure_stock() -> None:
    reading = _reading(
        _table("before"),
        _table("after", (128, 128, "FULL", 9000), (64, 64, "FULL", 40)),
        _profile(64, OURS),
        _profile(128, STOCK),
        drafts=7,
    )
    assert _share(reading) == pytest.approx(0.0044, abs=5e-5)
    assert {step.kind for step in reading.steps} == {"verify"}
    reasons = {step.reason: step.count for step in reading.steps}
    assert reasons == {
        None: 40,
        "graph of 128 tokens: its graph holds no kernel *kda_decode*": 9000,
    }


def test_b21_a_backend_that_is_only_asked_for_has_no_share() -> None:
    reading = _reading(
        _table("before"), _table("after", (8, 8, "FULL", 500)), _profile(8, STOCK), requests=8
    )
    assert _share(reading) == 0.0


def test_only_steps_of_the_cell_count() -> None:
    reading = _reading(
        _table("before", (4, 4, "FULL", 100), (3, 4, "FULL", 7)),
        _table("after", (4, 4, "FULL", 150), (3, 4, "FULL", 7), (2, 2, "FULL", 50)),
        _profile(4, OURS),
        requests=4,
    )
    assert {(step.path, step.count) for step in reading.steps} == {
        ("specialized", 50),
        ("stock", 50),
    }


def test_padding_is_followed_to_the_graph_that_ran() -> None:
    reading = _reading(
        _table("before"), _table("after", (9, 16, "FULL", 30)), _profile(12, OURS), requests=16
    )
    assert _share(reading) == 1.0


@pytest.mark.parametrize(
    ("mode", "profile", "reason"),
    [
        ("NONE", _profile(8, OURS), "no graph ran"),
        ("PIECEWISE", _profile(8, OURS), "only parts of the step ran as graphs"),
        ("FULL", _profile(16, OURS), "no profile shows the graph of 8 tokens"),
        (
            "FULL",
            _profile(8, OURS[:1]),
            "graph of 8 tokens: its graph holds no kernel *latent_moe*",
        ),
        (
            "FULL",
            _profile(8, OURS, graph_steps=4),
            "graph of 8 tokens: 1 of 5 profiled steps ran without a graph",
        ),
    ],
)
def test_what_is_not_shown_to_be_the_path_is_stock_with_a_reason(
    mode: GraphMode, profile: KernelProfile, reason: str
) -> None:
    reading = _reading(_table("before"), _table("after", (8, 8, mode, 10)), profile)
    (step,) = reading.steps
    assert (step.path, step.reason, step.count) == ("stock", reason, 10)


def test_one_profile_of_a_size_against_it_outweighs_another_for_it() -> None:
    after = _table("after", (8, 8, "FULL", 10))
    for profiles in (
        [_profile(8, OURS), _profile(7, STOCK)],
        [_profile(7, STOCK), _profile(8, OURS)],
    ):
        assert _share(_reading(_table("before"), after, *profiles)) == 0.0


def test_steps_with_prompts_are_no_decode_steps() -> None:
    reading = _reading(
        _table("before"),
        _table("after", (512, 512, "PIECEWISE", 16), (8, 8, "FULL", 84)),
        _profile(8, OURS),
        requests=8,
    )
    assert _share(reading) == 1.0
    assert {step.kind for step in reading.steps} == {"mixed", "decode"}


@pytest.mark.parametrize(
    ("before", "after", "patterns", "problem"),
    [
        (_table("before", (8, 8, "FULL", 9)), _table("after"), PATTERNS, "went backwards"),
        (_table("before"), _table("after"), PATTERNS, "shows no step"),
        (_table("before"), _table("after", (1, 1, "FULL", 1)), (), "names no kernel"),
        (
            _table("before"),
            _table("after", (1, 1, "FULL", 1), sizes=(1,)),
            PATTERNS,
            "sizes changed",
        ),
    ],
)
def test_tables_that_cannot_be_read_are_a_problem_and_no_steps(
    before: GraphTable, after: GraphTable, patterns: tuple[str, ...], problem: str
) -> None:
    reading = _reading(before, after, patterns=patterns)
    assert reading.steps == ()
    assert reading.problem is not None
    assert problem in reading.problem


def test_counts_beyond_what_json_keeps_are_a_problem() -> None:
    most = 2**53 - 1
    after = _table("after", (1, 1, "FULL", most), (2, 2, "FULL", most))
    assert _reading(_table("before"), after).problem == (
        "the counts of dispatched graphs are beyond 2^53"
    )


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 300),
            st.integers(0, 300),
            st.sampled_from(["FULL", "PIECEWISE", "NONE"]),
            st.integers(0, 2**53 - 1),
        ),
        max_size=6,
        unique_by=lambda row: row[:3],
    ),
    kernels=st.lists(st.sampled_from([*OURS, *STOCK]), max_size=4, unique=True),
    pattern=st.text(max_size=3000),
    requests=st.integers(1, 2**53 - 1),
    drafts=st.integers(0, 2**53 - 1),
)
def test_whatever_is_recorded_there_is_a_reading(
    rows: list[Row], kernels: list[str], pattern: str, requests: int, drafts: int
) -> None:
    reading = _reading(
        _table("before"),
        _table("after", *rows),
        *(_profile(tokens, tuple(kernels)) for tokens, *_ in rows),
        requests=requests,
        drafts=drafts,
        patterns=(pattern,),
    )
    total = sum(count for *_, count in rows)
    assert (reading.problem is None) == (0 < total < 2**53)
    assert sum(step.count for step in reading.steps) == (total if reading.problem is None else 0)
