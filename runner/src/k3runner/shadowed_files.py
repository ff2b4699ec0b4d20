"""Which installed files of the engine one arm does not run, because it brings others of that name.

A folder of sources or an unpacked wheel comes before what is installed. Its digest is in the plan;
this says in words what it takes the place of, since the RECORD of what is installed still matches.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from k3runner.subjects.definition import SubjectArm
from k3runner.wording import plural

__all__ = ["shadow_remarks"]

_SHOWN: Final = 8
_IGNORED: Final = frozenset({".pyc"})


def shadow_remarks(arms: Iterable[SubjectArm], engine_python: Path) -> tuple[str, ...]:
    """A sentence for each arm that brings files of its own.

    Args:
        arms: The arms of the subject.
        engine_python: Python of the engine's environment, as a path that is not resolved.
    """
    sites = sorted((engine_python.parent.parent / "lib").glob("python3*/site-packages"))
    return tuple(
        _remark(arm.spec.name, arm.overlay, sites) for arm in arms if arm.overlay is not None
    )


def _remark(name: str, overlay: Path, sites: list[Path]) -> str:
    own = sorted(
        path.relative_to(overlay)
        for path in overlay.rglob("*")
        if path.is_file() and path.suffix not in _IGNORED
    )
    instead = [path.as_posix() for path in own if any((site / path).is_file() for site in sites)]
    said = f"The {name} brings {plural(len(own), 'file')} of its own"
    if not instead:
        return f"{said}, and none of an installed name."
    more = f" and {len(instead) - _SHOWN} more" if len(instead) > _SHOWN else ""
    verb = "comes" if len(instead) == 1 else "come"
    return (
        f"{said}, of which {len(instead)} {verb} before installed ones: "
        f"{', '.join(instead[:_SHOWN])}{more}."
    )
