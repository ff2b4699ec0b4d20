"""The check's command line: what it refuses before it looks for a GPU."""

import json

import pytest

from k3decode import check
from k3decode.check import CaseReport
from k3decode.op import Part


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "expected an op with a kernel"),
        (["kda", "--case", "m3"], "expected names of cases of these ops and groups, found m3"),
        (["--adapter", "kda"], "expected OP=MODULE:FUNCTION, found 'kda'"),
        (["--adapter", "kda=no.module:f"], "expected a function 'f' of a module 'no.module'"),
        (["--adapter", "kda=math:no_function"], "of a module 'math', found none"),
        (["--adapter", "kda=math:pi"], "the parameters of kda's launch, found float"),
        (["--adapter", "nothing=math:sin"], "expected an op with a kernel"),
        (["kda", "--part", "3/2"], "expected a part as 2/3, found '3/2'"),
        (["--kernels", "no-such-folder"], "expected library.json in no-such-folder, found none"),
        (["--replay", "no-such-file"], "expected a recording at no-such-file, found none"),
    ],
)
def test_wrong_arguments_are_one_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        check.main(arguments)
    assert end.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_without_a_gpu_nothing_is_called_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit) as end:
        check.main(["router", "--case", "smoke_m3"])
    assert end.value.code == 2
    assert "expected a CUDA device, found none" in capsys.readouterr().err


def test_parts_together_are_all() -> None:
    things = list(range(11))
    parts = [Part.of(f"{number}/3").taken(things) for number in (1, 2, 3)]
    assert sorted(parts[0] + parts[1] + parts[2]) == things
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["0/1", "2", "a/b", "1/0", "-1/2"])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a part as 2/3"):
        Part.of(text)


def test_a_record_has_the_circumstances_beside_the_outcome() -> None:
    report = CaseReport("kda", "m3", "smoke", "passed", 0.5, ())
    record = json.loads(report.record({"gpu": "NVIDIA H200"}))
    assert record["schema"] == "k3decode.check/2"
    assert (record["worst"], record["gpu"]) == (0.5, "NVIDIA H200")
