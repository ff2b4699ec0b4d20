"""The table of dispatched graphs, as vLLM 0.33 prints it into its log."""

from k3bundle.graph_record import GraphRow
from k3runner.graph_log import read_graph_log

PREFIX = "(APIServer pid=123) INFO 11-30 09:00:10 [cuda_graph.py:117] "
SETTINGS = [
    "**CUDAGraph Config Settings:**",
    "",
    "- Mode: FULL_AND_PIECEWISE",
    "- Capture sizes: [1, 2, 4, 8, 16]",
    "",
    "**CUDAGraph Stats:**",
    "",
]
HEADER = [
    "| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |",
    "|-----------------|---------------|--------------|--------------|-------|",
]


def _table(*rows: tuple[int, int, str, int]) -> str:
    lines = [
        *SETTINGS,
        *HEADER,
        *(
            f"| {tokens:<15} | {padded:<13} | {padded - tokens:<12} | {mode:<12} | {count:<5} |"
            for tokens, padded, mode, count in rows
        ),
        "",
    ]
    return "".join(f"{PREFIX}{line}\n" for line in lines)


def _row(tokens: int, padded: int, mode: str, count: int) -> GraphRow:
    return GraphRow.model_validate(
        {"unpadded_tokens": tokens, "padded_tokens": padded, "mode": mode, "count": count}
    )


def test_tables_of_a_log_are_summed() -> None:
    first = _table((3, 4, "FULL", 120), (512, 512, "PIECEWISE", 2))
    second = _table((3, 4, "FULL", 30), (1, 1, "NONE", 5))
    found = read_graph_log(f"INFO something\n{first}INFO Engine 000: 10 tokens/s\n{second}")
    assert found.tables == 2
    assert found.capture_sizes == (1, 2, 4, 8, 16)
    assert found.rows == (
        _row(1, 1, "NONE", 5),
        _row(3, 4, "FULL", 150),
        _row(512, 512, "PIECEWISE", 2),
    )


def test_modes_are_read_with_and_without_the_name_of_their_type() -> None:
    assert read_graph_log(_table((1, 1, "CUDAGraphMode.FULL", 7))).rows == (_row(1, 1, "FULL", 7),)


def test_a_log_without_tables_says_so() -> None:
    found = read_graph_log("INFO started\nINFO Capturing CUDA graphs: 100%\n")
    assert (found.tables, found.capture_sizes, found.rows) == (0, (), ())


def test_a_half_written_last_line_is_left_out() -> None:
    text = _table((3, 4, "FULL", 120))
    cut = text[: text.index("120") + 1]
    assert read_graph_log(cut).rows == ()


def test_a_row_outside_of_a_table_adds_nothing() -> None:
    row = "INFO prompt: | 8 | 8 | 0 | FULL | 999999 |\n"
    assert read_graph_log(row + _table((8, 8, "FULL", 1)) + row).rows == (_row(8, 8, "FULL", 1),)


def test_a_line_of_the_table_that_is_no_row_ends_it_and_one_of_another_process_does_not() -> None:
    table = _table((8, 8, "FULL", 1)).removesuffix(f"{PREFIX}\n")
    row = f"{PREFIX}| 8 | 8 | 0 | FULL | 5 |\n"
    ended = read_graph_log(f"{table}{PREFIX}\n{row}")
    assert ended.rows == (_row(8, 8, "FULL", 1),)
    between = read_graph_log(f"{table}(EngineCore pid=7) INFO other\n{row}")
    assert between.rows == (_row(8, 8, "FULL", 6),)


def test_a_row_of_another_time_or_process_is_of_no_table() -> None:
    table = _table((8, 8, "FULL", 1)).removesuffix(f"{PREFIX}\n")
    for other in (PREFIX.replace("123", "124"), PREFIX.replace("00:10", "00:11"), "", "INFO "):
        assert read_graph_log(f"{table}{other}| 8 | 8 | 0 | FULL | 5 |\n").rows == (
            _row(8, 8, "FULL", 1),
        )


def test_a_header_without_the_rule_under_it_opens_no_table() -> None:
    text = f"{PREFIX}{HEADER[0]}\n{PREFIX}| 8 | 8 | 0 | FULL | 5 |\n"
    assert read_graph_log(text) == read_graph_log("")


def test_b25_captures_are_not_counted_as_steps() -> None:
    captures = "".join(
        f"DEBUG Capturing a cudagraph on (FULL,BatchDescriptor(num_tokens={size}))\n"
        for size in (1, 2, 4, 8)
    )
    found = read_graph_log(captures + _table((1, 1, "FULL", 3)))
    assert found.rows == (_row(1, 1, "FULL", 3),)
