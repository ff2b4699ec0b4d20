"""The image of a run: by digest only, for this machine only, and the same when a run goes on."""

import platform
from dataclasses import replace
from pathlib import Path

import pytest

from k3runner.errors import EngineError, MachineError, UsageError
from k3runner.image import AssertedImage, refuse_other_architecture, resolve_image
from k3runner.run import ConfigOverrides, resume, run
from k3runner_testing.run_case import CHANGE, bundle_records, fake_config

DIGEST = f"sha256:{'ab' * 32}"


@pytest.mark.parametrize(
    "said",
    [
        "vllm/vllm-openai:kimi-k3",
        "nightly-dev-arm64-cu13.0.1-75c2eef",
        "latest",
        "sha256:ab",
        DIGEST.upper(),
        f"sha512:{'ab' * 64}",
        f"{DIGEST}\n",
    ],
)
def test_b40_an_image_by_tag_is_refused_and_the_sentence_says_how_to_name_it(said: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolve_image({"K3EVAL_IMAGE_DIGEST": said})
    assert "may mean another image tomorrow" in refused.value.problem
    assert ".RepoDigests" in refused.value.hint


@pytest.mark.parametrize("said", [DIGEST, f"vllm/vllm-openai@{DIGEST}", f"host:5000/a/b@{DIGEST}"])
def test_an_image_by_digest_is_its_digest(said: str) -> None:
    assert resolve_image({"K3EVAL_IMAGE_DIGEST": said}) == AssertedImage(digest=DIGEST)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("linux/arm64/v8", "aarch64"),
        ("arm64", "aarch64"),
        ("aarch64", "aarch64"),
        ("linux/amd64", "x86_64"),
        ("AMD64", "x86_64"),
        ("riscv64", "riscv64"),
    ],
)
def test_an_architecture_is_spelled_as_the_kernel_does(said: str, found: str) -> None:
    assert resolve_image({"K3EVAL_IMAGE_ARCHITECTURE": said}).architecture == found


def test_what_is_no_architecture_is_refused() -> None:
    with pytest.raises(UsageError, match=r"linux/arm64 or x86_64, found `windows/amd64`"):
        resolve_image({"K3EVAL_IMAGE_ARCHITECTURE": "windows/amd64"})


def test_nothing_asserted_is_nothing() -> None:
    assert resolve_image({}) == AssertedImage()
    assert resolve_image({"K3EVAL_IMAGE_DIGEST": ""}) == AssertedImage()


def test_b40_an_image_of_another_architecture_is_refused() -> None:
    image = AssertedImage(DIGEST, "x86_64")
    with pytest.raises(MachineError, match="made for x86_64 and this machine is aarch64"):
        refuse_other_architecture(image, "aarch64")
    refuse_other_architecture(image, "x86_64")
    refuse_other_architecture(AssertedImage(DIGEST), "aarch64")


def test_b40_a_run_in_an_image_of_another_architecture_does_not_start(tmp_path: Path) -> None:
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    config = replace(fake_config(tmp_path), image=AssertedImage(DIGEST, other))
    with pytest.raises(MachineError, match=f"The image is made for {other}"):
        run(config, CHANGE, print)
    assert not (tmp_path / "runs").exists()


def test_a_run_does_not_go_on_in_another_image(tmp_path: Path) -> None:
    image = AssertedImage(DIGEST, platform.machine())
    config = replace(fake_config(tmp_path, candidate={"start": "dies"}), image=image)
    with pytest.raises(EngineError):
        run(config, CHANGE, print)
    (folder,) = (tmp_path / "runs").iterdir()
    for now in (AssertedImage(), AssertedImage(f"sha256:{'cd' * 32}", platform.machine())):
        with pytest.raises(MachineError, match=rf"image\.manifest_digest was {DIGEST}"):
            resume(folder, ConfigOverrides(image=now), print)
    # The same image goes on, to the engine that still does not start.
    with pytest.raises(EngineError):
        resume(folder, ConfigOverrides(image=image), print)


def test_a_bundle_names_the_image_and_what_it_is_made_for(tmp_path: Path) -> None:
    config = fake_config(tmp_path)
    short = replace(config.tier, cells=config.tier.cells[:1])
    image = AssertedImage(DIGEST, platform.machine())
    result = run(replace(config, tier=short, image=image), CHANGE, print)
    found = bundle_records(result.bundle_path).subject.image
    assert (found.manifest_digest, found.architecture) == (DIGEST, platform.machine())
