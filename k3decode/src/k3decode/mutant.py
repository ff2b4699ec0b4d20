"""One defect in device code, and how it is put there."""

from dataclasses import dataclass

__all__ = ["Mutant", "missing_waits", "mutate", "starts_early"]

_WAIT = "cute.arch.griddepcontrol_wait()"
_NO_WAIT = "pass"
_COOPERATIVE = "cooperative=True"


@dataclass(frozen=True)
class Mutant:
    """One defect in the device code of an op."""

    op: str
    name: str
    found: str
    """Text that occurs once in the file, or more than once if `place` chooses."""
    replaced: str
    file: str = "kernel.py"
    """File of the op's folder."""
    place: int | None = None
    """Which of the places, from 0; None where there is one."""
    late: bool = False
    """Whether only inputs that arrive late can show it."""


def starts_early(source: str) -> bool:
    """Whether the device code of a `kernel.py` was seen to start before the kernel in front ended.

    A cooperative launch was not: without its wait nothing changed (benchmarks/LOG.md).
    """
    return _WAIT in source and _COOPERATIVE not in source


def missing_waits(op: str, folder: str, source: str) -> tuple[Mutant, ...]:
    """For each wait of dependent launches in a `kernel.py`, a mutant without it.

    None for a kernel that does not start early: its wait cannot be missed.

    Args:
        op: whose launch runs the kernel.
        folder: where the file is; the op's own, or one named after it.
        source: its text.
    """
    if not starts_early(source):
        return ()
    prefix = folder.removeprefix(op).removeprefix("_")
    file = "kernel.py" if folder == op else f"../{folder}/kernel.py"
    return tuple(
        Mutant(
            op,
            "_".join([*filter(None, [prefix]), "wait", str(place + 1), "forgotten"]),
            _WAIT,
            _NO_WAIT,
            file=file,
            place=place,
            late=True,
        )
        for place in range(source.count(_WAIT))
    )


def mutate(mutant: Mutant, source: str) -> str:
    """Apply the replacement.

    Raises:
        ValueError: the text is not in the source exactly once, or at the place that was chosen.
    """
    count = source.count(mutant.found)
    if mutant.place is not None and mutant.place < count:
        parts = source.split(mutant.found)
        head, tail = parts[: mutant.place + 1], parts[mutant.place + 1 :]
        return mutant.found.join(head) + mutant.replaced + mutant.found.join(tail)
    if count != 1:
        raise ValueError(
            f"{mutant.op}/{mutant.name}: expected '{mutant.found}' once in {mutant.file}, found it "
            f"{count} times: follow the kernel's change here"
        )
    return source.replace(mutant.found, mutant.replaced)
