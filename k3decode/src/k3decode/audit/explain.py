"""Findings in the words of PTX, and where the PTX of the same kernel has the same read."""

from collections.abc import Iterable

from k3decode.audit.program import Coherence, Route
from k3decode.audit.rules import Audit, Finding, Load

__all__ = ["explain", "ptx_words"]

_LOADS = {
    Coherence.PLAIN: "ld.global",
    Coherence.NONCOHERENT: "ld.global.nc",
    Coherence.STRONG: "ld.volatile.global or ld.relaxed.global",
    Coherence.ACQUIRE: "ld.acquire.global",
}
_ROUTES = {
    Route.ATOMIC: "atom.global",
    Route.ASYNC_COPY: "cp.async",
    Route.BULK_COPY: "cp.async.bulk",
    Route.TENSOR_COPY: "cp.async.bulk.tensor",
    Route.TEXTURE: "tex",
}
_MAX_LINES = 3


def ptx_words(load: Load) -> str:
    """What the read is called in PTX."""
    return _ROUTES.get(load.access.route, _LOADS[load.access.coherence])


def explain(finding: Finding, audit: Audit, ptx: Audit | None) -> str:
    """One sentence about a finding of SASS, with the lines of the PTX where it is at hand."""
    load = next((one for one in audit.loads if one.instruction.at == finding.at), None)
    if load is None:
        return ""
    words = ptx_words(load)
    if audit.kernel.dialect == "PTX":
        return f"{words}, line {finding.at}"
    if ptx is None:
        return f"in PTX: {words}"
    alike = [one for one in ptx.loads if _alike(one, load)]
    if not alike:
        return f"in PTX: {words}; the PTX has no such read of {', '.join(load.parameters)}"
    lines = ", ".join(str(one.instruction.at) for one in alike[:_MAX_LINES])
    more = f" and {len(alike) - _MAX_LINES} more" if len(alike) > _MAX_LINES else ""
    text = f"in PTX: {words}, line {lines}{more} (`{alike[0].instruction.text}`)"
    if load.early and not any(one.early for one in alike):
        text += "; there every one stands after a wait: the assembler moved it"
    return text


def _alike(one: Load, other: Load) -> bool:
    same_kind = one.access.route is other.access.route
    return same_kind and one.parameters == other.parameters and _coherent(one) == _coherent(other)


def _coherent(load: Load) -> Iterable[bool]:
    kind = load.access.coherence
    return kind is Coherence.NONCOHERENT, kind in {Coherence.STRONG, Coherence.ACQUIRE}
