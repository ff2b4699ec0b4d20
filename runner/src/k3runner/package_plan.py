"""The plan of a kernel package: one GPU, one boot, a cell for each of its commands. Pure."""

from k3bundle.environment import NodeFacts
from k3bundle.gates import Gates
from k3bundle.plan import DEFAULT_DEPLOYMENT, Deployment, Plan
from k3bundle.scope_record import DeclaredDeployment, DeclaredScope
from k3bundle.subject import ArmSpec
from k3runner.boot_order import boot_slots
from k3runner.errors import MachineError, UsageError
from k3runner.subjects.definition import Subject
from k3runner.subjects.kernel_package import KernelPackage
from k3runner.subjects.scope import SubjectDeployment, machine_problem
from k3runner.tiers.loading import Tier

__all__ = ["package_of", "package_plan"]

_ONE_GPU = Deployment(name=DEFAULT_DEPLOYMENT, gpu_count=1)


def package_of(subject: Subject) -> KernelPackage:
    """The kernel package of a subject.

    Raises:
        UsageError: It declares none.
    """
    if subject.kernels is None:
        raise UsageError(
            f"Subject {subject.name} declares no kernel package, which the tier kernels asks.",
            "Use a subject with a [kernels] table, for example kimi-k3-k3decode.",
        )
    return subject.kernels


def package_plan(tier: Tier, subject: Subject, node: NodeFacts, gates: Gates) -> Plan:
    """Builds the plan of a package.

    Args:
        tier: A tier with kernel tasks.
        subject: Declares the package, and the GPUs that it runs on.
        node: The machine.
        gates: Thresholds, the subject's among them.

    Raises:
        UsageError: The subject declares no package.
        MachineError: The machine has no GPU that the package runs on.
    """
    package = package_of(subject)
    problem = machine_problem(subject.scope, SubjectDeployment(spec=_ONE_GPU), node)
    if problem is not None:
        raise MachineError(
            f"None of the {len(tier.kernels)} tasks of tier {tier.name} for {subject.name} can run "
            f"here. {problem}",
            "Use a machine that has it; `k3-eval plan --node FILE` plans for another one.",
        )
    return Plan(
        tier=tier.name,
        subject=subject.name,
        pairing="package",
        arms=(_arm(package),),
        allowed_config_differences=(),
        deployments=(_ONE_GPU,),
        scope=DeclaredScope(
            compute_capabilities=subject.scope.compute_capabilities,
            deployments=(DeclaredDeployment(name=DEFAULT_DEPLOYMENT, gpu_count=1),),
        ),
        cells=tuple(task.cell(package) for task in tier.kernels),
        boots=boot_slots([DEFAULT_DEPLOYMENT], tier.boot_order, 0),
        gates=gates,
        limits=tier.limits,
    )


def _arm(package: KernelPackage) -> ArmSpec:
    return ArmSpec(
        name="candidate",
        decode_backend=package.name,
        expected_path="package",
        engine_arguments=(),
        environment=dict(package.environment),
        overlay_sha256=None,
    )
