"""Coverage from what vLLM 0.33.0's own code prints: its table of graphs, its names of steps.

`recordings/vllm-0.33.0-cudagraph-metrics.log` was made by running the table's class and the log's
formatter of that release on made step counts: 12,803 steps of 9 tokens in the graph of 16, 412 of
8, 31 of one, and prompts. No engine on a GPU was run. Steps of a trace are named as that release
does.
"""

from pathlib import Path
from typing import Any, Final

import pytest

from k3bundle.derive.graph_steps import GraphReading, graph_steps
from k3bundle.graph_record import GraphRow, GraphTable
from k3runner.graph_log import read_graph_log
from k3runner.kernel_trace import kernel_profiles

LOG: Final = Path(__file__).parent / "recordings/vllm-0.33.0-cudagraph-metrics.log"
PATTERNS: Final = ("*specialized_decode*", "*latent_moe*")
PATH_KERNELS: Final = ("kernel_cutlass_specialized_decode_kda_0", "latent_moe_kernel_2")
SIZES: Final = (1, 2, 4, 8, 16, 32, 64)


def text(part: slice = slice(None)) -> str:
    """The log as `Path.read_text` gives it to the runner, which reads carriage returns away."""
    content = LOG.read_bytes()[part]
    return content.decode("utf-8", "replace").replace("\r\n", "\n")


def table(moment: str, rows: tuple[GraphRow, ...]) -> GraphTable:
    return GraphTable.model_validate(
        {
            "boot_id": "boot-1.0",
            "cell_id": "serving",
            "moment": moment,
            "capture_sizes": SIZES,
            "rows": rows,
        }
    )


def trace(tokens: int, kernels: tuple[str, ...], *, requests: int | None = None) -> list[Any]:
    """One decode step as the torch profiler writes it, with fields that are not read."""
    name = f"execute_context_0(0)_generation_{requests or tokens}({tokens})"
    thread = {"pid": 13561, "tid": 13561}
    device = {"pid": 0, "tid": 7}
    launch = {"cbid": 311, "correlation": 90, "External id": 12}
    run = {"correlation": 90, "graph id": 4, "graph node id": 9, "stream": 7, "device": 0}
    return [
        {"ph": "M", "name": "process_name", "ts": 5203491792499.982, **thread, "args": {}},
        {
            **{"ph": "X", "cat": "user_annotation", "name": name, **thread},
            **{"ts": 5203491802540.879, "dur": 62453.98, "args": {"External id": 1, "Ev Idx": 0}},
        },
        {
            **{"ph": "X", "cat": "gpu_user_annotation", "name": name, **device},
            **{"ts": 5203491803000.0, "dur": 60000.0, "args": {"External id": 1}},
        },
        {
            **{"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", **thread},
            **{"ts": 5203491802600.1, "dur": 80.2, "args": launch},
        },
        *(
            {
                **{"ph": "X", "cat": "kernel", "name": kernel, **device},
                **{"ts": 5203491803100.5 + 10 * at, "dur": 9.5, "args": run},
            }
            for at, kernel in enumerate(kernels)
        ),
    ]


def covered(
    kernels: tuple[str, ...], *, tokens: int = 9, requests: int = 9, drafts: int = 0
) -> GraphReading:
    """The steps of a cell that all of the log's steps belong to."""
    found = read_graph_log(text())
    return graph_steps(
        table("before", ()),
        table("after", found.rows),
        kernel_profiles("boot-1.0", [trace(tokens, kernels), trace(tokens, kernels)]),
        expected_path="latency_specialized",
        kernel_patterns=PATTERNS,
        requests=requests,
        draft_tokens=drafts,
    )


def by_path(reading: GraphReading) -> dict[tuple[str, str], int]:
    assert reading.problem is None
    return {
        (kind, path): sum(s.count for s in reading.steps if (s.kind, s.path) == (kind, path))
        for kind, path in {(step.kind, step.path) for step in reading.steps}
    }


def test_the_table_of_the_release_is_read_whole() -> None:
    assert b"|\r\n" in LOG.read_bytes()
    found = read_graph_log(text())
    assert (found.tables, found.capture_sizes) == (2, SIZES)
    counts = {(row.unpadded_tokens, row.padded_tokens, row.mode): row.count for row in found.rows}
    assert counts == {
        (1, 1, "FULL"): 31,
        (8, 8, "FULL"): 412,
        (9, 16, "FULL"): 12_803,
        (512, 512, "PIECEWISE"): 9,
        (4096, 4096, "NONE"): 2,
    }
    # With the carriage returns that the formatter writes it is the same.
    assert read_graph_log(LOG.read_bytes().decode()) == found


def test_a_log_that_is_read_while_it_is_written_only_grows() -> None:
    size, last = len(LOG.read_bytes()), 0
    for end in range(0, size + 1, 7):
        now = sum(row.count for row in read_graph_log(text(slice(0, end))).rows)
        assert now >= last
        last = now
    assert sum(row.count for row in read_graph_log(text()).rows) == 13_257


def test_sizes_that_a_profile_shows_with_the_paths_kernels_are_the_paths() -> None:
    reading = covered(PATH_KERNELS)
    assert by_path(reading) == {
        ("decode", "latency_specialized"): 12_803,
        # 412 steps of 8 tokens and 31 of one: no profile shows their graphs.
        ("decode", "stock"): 443,
        ("mixed", "stock"): 11,
    }


@pytest.mark.parametrize("missing", [0, 1])
def test_a_graph_that_lacks_one_kernel_of_the_path_is_stocks(missing: int) -> None:
    reading = covered((PATH_KERNELS[missing], "fused_moe_kernel"))
    assert ("decode", "latency_specialized") not in by_path(reading)
    assert any("its graph holds no kernel" in (step.reason or "") for step in reading.steps)


def test_steps_that_verify_drafts_are_counted_as_such_and_bounded_by_their_tokens() -> None:
    # Two requests with three drafts: at most 8 tokens, so the steps of 9 hold a prompt.
    reading = covered(PATH_KERNELS, tokens=8, requests=2, drafts=3)
    assert by_path(reading) == {
        ("verify", "latency_specialized"): 412,
        ("verify", "stock"): 31,
        ("mixed", "stock"): 12_814,
    }


def test_a_prompt_that_looks_like_a_table_adds_no_step() -> None:
    row = "| 9 | 16 | 7 | FULL | 999999 |"
    head = "| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |"
    for separator in ("\r", "\x0b", "\x0c", "\x1c", "\u2028", "\\n"):
        forged = f"INFO 11-30 09:00:11 [logger.py:43] prompt: {separator.join(['', head, row])}\n"
        assert read_graph_log(text() + forged) == read_graph_log(text())
