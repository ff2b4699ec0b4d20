from pathlib import Path

from k3runner.effective_config import flatten_config
from k3runner.engine_log import last_log_line, last_words, telling_line, unknown_variables
from k3runner.metrics_text import parse_counters

LOG = """\
(APIServer pid=17) INFO 11-30 07:18:28 [api_utils.py:347] starting
(APIServer pid=17) WARNING 11-30 07:18:28 [system_utils.py:255] errors like `OSError: [Errno 24]`.
(EngineCore pid=18) ERROR 11-30 07:18:29 [core.py:9] Traceback (most recent call last):
(EngineCore pid=18) ERROR 11-30 07:18:29 [core.py:9]   File "x.py", line 3, in f
(EngineCore pid=18) ERROR 11-30 07:18:29 [core.py:9] ValueError: no backend `fast`
(APIServer pid=17) INFO 11-30 07:18:30 [launcher.py:254] [shutdown] done
"""


def test_telling_line_is_the_error_and_not_what_follows_it() -> None:
    assert telling_line(LOG) == "ValueError: no backend `fast`"


def test_telling_line_warning_that_mentions_an_error_is_none() -> None:
    assert telling_line("\n".join(LOG.splitlines()[:2])).startswith("errors like")


def test_telling_line_is_the_root_cause_and_not_the_error_that_points_to_it() -> None:
    log = LOG + "RuntimeError: Engine core initialization failed. See root cause above.\n"
    assert telling_line(log) == "ValueError: no backend `fast`"


def test_telling_line_of_a_capture_without_memory_is_the_allocator_error() -> None:
    log = LOG.replace("ValueError: no backend `fast`", "RuntimeError: CUDA error: out of memory")
    log += (
        "(EngineCore pid=18) ERROR 11-30 07:18:31 [core.py:9] During capture_end of a graph.\n"
        "RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    assert telling_line(log) == "RuntimeError: CUDA error: out of memory"


def test_telling_line_argument_parser() -> None:
    assert (
        telling_line("usage: x\nx serve: error: bad --dtype\n\n") == "x serve: error: bad --dtype"
    )


def test_last_words_are_what_the_engine_does_now(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_words(log) == "no output yet"
    log.write_text(LOG + "\n---\n", "utf-8")
    assert last_words(log) == "[shutdown] done"
    assert last_log_line(log) == "ValueError: no backend `fast`"


def test_unknown_variables_are_named_once() -> None:
    line = "WARNING [x] Unknown vLLM environment variable detected: VLLM_FAST\n"
    assert unknown_variables(line * 2 + LOG) == ("VLLM_FAST",)


def test_flatten_config_drops_volatile_keys_and_keeps_the_rest() -> None:
    found = {
        "a": {"b": None, "c": [1, 2], "port_1": 5},
        "d": {},
        "e": [{"f": True}],
        "g": "text",
    }
    assert flatten_config(found, ["a.port_*"]) == {
        "a.b": "null",
        "a.c": "[1, 2]",
        "d": "{}",
        "e.0.f": "true",
        "g": "text",
    }


def test_parse_counters_sums_labels_and_leaves_gauges_out() -> None:
    text = (
        "# HELP x\n"
        'vllm:tokens_total{model="a",x="}"} 3\n'
        'vllm:tokens_total{model="b"} 4.5\n'
        'vllm:ttft_seconds_bucket{le="1"} 9\n'
        "vllm:ttft_seconds_count 2\n"
        "vllm:running 7\n"
        "vllm:broken_total NaN\n"
        "other_total 1\n"
    )
    assert parse_counters(text, "vllm:") == {
        "vllm:tokens_total": 7.5,
        "vllm:ttft_seconds_count": 2.0,
    }


def test_a_long_line_ends_with_a_whole_word() -> None:
    line = "RuntimeError: " + "word " * 100
    assert telling_line(line) == "RuntimeError: " + "word " * 76 + "word…"
    assert telling_line("RuntimeError:" + "x" * 500) == "RuntimeError:" + "x" * 386 + "…"
