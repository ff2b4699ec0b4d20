"""Judges where a run would happen: in which image, and among what earlier runs left. Pure."""

from collections.abc import Iterator

from k3runner.doctor.check import Check
from k3runner.doctor.facts import DoctorFacts

__all__ = ["judge_place"]

_HOW = (
    "Set K3EVAL_IMAGE_DIGEST and K3EVAL_IMAGE_ARCHITECTURE where the container is started; "
    "runner/README.md says how."
)


def judge_place(facts: DoctorFacts) -> tuple[Check, ...]:
    """One check of the image where there is one to look at, and one of what was left behind."""
    return (*_image(facts), *_left_behind(facts))


def _image(facts: DoctorFacts) -> Iterator[Check]:
    image = facts.image
    if image is None:
        return
    if image.error is not None:
        yield Check("image", "problem", image.error, _HOW)
    elif image.architecture not in {None, facts.architecture}:
        yield Check(
            "image",
            "problem",
            f"The image is made for {image.architecture} and this machine is {facts.architecture}.",
            f"Take the image for {facts.architecture}, by its digest.",
        )
    elif image.digest is None:
        sentence = (
            "This is a container, and nobody says of which image: a bundle from here cannot name "
            "what somebody else would have to start."
        )
        yield Check("image", "warning", sentence, _HOW)
    else:
        yield Check("image", "ok", f"The image is {image.digest}.", "")


def _left_behind(facts: DoctorFacts) -> Iterator[Check]:
    for sentence in facts.left_behind:
        said, _, remedy = sentence.rpartition(". ")
        yield Check("left behind", "warning", f"{said}.", remedy)
