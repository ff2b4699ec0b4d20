from collections import Counter
from pathlib import Path

import pytest

import k3decode
from k3decode.jitter import chain_of
from k3decode.kernel_folders import kernel_folders
from k3decode.mutant import missing_waits
from k3decode.mutants import MUTANTS, Mutant, mutate
from k3decode.registry import OPS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.op}-{m.name}")
def test_every_mutant_still_applies(mutant: Mutant) -> None:
    kernel = Path(str(k3decode.__file__)).parent / "ops" / mutant.op / mutant.file
    source = kernel.read_text()
    assert mutate(mutant, source) != source


def test_every_kernel_has_two_mutants_besides_missing_waits() -> None:
    ops = Path(str(k3decode.__file__)).parent / "ops"
    names = [op.name for op in OPS]
    counts = Counter(
        (ops / mutant.op / mutant.file).resolve().parent.name
        for mutant in MUTANTS
        if not mutant.late
    )
    folders = [folder.name for name in names for folder in kernel_folders(name, names)]
    assert set(folders) >= {"projection_hopper", "mla_decode"}
    assert "mla_decode_blackwell" not in folders
    assert [folder for folder in folders if counts[folder] < 2] == []


def test_names_of_mutants_are_unique() -> None:
    places = [(mutant.op, mutant.name) for mutant in MUTANTS]
    assert len(set(places)) == len(places)


def test_each_wait_of_a_chain_is_left_out_once() -> None:
    source = "a\n    cute.arch.griddepcontrol_wait()\nb\n    cute.arch.griddepcontrol_wait()\n"
    first, second = missing_waits("kda", "kda", source)
    assert mutate(first, source) == "a\n    pass\nb\n    cute.arch.griddepcontrol_wait()\n"
    assert mutate(second, source) == "a\n    cute.arch.griddepcontrol_wait()\nb\n    pass\n"
    assert first.late
    assert second.late
    assert missing_waits("kda", "kda", "no wait") == ()
    assert missing_waits("kda", "kda", f"{source}cooperative=True") == ()
    (beside, _) = missing_waits("kda", "kda_wide", source)
    assert (beside.name, beside.file) == ("wide_wait_1_forgotten", "../kda_wide/kernel.py")


def test_every_dependent_launch_has_a_mutant_without_its_wait() -> None:
    late = Counter(mutant.op for mutant in MUTANTS if mutant.late)
    chains = {op.name: chain_of(op.name, [op.name for op in OPS]) for op in OPS}
    assert {name for name, chain in chains.items() if chain.dependents} == set(late)
    assert all(late[name] >= chain.dependents for name, chain in chains.items())


def test_mutate_refuses_text_that_is_gone() -> None:
    gone = Mutant(op="kda", name="gone", found="no such line", replaced="")
    with pytest.raises(ValueError, match="found it 0 times"):
        mutate(gone, "x = 1\n")
