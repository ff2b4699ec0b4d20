"""A plausible run of the kernels tier: one GPU, a package of two ops. No number was measured."""

from collections.abc import Callable
from typing import Any, Final, Literal

from k3bundle.bundle import RunRecords
from k3bundle.canonical import plan_sha256, sha256_hex
from k3bundle.kernel_record import (
    AuditedKernel,
    CheckedCase,
    KernelCommand,
    KernelLine,
    TimedCase,
)
from k3bundle.plan import BootSlot, Deployment, KernelCell, Plan
from k3bundle.run import (
    AttemptRecord,
    BootEvent,
    BootReady,
    BootStarted,
    BootStopped,
    CellFinished,
    RunIdentity,
)
from k3bundle.scope_record import DeclaredScope
from k3bundle.standard_gates import KERNEL_GROUPS, STANDARD
from k3bundle.subject import ArmSpec
from k3bundle_testing.example_machine import example_separation, example_telemetry
from k3bundle_testing.example_plan import (
    EXAMPLE_CHANGE,
    example_environment,
    example_scrub,
    example_subject,
)

__all__ = ["KERNEL_OPS", "example_kernel_plan", "good_kernel_records", "kernel_lines"]

KERNEL_OPS: Final = ("attn_res", "router")
_BOOT: Final = "boot-0.0"
_WALL_NS: Final = 1_500_000_000
Task = Literal["check", "audit", "bench"]
_TASKS: Final[tuple[Task, ...]] = ("check", "audit", "bench")


def example_kernel_plan(**changes: Any) -> Plan:
    """A plan of one package: check, audit and bench of two ops."""
    gates = STANDARD["quick"].gates.model_copy(update={"claims_speed": False})
    plan = Plan(
        tier="kernels",
        subject="example-kernels",
        pairing="package",
        arms=(
            ArmSpec(
                name="candidate",
                decode_backend="example",
                expected_path="package",
                engine_arguments=(),
                environment={},
                overlay_sha256=None,
            ),
        ),
        allowed_config_differences=(),
        deployments=(Deployment(name="default", gpu_count=1),),
        scope=DeclaredScope(compute_capabilities=("9.0",)),
        cells=tuple(
            KernelCell(
                cell_id=task,
                task=task,
                arguments=("-m", f"example.{task}", "--json", "--commit", "{commit}"),
                ops=KERNEL_OPS,
                groups=KERNEL_GROUPS if task == "check" else (),
                limit_s=600,
            )
            for task in _TASKS
        ),
        boots=(BootSlot(slot=0, arm="candidate", pair=0),),
        gates=gates,
        limits=("No engine ran.",),
    )
    return plan.model_copy(update=changes)


def good_kernel_records(
    *,
    plan: Plan | None = None,
    change_line: Callable[[KernelLine], KernelLine | None] = lambda line: line,
) -> RunRecords:
    """Records of a complete plausible run of the kernels tier.

    Args:
        plan: The plan; None: the example's.
        change_line: Called with every line of the package; None leaves it out.
    """
    plan = plan or example_kernel_plan()
    boots, cells = _life(plan)
    said = (change_line(line) for line in kernel_lines())
    return RunRecords(
        plan=plan,
        run=RunIdentity(
            run_id="fedcba9876543210" * 2,
            nonce=sha256_hex(b"example nonce"),
            nonce_source="local",
            plan_sha256=plan_sha256(plan),
            created_at_utc="2026-01-02T03:00:00Z",
        ),
        subject=example_subject(EXAMPLE_CHANGE).model_copy(update={"subject": plan.subject}),
        environment=example_environment("quick"),
        attempts=(
            AttemptRecord(
                attempt=0,
                started_at_utc="2026-01-02T03:00:00Z",
                resumed=False,
                torn_lines_dropped=0,
            ),
        ),
        boots=boots,
        cells=cells,
        requests=(),
        coverage=(),
        counters=(),
        scrub=example_scrub(),
        telemetry=example_telemetry(boots, cells, gpus=1),
        separation=example_separation(boots),
        kernels=tuple(line for line in said if line is not None),
    )


def _life(plan: Plan) -> tuple[tuple[BootEvent, ...], tuple[CellFinished, ...]]:
    """The one boot, in which every command ended."""
    boots: tuple[BootEvent, ...] = (
        BootStarted(
            boot_id=_BOOT,
            slot=0,
            arm="candidate",
            attempt=0,
            at_utc="2026-01-02T03:00:01Z",
            command=("<engine-python>",),
        ),
        BootReady(boot_id=_BOOT, ready_after_ms=0.0, engine_version="0.1.0", effective_config={}),
        BootStopped(boot_id=_BOOT, how="clean", detail="All commands ended."),
    )
    cells = tuple(
        CellFinished(
            boot_id=_BOOT,
            slot=0,
            cell_id=cell.cell_id,
            at_utc=f"2026-01-02T03:00:{10 + number:02d}Z",
            wall_ns=_WALL_NS,
            request_count=0,
        )
        for number, cell in enumerate(plan.cells)
    )
    return boots, cells


def kernel_lines() -> tuple[KernelLine, ...]:
    """What the example's package says: all right, clean, and at two fifths of the byte floor."""
    return (
        *(_case(op, group) for op in KERNEL_OPS for group in KERNEL_GROUPS),
        _command("check", len(KERNEL_OPS) * len(KERNEL_GROUPS)),
        *(_audit(op) for op in KERNEL_OPS),
        _command("audit", len(KERNEL_OPS)),
        *(_timing(op) for op in KERNEL_OPS),
        _command("bench", len(KERNEL_OPS)),
    )


def _case(op: str, group: str) -> CheckedCase:
    return CheckedCase(
        boot_id=_BOOT,
        cell_id="check",
        op=op,
        case=f"{group}_m3",
        group=group,
        outcome="passed",
        worst=0.25,
        sentences=(),
    )


def _audit(op: str) -> AuditedKernel:
    return AuditedKernel(
        boot_id=_BOOT,
        cell_id="audit",
        file=f"{op}.cubin",
        kernel=f"kernel_{op}",
        architecture="sm_90a",
        decided_on="SASS",
        declared=True,
        dependent_launch=op == "router",
        findings=(),
    )


def _timing(op: str) -> TimedCase:
    return TimedCase(
        boot_id=_BOOT,
        cell_id="bench",
        op=op,
        case="tp8_m1",
        latency_us=25.0,
        spread_us=2.5,
        read_bytes=48_000_000,
        write_bytes=2_000_000,
        roofline_us=10.0,
        cold=True,
        read_us=20.0,
    )


def _command(task: Task, lines: int) -> KernelCommand:
    return KernelCommand(
        boot_id=_BOOT,
        cell_id=task,
        exit_code=0,
        lines=lines,
        other_lines=0,
        facts={"gpu": "Example GPU", "driver": "600.1"},
    )
