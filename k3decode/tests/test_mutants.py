from collections import Counter
from pathlib import Path

import pytest

import k3decode
from k3decode.mutants import MUTANTS, Mutant, mutate
from k3decode.registry import OPS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.op}-{m.name}")
def test_every_mutant_still_applies(mutant: Mutant) -> None:
    kernel = Path(str(k3decode.__file__)).parent / "ops" / mutant.op / "kernel.py"
    source = kernel.read_text()
    assert mutate(mutant, source) != source


def test_every_op_has_two_mutants() -> None:
    counts = Counter(mutant.op for mutant in MUTANTS)
    assert all(counts[op.name] >= 2 for op in OPS)


def test_mutate_refuses_text_that_is_gone() -> None:
    gone = Mutant(op="kda", name="gone", found="no such line", replaced="")
    with pytest.raises(ValueError, match="found it 0 times"):
        mutate(gone, "x = 1\n")
