import pytest

from k3bundle.traffic import TraceEntry
from k3runner.errors import UsageError
from k3runner.load.trace_file import parse_trace

LINES = b"""{"timestamp": 500, "input_length": 600, "output_length": 3, "hash_ids": [0, 1]}
{"timestamp": 1300.5, "input_length": 9, "output_length": 4}
"""
MS = 1_000_000


def test_parse_trace_counts_from_the_first_line() -> None:
    assert parse_trace(LINES, "t.jsonl") == (
        TraceEntry(at_ns=0, prompt_tokens=600, output_tokens=3, prefix_ids=(0, 1)),
        TraceEntry(at_ns=800_500_000, prompt_tokens=9, output_tokens=4),
    )


def test_parse_trace_faster_keeps_lengths() -> None:
    (_, second) = parse_trace(LINES, "t.jsonl", speed=4.0)
    assert (second.at_ns, second.prompt_tokens) == (200_125_000, 9)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "3",
        '{"timestamp": "1", "input_length": 1, "output_length": 1}',
        '{"timestamp": 1, "input_length": 0, "output_length": 1}',
        '{"timestamp": 1, "input_length": 1}',
        '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": ["a"]}',
        '{"timestamp": 1, "input_length": 1, "output_length": 1, "temperature": 1}',
        '{"timestamp": NaN, "input_length": 1, "output_length": 1}',
    ],
)
def test_parse_trace_says_which_line_is_none(line: str) -> None:
    with pytest.raises(UsageError, match=r"t\.jsonl line 1 is no request"):
        parse_trace(line.encode(), "t.jsonl")


def test_parse_trace_that_goes_back_is_an_error() -> None:
    lines = LINES + b'{"timestamp": 900, "input_length": 9, "output_length": 4}\n'
    with pytest.raises(UsageError, match="line 3 is earlier than the line before"):
        parse_trace(lines, "t.jsonl")


def test_parse_trace_of_an_empty_file_is_an_error() -> None:
    with pytest.raises(UsageError, match="holds no request"):
        parse_trace(b"", "t.jsonl")
