"""Which installed files of the engine one arm does not run, because it brings others of that name.

A folder of sources or an unpacked wheel comes before what is installed. Its digest is in the plan;
this says in words what it takes the place of, since the RECORD of what is installed still matches.
"""

import filecmp
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from k3runner.subjects.definition import SubjectArm
from k3runner.wording import plural

__all__ = ["shadow_remarks"]

_SENTENCE_CHARACTERS: Final = 1500
"""A remark of a bundle holds 2000."""
_MOST_SENTENCES: Final = 40
_IGNORED: Final = frozenset({".pyc"})


def shadow_remarks(arms: Iterable[SubjectArm], engine_python: Path) -> tuple[str, ...]:
    """What each arm brings of its own, and which installed files that differ it takes the place of.

    Args:
        arms: The arms of the subject.
        engine_python: Python of the engine's environment, as a path that is not resolved.
    """
    sites = sorted((engine_python.parent.parent / "lib").glob("python3*/site-packages"))
    return tuple(
        sentence
        for arm in arms
        if arm.overlay is not None
        for sentence in _remarks(arm.spec.name, arm.overlay, sites)
    )


def _remarks(name: str, overlay: Path, sites: list[Path]) -> Iterator[str]:
    own = sorted(
        path.relative_to(overlay)
        for path in overlay.rglob("*")
        if path.is_file() and path.suffix not in _IGNORED
    )
    pairs = [(path, site / path) for path in own for site in sites[:1] if (site / path).is_file()]
    said = f"The {name} brings {plural(len(own), 'file')} of its own"
    if not pairs:
        yield f"{said}, and none of an installed name."
        return
    differing = [
        path.as_posix()
        for path, installed in pairs
        if not filecmp.cmp(overlay / path, installed, shallow=False)
    ]
    verb = "comes" if len(pairs) == 1 else "come"
    said = f"{said}, of which {len(pairs)} {verb} before installed ones"
    if not differing:
        yield f"{said}, with the same content."
        return
    yield f"{said} and {len(differing)} of these {'differs' if len(differing) == 1 else 'differ'}."
    yield from _listed(f"The {name}'s own, unlike what is installed: ", differing)


def _listed(said: str, paths: list[str]) -> Iterator[str]:
    """All the paths, in as many sentences as they take."""
    left, sentences = list(paths), 0
    while left and sentences < _MOST_SENTENCES:
        line = said + left.pop(0)
        while left and len(line) + len(left[0]) < _SENTENCE_CHARACTERS:
            line += f", {left.pop(0)}"
        sentences += 1
        yield f"{line[:_SENTENCE_CHARACTERS]}."
    if left:
        yield f"{said}{len(left)} more."
