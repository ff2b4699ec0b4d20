"""Declarations: what they mean, and what is refused in words."""

import pytest

from k3decode.audit.declaration import Memory, declaration_for, read_declarations
from k3decode.audit.errors import UnreadableInputError
from k3decode.audit.program import Kernel, Parameter


def _kernel(name: str = "some_kernel") -> Kernel:
    parameters = (Parameter(0, 0, 16), Parameter(1, 16, 8), Parameter(2, 24, 4))
    return Kernel(name, "sm_90a", "SASS", parameters, (), {})


def test_a_parameter_is_found_by_name_number_and_byte() -> None:
    declarations = read_declarations(
        """
        [[kernel]]
        name = "some*"
        parameters = ["rows", "weight", "count"]
        static = ["weight"]
        scalar = ["0+8"]
        mailbox = ["rows+0"]
        """
    )
    facts = declaration_for(_kernel(), declarations)
    assert facts.declared
    assert facts.dependent_launch
    assert facts.memory_of(0, 0) is Memory.MAILBOX
    assert facts.memory_of(0, 8) is Memory.SCALAR
    assert facts.memory_of(1, 0) is Memory.STATIC
    assert facts.memory_of(2, 0) is Memory.ACTIVATION
    assert [facts.name_of(ordinal) for ordinal in range(4)] == ["rows", "weight", "count", "3"]


def test_a_whole_parameter_covers_all_its_bytes() -> None:
    declarations = read_declarations('[[kernel]]\nname = "*"\nstatic = [0]')
    facts = declaration_for(_kernel(), declarations)
    assert {facts.memory_of(0, offset) for offset in (0, 8)} == {Memory.STATIC}
    assert facts.names == ("0", "1", "2")


def test_without_a_declaration_everything_is_activation() -> None:
    declarations = read_declarations('[[kernel]]\nname = "other"\nstatic = [0]')
    facts = declaration_for(_kernel(), declarations)
    assert not facts.declared
    assert facts.dependent_launch
    assert facts.memory_of(0, 0) is Memory.ACTIVATION


def test_the_first_declaration_that_names_the_kernel_counts() -> None:
    declarations = read_declarations(
        '[[kernel]]\nname = "some_k*"\ndependent_launch = false\n'
        '[[kernel]]\nname = "*"\nstatic = [1]'
    )
    facts = declaration_for(_kernel(), declarations)
    assert not facts.dependent_launch
    assert facts.memory_of(1, 0) is Memory.ACTIVATION


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[kernel]", "expected TOML"),
        ("", "only tables [[kernel]], found nothing"),
        ("kernel = 1", "only tables [[kernel]]"),
        ("[[kernel]]\nname = 'a'\n[other]\n", "only tables [[kernel]], found kernel, other"),
        ("[[kernel]]\nstatic = [1]", "a name in each"),
        ("[[kernel]]\nname = 'a'\nstatics = [1]", "found statics"),
        ("[[kernel]]\nname = 'a'\nstatic = 'weight'", "a list of names or numbers"),
        ("[[kernel]]\nname = 'a'\ndependent_launch = 'no'", "true or false"),
    ],
)
def test_bad_files_are_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(UnreadableInputError) as error:
        read_declarations(text)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("parameters = ['a', 'b']", "as many names as some_kernel has parameters (3), found 2"),
        ("static = ['weight']", "expected a parameter of some_kernel (0, 1, 2)"),
        ("static = [3]", "found 3"),
        ("static = ['0+4']", "found 0+4"),
        ("static = ['0+16']", "found 0+16"),
        ("static = ['0+x']", "found 0+x"),
        ("static = [1]\nscalar = [1]", "expected one list for 1"),
    ],
)
def test_a_declaration_that_does_not_fit_the_kernel_is_refused(lines: str, words: str) -> None:
    declarations = read_declarations(f"[[kernel]]\nname = '*'\n{lines}")
    with pytest.raises(UnreadableInputError) as error:
        declaration_for(_kernel(), declarations)
    assert words in str(error.value)
