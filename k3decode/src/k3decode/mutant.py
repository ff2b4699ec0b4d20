"""One defect in device code, and how it is put there."""

from dataclasses import dataclass

__all__ = ["Mutant", "mutate"]


@dataclass(frozen=True)
class Mutant:
    """One defect in the device code of an op."""

    op: str
    name: str
    found: str
    """Text that occurs once in the file."""
    replaced: str
    file: str = "kernel.py"
    """File of the op's folder."""


def mutate(mutant: Mutant, source: str) -> str:
    """Apply the replacement.

    Raises:
        ValueError: the text is not in the source exactly once.
    """
    count = source.count(mutant.found)
    if count != 1:
        raise ValueError(
            f"{mutant.op}/{mutant.name}: expected '{mutant.found}' once in {mutant.file}, found it "
            f"{count} times: follow the kernel's change here"
        )
    return source.replace(mutant.found, mutant.replaced)
