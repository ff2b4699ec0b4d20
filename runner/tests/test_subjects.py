from pathlib import Path

import pytest

import k3runner.subjects
from k3runner.errors import UsageError
from k3runner.subjects import load_subject, shipped_subjects
from k3runner.subjects.loading import overlay_digest
from k3runner_testing.fake_subject import write_fake_subject


def test_shipped_subject_arms_differ_in_the_backend_only() -> None:
    assert "k3-tiny" in shipped_subjects()
    baseline, candidate = load_subject("k3-tiny").arms
    assert baseline.spec.decode_backend == baseline.spec.expected_path == "stock"
    assert candidate.spec.decode_backend == candidate.spec.expected_path == "candidate"
    changed = [word.replace("candidate", "stock") for word in candidate.spec.engine_arguments]
    assert tuple(changed) == baseline.spec.engine_arguments


def test_load_subject_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(UsageError, match="k3-tiny"):
        load_subject("k4")


def test_load_subject_overlay_has_its_digest_and_a_change_changes_it(tmp_path: Path) -> None:
    overlay = tmp_path / "patched"
    overlay.mkdir()
    (overlay / "module.py").write_text("x = 1\n", "utf-8")
    path = write_fake_subject(tmp_path)
    path.write_text(path.read_text("utf-8") + 'overlay = "patched"\n', "utf-8")
    candidate = load_subject(str(path)).arms[1]
    assert candidate.overlay == overlay
    before = candidate.spec.overlay_sha256
    assert before == overlay_digest(overlay)
    (overlay / "module.py").write_text("x = 2\n", "utf-8")
    assert load_subject(str(path)).arms[1].spec.overlay_sha256 != before


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "fake"', 'name = "fake"\nnames = 3', "unknown key `names`"),
        ("arguments = []", "arguments = [1]", "must hold only strings"),
        ("random_weights = true", 'random_weights = "yes"', "must be bool"),
        ('name = "baseline"', 'name = "control"', "found `control`"),
        ("[model]", "[model", "is not TOML"),
        ('revision = "none"', "", "`revision` is missing"),
    ],
)
def test_load_subject_with_a_mistake_is_a_sentence(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    path = write_fake_subject(tmp_path)
    path.write_text(path.read_text("utf-8").replace(old, new, 1), "utf-8")
    with pytest.raises(UsageError, match=said):
        load_subject(str(path))


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("kimi-k3-upstream", "draft_tokens = 7\n", "draft_tokens = 9\n", "has 9 draft tokens"),
        ("kimi-k3-upstream", "tensor_parallel = 8\n", "tensor_parallel = 4\n", "has 4 tensor-par"),
        (
            "deepseek-v41-flash",
            "draft_tokens = 7\n",
            "draft_tokens = 0\n",
            "has 0 draft tokens; the scope admits 1 or 2",
        ),
    ],
)
def test_a_deployment_that_the_path_refuses_at_start_up_is_found_before_the_load(
    tmp_path: Path, name: str, old: str, new: str, said: str
) -> None:
    assert name in shipped_subjects()
    source = Path(k3runner.subjects.__file__).parent / f"{name}.toml"
    assert old in source.read_text("utf-8")
    path = tmp_path / f"{name}.toml"
    path.write_text(source.read_text("utf-8").replace(old, new, 1), "utf-8")
    with pytest.raises(UsageError, match=said):
        load_subject(str(path))
