"""A plan: cells, boots in order, gates. Its digest is what two runs must share to be compared.

The nonce is not part of a plan: two contributors who run one plan get different prompts and the
same plan digest.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from k3bundle.gates import Gates
from k3bundle.record import CellId, Count, Milliseconds, Record, Sha256, ShortText
from k3bundle.scope_record import DeclaredScope
from k3bundle.speed_role import SpeedRole, Superiority
from k3bundle.subject import ArmName, ArmSpec
from k3bundle.traffic import ClosedLoop, Traffic

__all__ = [
    "DEFAULT_DEPLOYMENT",
    "BootSlot",
    "CellPlan",
    "Deployment",
    "FeatureCell",
    "FeatureName",
    "Gates",
    "GreedyCell",
    "KernelCell",
    "Plan",
    "ServiceObjective",
    "ServingCell",
    "SkippedCell",
    "TierName",
]

TierName = Literal["smoke", "kernels", "quick", "standard", "full"]
"""The tiers of the standard evaluation, by cost."""

FeatureName = Literal["structured_output", "sampling", "streaming", "chat"]
"""Serving features that a feature cell can exercise."""


class Deployment(Record):
    """How both arms are started alike. Cells of another deployment need boots of their own."""

    name: CellId
    """Name, unique in the plan, for example `tp8-k7`."""
    engine_arguments: tuple[str, ...] = ()
    """Arguments that this deployment adds for both arms, before those of the arm."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Environment variables that this deployment adds for both arms."""
    gpu_count: Count = 0
    """Accelerators that one boot uses; tokens/s/GPU divides by it. 0: none."""
    draft_tokens: Count = 0
    """Speculative tokens per request and step; 0: no speculation."""


DEFAULT_DEPLOYMENT: Final = "default"
"""Name of the only deployment of a plan that does not name any."""


class ServiceObjective(Record):
    """What a request must keep to count as good. Goodput counts only such requests."""

    ttft_ms: Milliseconds | None
    """Longest time to first token; None: any."""
    tpot_ms: Milliseconds | None
    """Longest time per output token; None: any."""


class ServingCell(Record):
    """Timed streams."""

    kind: Literal["serving"] = "serving"
    """Tag."""
    cell_id: CellId
    """Name, unique in the plan."""
    deployment: CellId = DEFAULT_DEPLOYMENT
    """Deployment in whose boots it runs."""
    endpoint: Literal["completions", "chat"]
    """Which OpenAI endpoint is streamed."""
    traffic: Traffic = ClosedLoop()
    """How requests arrive."""
    concurrency: int = Field(ge=1, le=65536)
    """Requests in flight in a closed loop; the most that may be in flight otherwise."""
    prompt_tokens: int = Field(ge=1)
    """Exact length of each prompt in tokens (completions), or a target for chat and for prompts
    from a file; a trace says its own."""
    shared_prefix_tokens: Count = 0
    """Leading tokens that all prompts of the cell share. The prefix cache may serve them."""
    prompt_file_sha256: Sha256 | None = None
    """Digest of the file that the prompts come from; None: made from the nonce."""
    output_tokens: int = Field(ge=1)
    """Exact number of tokens asked for; end-of-sequence is ignored. A trace says its own."""
    warmup_requests: Count
    """Requests of one round of warm-up, which are sent first and not measured."""
    warmup_rounds: int = Field(default=1, ge=1, le=64)
    """Most rounds of warm-up. No more are sent once the last three took equally long; with fewer
    than four it cannot be told whether they did."""
    request_count: int = Field(ge=1)
    """Measured requests."""
    speed: SpeedRole = Superiority()
    """What the cell has to show about speed, where the plan claims speed."""
    expects_fallback: bool = False
    """True where the subject declares that its path steps aside: the baseline's path must then
    serve the candidate's decode steps."""
    objective: ServiceObjective | None = None
    """What goodput counts; None: goodput is not computed."""


class GreedyCell(Record):
    """Greedy outputs of the arms, compared token by token."""

    kind: Literal["greedy"] = "greedy"
    """Tag."""
    cell_id: CellId
    """Name, unique in the plan."""
    deployment: CellId = DEFAULT_DEPLOYMENT
    """Deployment in whose boots it runs."""
    concurrency: int = Field(ge=1, le=65536)
    """Requests in flight."""
    prompt_tokens: tuple[int, ...] = Field(min_length=1)
    """Length of each prompt in tokens; one request per entry."""
    output_tokens: int = Field(ge=1)
    """Tokens generated for each prompt."""


class FeatureCell(Record):
    """One serving feature, exercised the same way in both arms."""

    kind: Literal["feature"] = "feature"
    """Tag."""
    cell_id: CellId
    """Name, unique in the plan."""
    deployment: CellId = DEFAULT_DEPLOYMENT
    """Deployment in whose boots it runs."""
    feature: FeatureName
    """Which feature."""
    request_count: int = Field(ge=1)
    """Distinct prompts; a feature may send several requests for each."""
    output_tokens: int = Field(ge=1)
    """Token limit of each request."""
    json_schema: dict[str, Any] | None = None
    """Schema that a structured output must satisfy; only for `structured_output`."""


class KernelCell(Record):
    """One task of a kernel package, asked through the package's own command."""

    kind: Literal["kernel"] = "kernel"
    """Tag."""
    cell_id: CellId
    """Name, unique in the plan."""
    deployment: CellId = DEFAULT_DEPLOYMENT
    """Deployment in whose boot it runs."""
    task: Literal["check", "audit", "bench"]
    """`check`: every case against its reference. `audit`: reads that may come too early in machine
    code. `bench`: times, of ops that are right."""
    arguments: tuple[ShortText, ...] = Field(min_length=1, max_length=100)
    """Arguments after the package's Python, which prints JSON lines; `{commit}` stands for the
    commit under evaluation."""
    ops: tuple[CellId, ...] = Field(min_length=1, max_length=1000)
    """Ops that must be among the answers; declared, so that none can be left out unseen."""
    groups: tuple[CellId, ...] = ()
    """Groups of which each op must have a case; only for `check`."""
    limit_s: int = Field(ge=1, le=86_400)
    """Time after which the command is ended."""


class SkippedCell(Record):
    """A cell the tier names but this node or subject cannot run."""

    kind: Literal["skipped"] = "skipped"
    """Tag."""
    cell_id: CellId
    """Name, unique in the plan."""
    deployment: CellId = DEFAULT_DEPLOYMENT
    """Deployment in whose boots it would have run."""
    of_kind: Literal["serving", "greedy", "feature", "kernel"] = "serving"
    """What it would have been. A plan that claims speed does not claim it while it skips a serving
    cell for the sake of the machine."""
    cause: Literal["unsupported", "machine"] = "machine"
    """`unsupported`: the subject does not claim to serve it. `machine`: this node cannot run it."""
    reason: ShortText
    """Why it is skipped, in one sentence."""


CellPlan = Annotated[
    ServingCell | GreedyCell | FeatureCell | KernelCell | SkippedCell, Field(discriminator="kind")
]
"""One planned cell; `kind` says which."""


class BootSlot(Record):
    """One planned start of the engine. Slots are run in order.

    Two neighbouring slots make a pair. Two pairs that follow each other make a block in which
    the arms stand A-B-B-A or B-A-A-B, so that a steady drift cancels.
    """

    slot: Count
    """Position in boot order, from 0."""
    arm: ArmName
    """Which arm is started."""
    pair: Count
    """Which pair it belongs to; both of its boots are of one deployment and one role."""
    role: Literal["compare", "null"] = "compare"
    """`compare`: one baseline and one candidate boot. `null`: an A-A pair of two baseline boots
    that runs the serving cells only; it shows the noise and is in no ratio of the arms."""
    deployment: CellId = DEFAULT_DEPLOYMENT
    """Deployment that is started; the boot runs the cells of that deployment."""


class Plan(Record):
    """Everything decided before the first boot."""

    schema_version: Literal["1"] = "1"
    """Record format version."""
    tier: TierName
    """Tier that was asked for."""
    subject: str = Field(max_length=80)
    """Name of the subject definition."""
    pairing: Literal["paired", "single", "package"]
    """`paired`: both arms in ABBA order. `single`: one existing server, nothing to compare.
    `package`: a kernel package without an engine, one boot whose cells are its commands."""
    arms: tuple[ArmSpec, ...] = Field(min_length=1, max_length=2)
    """The arms; the baseline first."""
    allowed_config_differences: tuple[str, ...]
    """Keys of the effective engine configuration in which the arms may differ."""
    deployments: tuple[Deployment, ...] = Field(
        default=(Deployment(name=DEFAULT_DEPLOYMENT),), min_length=1
    )
    """How both arms are started alike; each cell and each boot belongs to one."""
    only_deployments: tuple[CellId, ...] = ()
    """Deployments that the plan was restricted to by request; empty: all that the subject declares
    and the machine can run. Whatever the verdict says is then said of these alone."""
    scope: DeclaredScope = DeclaredScope()
    """What the subject declares that it serves."""
    cells: tuple[CellPlan, ...] = Field(min_length=1)
    """All cells; each one that is not skipped runs in every boot of its deployment, in null pairs
    only if it is a serving cell."""
    boots: tuple[BootSlot, ...] = Field(min_length=1)
    """Boots in order, for example A-B-B-A."""
    gates: Gates
    """Thresholds."""
    limits: tuple[ShortText, ...]
    """What a run of this plan cannot show, in sentences for the report."""
