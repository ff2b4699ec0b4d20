from collections import Counter
from pathlib import Path

import pytest

import k3decode
from k3decode.jitter import chain_of
from k3decode.mutant import missing_waits
from k3decode.mutants import MUTANTS, Mutant, mutate
from k3decode.registry import OPS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.op}-{m.name}")
def test_every_mutant_still_applies(mutant: Mutant) -> None:
    kernel = Path(str(k3decode.__file__)).parent / "ops" / mutant.op / mutant.file
    source = kernel.read_text()
    assert mutate(mutant, source) != source


def test_every_op_has_two_mutants() -> None:
    counts = Counter(mutant.op for mutant in MUTANTS)
    assert all(counts[op.name] >= 2 for op in OPS)


def test_each_wait_of_a_chain_is_left_out_once() -> None:
    source = "a\n    cute.arch.griddepcontrol_wait()\nb\n    cute.arch.griddepcontrol_wait()\n"
    first, second = missing_waits("kda", source)
    assert mutate(first, source) == "a\n    pass\nb\n    cute.arch.griddepcontrol_wait()\n"
    assert mutate(second, source) == "a\n    cute.arch.griddepcontrol_wait()\nb\n    pass\n"
    assert first.late
    assert second.late
    assert missing_waits("kda", "no wait") == ()


def test_every_dependent_launch_has_a_mutant_without_its_wait() -> None:
    late = Counter(mutant.op for mutant in MUTANTS if mutant.late)
    assert {op.name for op in OPS if chain_of(op.name).dependents} == set(late)
    assert late["projection"] == chain_of("projection").dependents


def test_mutate_refuses_text_that_is_gone() -> None:
    gone = Mutant(op="kda", name="gone", found="no such line", replaced="")
    with pytest.raises(ValueError, match="found it 0 times"):
        mutate(gone, "x = 1\n")
