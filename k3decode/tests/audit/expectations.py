"""What the audit must say about each of the small kernels."""

from pathlib import Path

from k3decode.audit.declaration import KernelFacts, declaration_for, read_declarations
from k3decode.audit.program import Kernel
from k3decode.audit.rules import Audit, audit_kernel

__all__ = ["ARCHITECTURES", "EXPECTED", "FIXTURES", "audited", "said"]

FIXTURES = Path(__file__).parent / "fixtures"
ARCHITECTURES = ("sm_90a", "sm_100a")

DECLARATIONS = read_declarations(
    """
    [[kernel]]
    name = "*TensorCop*"
    parameters = ["activation", "weight", "out"]
    static = ["weight"]

    [[kernel]]
    name = "*"
    parameters = ["activation", "weight", "flag", "out", "count"]
    static = ["weight"]
    """
)

_EARLY = ("before-wait", ("activation",))

EXPECTED: dict[str, set[tuple[str, tuple[str, ...]]]] = {
    "hoisted_activation": {_EARLY},
    "noncoherent_activation": {("non-coherent", ("activation",))},
    "load_before_poll": {_EARLY},
    "load_inside_poll": {_EARLY},
    "poll_that_gives_up": {_EARLY, ("before-wait", ("flag",))},
    "wait_on_one_branch": {_EARLY},
    "select_of_two": {("before-wait", ("activation", "weight"))},
    "pointer_from_memory": {("unknown-provenance", ())},
    "async_copy_before_wait": {_EARLY},
    "bulk_copy_before_wait": {_EARLY},
    "load_after_mbarrier_of_weights": {_EARLY},
    "one_thread_waits_alone": {_EARLY},
    "tensor_copy_before_wait": {_EARLY},
    "weight_prefetch": set(),
    "load_after_poll": set(),
    "wait_on_both_branches": set(),
    "wait_dominates": set(),
    "load_after_mbarrier": set(),
    "one_thread_waits": set(),
    "poll_that_stops": set(),
    "mailbox_fragments": set(),
    "tensor_copy_of_weights": set(),
}
"""Kernel -> (finding, parameters); the first thirteen are wrong, the others only look so."""


def facts(kernel: Kernel) -> KernelFacts:
    """What the small kernels declare."""
    return declaration_for(kernel, DECLARATIONS)


def audited(kernel: Kernel) -> Audit:
    """The audit of one of the small kernels."""
    return audit_kernel(kernel, facts(kernel))


def said(audit: Audit) -> set[tuple[str, tuple[str, ...]]]:
    """Findings as the table has them."""
    return {(finding.code, finding.parameters) for finding in audit.findings}
