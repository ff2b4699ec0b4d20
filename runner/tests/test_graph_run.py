"""Tables of graphs around cells and a profile after them, recorded from what an engine wrote."""

import gzip
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest

from k3bundle.graph_record import GraphTable, KernelProfile
from k3bundle.plan import ServingCell
from k3runner import graph_run
from k3runner.cell_run import BootedServer
from k3runner.engine_probe import EngineSilentError
from k3runner.graph_run import profile_graphs, record_graph_table
from k3runner.run_context import RunContext

TABLE = """INFO - Capture sizes: [1, 2]
INFO | Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |
INFO |-----------------|---------------|--------------|--------------|-------|
INFO | 2               | 2             | 0            | FULL         | 7     |
"""
CELL = ServingCell(
    cell_id="serving", endpoint="completions", concurrency=2, prompt_tokens=8, output_tokens=8,
    warmup_requests=0, request_count=2,
)  # fmt: skip


class _Setting:
    """A run and a server with only what is looked at."""

    def __init__(self, tmp_path: Path, *, method: str | None = None) -> None:
        self.graphs: list[GraphTable | KernelProfile] = []
        self.remarks: list[str] = []
        self.switched: list[str] = []
        self.folder = tmp_path
        self.answers = True
        self.log = tmp_path / "engine.log"
        self.log.write_text(TABLE)
        engine = SimpleNamespace(
            coverage_method=method,
            path_kernels={"fast": ("*kda*",)},
            environment={"VLLM_LOG_STATS_INTERVAL": "0.01"},
        )
        self.context = cast(
            "RunContext",
            SimpleNamespace(
                config=SimpleNamespace(subject=SimpleNamespace(engine=engine)),
                journal=SimpleNamespace(graphs=self.graphs.extend),
                emit=lambda remark: self.remarks.append(remark.text),
            ),
        )
        self.server = cast(
            "BootedServer",
            SimpleNamespace(
                boot_id="boot-0.0",
                process=SimpleNamespace(log=self.log),
                probe=SimpleNamespace(switch_profiler=self._switch),
            ),
        )

    async def _switch(self, verb: Literal["start", "stop"], _limit_s: float) -> bool:
        self.switched.append(verb)
        return self.answers


def _trace(kernel: str, tokens: int = 2) -> dict[str, Any]:
    name = f"execute_context_0(0)_generation_{tokens}({tokens})"
    step = {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": 0.0}
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 1, "tid": 1}
    return {
        "traceEvents": [
            {**step, "dur": 10.0},
            {**launch, "ts": 1.0, "dur": 1.0, "args": {"correlation": 5}},
            {"ph": "X", "cat": "kernel", "name": kernel, "ts": 2.0, "args": {"correlation": 5}},
        ]
    }


@pytest.fixture
def no_load(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_arguments: object) -> None:
        return None

    monkeypatch.setattr(graph_run, "_load", nothing)


async def test_the_table_around_a_cell_is_read_from_the_log(tmp_path: Path) -> None:
    setting = _Setting(tmp_path)
    await record_graph_table(setting.context, setting.server, CELL, "before")
    setting.log.write_text(TABLE + TABLE)
    await record_graph_table(setting.context, setting.server, CELL, "after")
    before, after = setting.graphs
    assert isinstance(before, GraphTable)
    assert isinstance(after, GraphTable)
    assert (before.capture_sizes, before.moment, after.moment) == ((1, 2), "before", "after")
    assert [row.count for row in (*before.rows, *after.rows)] == [7, 14]


async def test_an_engine_that_counts_its_steps_needs_no_table(tmp_path: Path) -> None:
    setting = _Setting(tmp_path, method="counts")
    await record_graph_table(setting.context, setting.server, CELL, "before")
    await profile_graphs(setting.context, setting.server, [CELL], tmp_path)
    assert (setting.graphs, setting.switched) == ([], [])


@pytest.mark.usefixtures("no_load")
async def test_traces_of_all_ranks_become_profiles(tmp_path: Path) -> None:
    setting = _Setting(tmp_path)
    folder = tmp_path / "profile"
    folder.mkdir()
    (folder / "rank0.1.pt.trace.json").write_text(json.dumps(_trace("kda_decode")))
    packed = gzip.compress(json.dumps(_trace("kda_decode")).encode())
    (folder / "rank1.1.pt.trace.json.gz").write_bytes(packed)
    await profile_graphs(setting.context, setting.server, [CELL], tmp_path)
    (profile,) = setting.graphs
    assert isinstance(profile, KernelProfile)
    assert (profile.unpadded_tokens, profile.steps, profile.kernels) == (2, 2, ("kda_decode",))
    assert setting.switched == ["start", "stop", "start", "stop"]


@pytest.mark.usefixtures("no_load")
async def test_what_an_engine_puts_beside_its_traces_is_passed_over(tmp_path: Path) -> None:
    setting = _Setting(tmp_path)
    folder = tmp_path / "profile"
    folder.mkdir()
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(_trace("kda_decode")))
    (folder / "link.pt.trace.json").symlink_to(secret)
    os.mkfifo(folder / "pipe.pt.trace.json")
    (folder / "folder.pt.trace.json").mkdir()
    (folder / "cut.pt.trace.json.gz").write_bytes(gzip.compress(b"{}")[:-4])
    (folder / "text.pt.trace.json").write_text("no trace")
    (folder / "deep.pt.trace.json").write_text("[" * 100_000)
    (folder / "shape.pt.trace.json").write_text('{"traceEvents": 5}')
    (folder / "other.json").write_text(json.dumps(_trace("kda_decode")))
    await profile_graphs(setting.context, setting.server, [CELL], tmp_path)
    assert setting.graphs == []
    assert setting.remarks == ["The profile of boot-0.0 shows no decode step."]


@pytest.mark.usefixtures("no_load")
async def test_a_trace_beyond_the_limit_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_run, "_MOST_TRACE_BYTES", 10)
    setting = _Setting(tmp_path)
    (tmp_path / "profile").mkdir()
    trace = gzip.compress(json.dumps(_trace("kda_decode")).encode())
    (tmp_path / "profile" / "a.pt.trace.json.gz").write_bytes(trace)
    await profile_graphs(setting.context, setting.server, [CELL], tmp_path)
    assert setting.graphs == []


@pytest.mark.usefixtures("no_load")
async def test_an_engine_without_a_profiler_is_remarked_on(tmp_path: Path) -> None:
    setting = _Setting(tmp_path)
    setting.answers = False
    await profile_graphs(setting.context, setting.server, [CELL], tmp_path)
    assert setting.remarks == ["boot-0.0 has no profiler that can be switched on."]


async def test_an_engine_that_falls_silent_is_remarked_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(*_arguments: object) -> None:
        raise EngineSilentError("It did not answer.", "Look at its log.")

    monkeypatch.setattr(graph_run, "_load", silent)
    setting = _Setting(tmp_path)
    await profile_graphs(setting.context, setting.server, [CELL], tmp_path)
    assert setting.remarks == ["boot-0.0 could not be profiled: It did not answer."]
