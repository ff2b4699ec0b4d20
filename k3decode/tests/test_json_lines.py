"""Files of JSON lines: what is read, and the sentence where one is not what was expected."""

from pathlib import Path

import pytest

from k3decode.json_lines import JsonLinesError, read_json_lines

FIELDS = {"schema": str, "op": str}


def test_lines_come_in_order_and_empty_ones_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    # A separator of lines for Python that JSON lets stand in a word.
    path.write_text('{"schema": "s", "op": "a\u2028b", "more": 1}\n\n{"schema": "s", "op": "c"}\n')
    found = read_json_lines(path, FIELDS, "do something")
    assert [record["op"] for record in found] == ["a\u2028b", "c"]
    assert found[0]["more"] == 1


def test_a_kind_has_fields_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"schema": "k3decode.one/2", "op": "a"}\n')
    by_kind = {"other": {"case": str}}
    assert len(read_json_lines(path, FIELDS, "do something", by_kind=by_kind)) == 1
    with pytest.raises(JsonLinesError, match="line 1: expected a field 'case'"):
        read_json_lines(path, FIELDS, "do something", by_kind={"one": {"case": str}})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe", "expected a file of JSON lines, found bytes that are no text"),
        (b"[1]", "line 1: expected a JSON object, found '[1]'"),
        (b"{}", "line 1: expected a field 'schema' (str), found an empty object"),
        (b'{"schema": "s", "op": 3}', "line 1: expected 'op' to be str, found 3"),
        (b'{"schema": "s", "op": "a"}\n' + b"x" * 50, "line 2: expected a JSON object, found "),
        (b"[" * 100_000, "line 1: expected a JSON object, found '[[["),
    ],
)
def test_what_is_wrong_is_said_with_its_place(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(JsonLinesError) as found:
        read_json_lines(path, FIELDS, "do something")
    sentence = str(found.value)
    assert sentence.startswith(f"{path}: {words}")
    assert sentence.endswith(": do something")
    assert len(sentence) < len(str(path)) + 150


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(JsonLinesError, match="found Is a directory: do something"):
        read_json_lines(tmp_path, FIELDS, "do something")
