"""What a kernel may take for granted because of the one before it in a chain of launches."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from k3decode.audit.declaration import Memory
from k3decode.audit.rules import Audit, Finding

__all__ = ["settle"]

UNSETTLED = "unsettled"


def settle(audits: Sequence[Audit]) -> list[Audit]:
    """Judge early reads of settled memory by the predecessors that were audited along."""
    return [
        replace(audit, findings=(*audit.findings, *_unsettled(audit, audits))) for audit in audits
    ]


def _unsettled(audit: Audit, audits: Sequence[Audit]) -> Iterator[Finding]:
    pattern = audit.facts.predecessor or ""
    before = [
        other
        for other in audits
        if fnmatchcase(other.kernel.name, pattern) and other.kernel.target == audit.kernel.target
    ]
    if before and not any(other.starts_early for other in before):
        return
    reason = "lets it start before it has waited itself" if before else "was not audited along"
    for load in audit.loads:
        if load.early and Memory.SETTLED in load.memories:
            yield Finding(
                UNSETTLED,
                load.instruction.at,
                load.instruction.text,
                load.parameters,
                f"it reads {', '.join(load.parameters)} before the kernel has waited, and the "
                f"predecessor {pattern} {reason}",
                load.path,
            )
