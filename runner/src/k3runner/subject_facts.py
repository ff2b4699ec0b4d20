"""Reads what is evaluated, and says what changed between two attempts of one run."""

import platform
from collections.abc import Iterator
from dataclasses import dataclass, replace

from k3bundle.environment import NodeFacts
from k3bundle.subject import (
    ChangeUnderTest,
    EngineBuild,
    ImageFacts,
    ModelIdentity,
    SubjectFacts,
)
from k3runner.effective_config import flatten_config
from k3runner.errors import MachineError
from k3runner.image import refuse_other_architecture
from k3runner.image_tree import read_image_tree
from k3runner.installed_commit import refuse_other_commit
from k3runner.installed_files import EXTERNAL_VERSION, read_installed_engine
from k3runner.model_files import external_model, read_model_identity
from k3runner.node_facts import read_node_facts
from k3runner.package_plan import package_of
from k3runner.plan import EXTERNAL_SUBJECT
from k3runner.settings import RunConfig
from k3runner.shadowed_files import shadow_remarks
from k3runner.subjects.definition import EngineLaunch

__all__ = ["Facts", "read_facts", "refuse_changed"]

_SHOWN_DIFFERENCES = 3
_NODE_KEYS = ("architecture", "cpu_model", "cpu_count", "gpus", "driver_version")
"""What must be equal for boots to be compared; a kernel update between attempts may be."""


@dataclass(frozen=True)
class Facts:
    """What runs, and where."""

    subject: SubjectFacts
    """The subject."""
    node: NodeFacts
    """The machine."""


def read_facts(
    config: RunConfig, change: ChangeUnderTest, *, external_model_name: str | None
) -> Facts:
    """Reads the engine's installation, the model and the machine.

    Args:
        config: Configuration of the run.
        change: What the evidence is for.
        external_model_name: Model name of an existing server; None when engines are booted.

    Raises:
        MachineError: The engine's Python or the model cannot be read, the image is made for
            another machine, or another commit of the change's repository is installed.
    """
    refuse_other_architecture(config.image, platform.machine())
    name = config.subject.name
    remarks: tuple[str, ...] = ()
    if config.pairing == "package" and config.engine_python is not None:
        installed = read_installed_engine(_package_launch(config), config.engine_python)
        refuse_other_commit(installed.origins, change)
        engine, remarks = installed.build, installed.remarks
        model = ModelIdentity(name="no model", revision="none", random_weights=False, files=())
    elif external_model_name is not None or not config.engine_python or not config.model_folder:
        engine = _external_engine(config.subject.engine.name)
        model = external_model(external_model_name or EXTERNAL_VERSION)
        name = EXTERNAL_SUBJECT
        remarks = ("The server was not started by the runner: its build could not be checked.",)
    else:
        installed = read_installed_engine(config.subject.engine, config.engine_python)
        refuse_other_commit(installed.origins, change)
        brought = shadow_remarks(config.subject.arms, config.engine_python)
        engine, remarks = installed.build, installed.remarks + brought
        model = read_model_identity(config.subject.model, config.model_folder)
    tree = read_image_tree(config.image.digest)
    return Facts(
        subject=SubjectFacts(
            subject=name,
            change=change,
            engine=engine,
            image=ImageFacts(
                manifest_digest=config.image.digest,
                tree_sha256=tree.sha256,
                architecture=config.image.architecture,
            ),
            model=model,
        ),
        node=read_node_facts(remarks=remarks + tree.remarks),
    )


def _package_launch(config: RunConfig) -> EngineLaunch:
    """The package in the place of the engine: its files are compared with their RECORD."""
    package = package_of(config.subject)
    return replace(
        config.subject.engine,
        name=package.name,
        distributions=(package.name,),
        path_distributions=(),
    )


def refuse_changed(recorded: Facts, found: Facts) -> None:
    """Checks that a resumed run measures what its first attempt measured.

    Raises:
        MachineError: The engine, the model, the image or the machine differ; names what.
    """
    differences = list(_differences(recorded, found))
    if differences:
        more = len(differences) - _SHOWN_DIFFERENCES
        shown = "; ".join(differences[:_SHOWN_DIFFERENCES]) + (f"; {more} more" * (more > 0))
        raise MachineError(
            f"This is not what the first attempt measured: {shown}.",
            "Put it back as it was, or start a new run.",
        )


def _differences(recorded: Facts, found: Facts) -> Iterator[str]:
    before, now = (
        flatten_config(
            {
                "engine": facts.subject.engine.model_dump(mode="json"),
                "image": facts.subject.image.model_dump(mode="json"),
                "model": {file.path: file.sha256 for file in facts.subject.model.files},
                "node": facts.node.model_dump(mode="json", include=set(_NODE_KEYS)),
            },
            volatile=(),
        )
        for facts in (recorded, found)
    )
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key):
            yield f"{key} was {before.get(key, 'absent')} and is {now.get(key, 'absent')}"


def _external_engine(name: str) -> EngineBuild:
    return EngineBuild(
        name=name,
        version=EXTERNAL_VERSION,
        distribution=EXTERNAL_VERSION,
        python_version=EXTERNAL_VERSION,
        packages={},
        files_checked=0,
        differences=(),
    )
