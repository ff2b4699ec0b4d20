import pytest

from k3runner.errors import UsageError
from k3runner.load.prompt_file import FilePrompt, parse_prompts

GOOD = b"""{"prompt": "go on"}
{"prompt": [5, 0, 7]}

{"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "why?"}]}
"""


def test_parse_prompts_takes_text_ids_and_messages() -> None:
    assert parse_prompts(GOOD, "p.jsonl") == (
        FilePrompt(text="go on"),
        FilePrompt(token_ids=(5, 0, 7)),
        FilePrompt(messages=(("system", "be brief"), ("user", "why?"))),
    )


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "{",
        "{}",
        '{"prompt": ""}',
        '{"prompt": []}',
        '{"prompt": [1, -1]}',
        '{"prompt": [true]}',
        '{"prompt": "a", "answer": "b"}',
        '{"messages": []}',
        '{"messages": [{"role": "user"}]}',
        '{"messages": [{"role": "user", "content": "a", "name": "b"}]}',
        '{"messages": [3]}',
        '{"text": "a"}',
    ],
)
def test_parse_prompts_says_which_line_is_none(line: str) -> None:
    with pytest.raises(UsageError, match=r"p\.jsonl line 2 is no prompt"):
        parse_prompts(b'{"prompt": "go on"}\n' + line.encode(), "p.jsonl")


def test_parse_prompts_of_an_empty_file_is_an_error() -> None:
    with pytest.raises(UsageError, match="holds no prompt"):
        parse_prompts(b"\n\n", "p.jsonl")
