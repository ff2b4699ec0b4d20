"""How an image is started, and what the launcher refuses."""

from dataclasses import replace
from pathlib import Path

import pytest

from k3image.engine import Store, open_store, run_root
from k3image.fetched import host_architecture
from k3image.launch import Launch, container_command, launch
from k3image.problem import ImageError

DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def asked(tmp_path: Path) -> Launch:
    return Launch(
        image="localhost/k3-eval:cpu",
        digest=DIGEST,
        architecture=host_architecture(),
        results=tmp_path / "results",
        uid=10001,
        gid=10001,
        arguments=("--tier", "smoke"),
    )


def test_a_container_is_closed_and_its_image_asserted(asked: Launch) -> None:
    command = container_command(asked)
    joined = " ".join(command)
    for words in (
        *("--read-only", "--user 10001:10001", "--network none", "--cap-drop all"),
        *("--security-opt no-new-privileges", f"K3EVAL_IMAGE_DIGEST={DIGEST}"),
    ):
        assert words in joined
    assert command[-3:] == ["localhost/k3-eval:cpu", "--tier", "smoke"]
    assert "nvidia" not in joined


def test_a_gpu_run_gets_what_it_needs(asked: Launch, tmp_path: Path) -> None:
    joined = " ".join(container_command(replace(asked, gpus=True, model=tmp_path)))
    for words in ("nvidia.com/gpu=all", "--ipc host", "memlock=-1", f"{tmp_path}:/model:ro"):
        assert words in joined


def test_an_image_for_another_machine_is_refused(asked: Launch, tmp_path: Path) -> None:
    other = "arm64" if host_architecture() == "amd64" else "amd64"
    with pytest.raises(ImageError, match=f"made for {other}, and this machine") as refused:
        launch(Store(tmp_path, {}), replace(asked, architecture=other))
    assert refused.value.exit_code == 5


def test_a_missing_model_and_a_file_in_the_way_are_sentences(asked: Launch, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"There is no folder .* for the model"):
        launch(Store(tmp_path, {}), replace(asked, model=tmp_path / "nothing"))
    (tmp_path / "results").write_text("a file")
    with pytest.raises(ImageError, match=r"The folder for results, .* cannot be made"):
        launch(Store(tmp_path, {}), asked)


def test_a_store_in_a_long_folder_keeps_its_running_state_under_a_short_name(
    tmp_path: Path,
) -> None:
    places = [tmp_path / ("long-" * 20) / name for name in ("one", "two")]
    short, other = (run_root(place, Path("/tmp")) for place in places)  # noqa: S108
    assert len(str(short)) <= 50
    assert short != other
    assert run_root(places[0], tmp_path / "no such folder") == places[0] / "run"
    open_store(places[0])
    assert f'runroot = "{run_root(places[0])}"' in (places[0] / "storage.conf").read_text()
