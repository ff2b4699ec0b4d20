"""Whole audits of small repositories, as records and as text."""

import json
from pathlib import Path

import pytest

from k3bundle.isolation_record import IsolationAudit, TouchedFile, outside_files
from k3runner.audit import isolation
from k3runner.audit.isolation import audit_isolation
from k3runner.audit.isolation_text import audit_lines
from k3runner.audit.policy import IsolationPolicy
from k3runner.cli import run_command_line
from k3runner_testing.git_repository import GitRepository

MODEL = "vllm/models/kimi_k3/nvidia/model.py"
STOCK = """
class Model(Base):
    def __init__(self, config):
        self.config = config

    def forward(self, x):
        return stock(x)

    def gone(self):
        return 1
"""
FAST = """
from vllm.v1.sample import sampler


class Model(Base):
    def __init__(self, config):
        self.config = config
        self.fast = config.additional_config.get("decode_backend") == "fast"
        sampler.forward = my_forward

    def forward(self, x):
        plan = self.plan(x)
        if plan is None:
            return stock(x)
        return run(x)

    def plan(self, x):
        if x.tokens > 64:
            return None
        return 1
"""


def _audit(repository: GitRepository, base: str, policy: IsolationPolicy) -> IsolationAudit:
    return audit_isolation(repository.folder, base, "HEAD", policy)


def _file(audit: IsolationAudit, path: str) -> TouchedFile:
    return next(file for file in audit.files if file.path == path)


def test_a_decode_path_is_audited_from_end_to_end(
    repository: GitRepository, policy: IsolationPolicy
) -> None:
    base = repository.commit(
        {MODEL: STOCK, "vllm/v1/sample/sampler.py": "def forward():\n    pass\n"}
    )
    repository.commit(
        {
            MODEL: FAST,
            "vllm/v1/sample/sampler.py": "def forward():\n    return 1\n",
            "tests/test_k3.py": "from vllm import envs\n",
        }
    )
    audit = _audit(repository, base, policy)
    symbols = {(one.name, one.change) for one in _file(audit, MODEL).symbols}
    assert symbols == {
        ("<module>", "changed"),
        ("Model.__init__", "changed"),
        ("Model.forward", "changed"),
        ("Model.plan", "added"),
        ("Model.gone", "removed"),
    }
    assert [file.path for file in outside_files(audit)] == ["vllm/v1/sample/sampler.py"]
    assert {point.name for point in audit.selections} == {"decode_backend", "additional_config"}
    assert [(one.kind, one.target) for one in audit.writes] == [("monkey_patch", "sampler.forward")]
    assert [(one.kind, one.condition, one.told) for one in audit.returns] == [
        ("declines", "x.tokens > 64", False)
    ]
    text = "\n".join(audit_lines(audit))
    assert "The change is not alone: it touches 1 file that other models use: sampling (1)." in text
    assert "forward (changed, 2)" in text
    assert "declines when x.tokens > 64, and tells nobody" in text
    assert "replaces an attribute of imported code: sampler.forward" in text


def test_a_change_inside_one_model_is_alone(
    repository: GitRepository, policy: IsolationPolicy
) -> None:
    base = repository.commit({MODEL: STOCK})
    repository.commit({MODEL: STOCK + "\n\nX = 1\n", "docs/a.md": "text\n"})
    audit = _audit(repository, base, policy)
    assert outside_files(audit) == ()
    assert "The change stays inside model-only code: kimi-k3." in audit_lines(audit)


def test_what_base_gained_meanwhile_is_not_part_of_the_change(
    repository: GitRepository, policy: IsolationPolicy
) -> None:
    fork = repository.commit({MODEL: STOCK, "vllm/envs.py": "A = 1\n"})
    repository.git("checkout", "--quiet", "-b", "change")
    repository.commit({MODEL: FAST})
    repository.git("checkout", "--quiet", "main")
    repository.commit({"vllm/envs.py": "A = 2\n"})
    audit = audit_isolation(repository.folder, "main", "change", policy)
    assert [file.path for file in audit.files] == [MODEL]
    assert (audit.comparison, audit.compared_sha) == ("merge_base", fork)


def test_renamed_removed_binary_linked_and_broken_files_are_told(
    repository: GitRepository, policy: IsolationPolicy
) -> None:
    base = repository.commit(
        {
            MODEL: STOCK,
            "vllm/v1/core/old.py": "def f():\n    return 1\n",
            "csrc/a.bin": b"\0\1\2",
        }
    )
    (repository.folder / "vllm" / "link.py").symlink_to("envs.py")
    repository.commit(
        {
            MODEL: None,
            "vllm/models/kimi_k3/nvidia/moved.py": STOCK,
            "vllm/v1/core/old.py": None,
            "csrc/a.bin": b"\0\1\3",
            "vllm/broken.py": "def f(:\n",
            "vllm/null.py": b"x = '\0'\n",
            "vllm/deep.py": "x = " + "(" * 5000 + ")" * 5000 + "\n",
        }
    )
    audit = _audit(repository, base, policy)
    moved = _file(audit, "vllm/models/kimi_k3/nvidia/moved.py")
    assert (moved.change, moved.previous_path, moved.symbols) == ("renamed", MODEL, ())
    gone = _file(audit, "vllm/v1/core/old.py")
    assert (gone.change, gone.removed_lines) == ("removed", 2)
    assert [(one.name, one.change) for one in gone.symbols] == [("f", "removed")]
    unread = {file.path: file.unread for file in audit.files if file.unread}
    assert unread["csrc/a.bin"] == "It is binary, so nothing in it can be named."
    assert unread["vllm/link.py"] is not None
    assert unread["vllm/broken.py"] is not None
    assert unread["vllm/broken.py"].startswith("It does not parse as Python of this version")
    assert unread["vllm/null.py"] == "It is binary, so nothing in it can be named."
    assert unread["vllm/deep.py"] is not None


def test_a_file_that_became_a_link_is_told(
    repository: GitRepository, policy: IsolationPolicy
) -> None:
    base = repository.commit({"vllm/a.py": "x = 1\n"})
    (repository.folder / "vllm" / "a.py").unlink()
    (repository.folder / "vllm" / "a.py").symlink_to("b.py")
    repository.commit({})
    (file,) = _audit(repository, base, policy).files
    assert (file.content, file.change, file.removed_lines) == ("link", "changed", 1)


def test_a_submodule_is_told(repository: GitRepository, policy: IsolationPolicy) -> None:
    base = repository.commit({"a.py": "x = 1\n"})
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{base},third_party/flash")
    repository.git("commit", "--quiet", "--message", "submodule")
    (file,) = _audit(repository, base, policy).files
    assert (file.content, file.path) == ("submodule", "third_party/flash")
    assert file.unread is not None


def test_unrelated_histories_are_compared_as_trees(
    repository: GitRepository, policy: IsolationPolicy
) -> None:
    base = repository.commit({"vllm/envs.py": "A = 1\n"})
    repository.git("checkout", "--quiet", "--orphan", "other")
    repository.commit({"vllm/envs.py": "A = 2\n"})
    audit = _audit(repository, base, policy)
    assert (audit.comparison, audit.compared_sha) == ("trees", base)
    assert "no common ancestor" in audit.notes[0]


def test_a_shallow_clone_is_audited_with_a_note(
    repository: GitRepository, tmp_path: Path, policy: IsolationPolicy
) -> None:
    for number in range(3):
        repository.commit({MODEL: STOCK + f"X = {number}\n"})
    clone = tmp_path / "shallow"
    repository.git("clone", "--quiet", "--depth", "2", f"file://{repository.folder}", str(clone))
    audit = audit_isolation(clone, "HEAD~1", "HEAD", policy)
    assert [file.path for file in audit.files] == [MODEL]
    assert "The clone is shallow" in audit.notes[0]


def test_nothing_touched_is_said(repository: GitRepository, policy: IsolationPolicy) -> None:
    base = repository.commit({MODEL: STOCK})
    repository.commit({})
    audit = _audit(repository, base, policy)
    assert audit.files == ()
    assert "The two commits have the same files: nothing is touched." in audit_lines(audit)


def test_text_shows_no_escape_sequences_of_paths_and_code(
    repository: GitRepository, policy: IsolationPolicy
) -> None:
    base = repository.commit({MODEL: STOCK})
    name = "vllm/v1/\N{RIGHT-TO-LEFT OVERRIDE}evil\x1b[2J.py"
    repository.commit({name: "import os\nos.environ['\\x1b'] = '\x1b[31m'\n"})
    text = "\n".join(audit_lines(_audit(repository, base, policy)))
    assert "\x1b" not in text
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text
    assert "writes the process environment" in text


def test_the_command_prints_text_and_json(
    repository: GitRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    base = repository.commit({MODEL: STOCK})
    head = repository.commit({MODEL: FAST})
    arguments = ["audit", "isolation", "--base", base, "--head", "main", "--repo"]
    assert run_command_line([*arguments, str(repository.folder)]) == 0
    assert capsys.readouterr().out.startswith(f"Isolation audit of {head[:12]}")
    assert run_command_line([*arguments, str(repository.folder), "--json"]) == 0
    audit = IsolationAudit.model_validate_json(capsys.readouterr().out)
    assert audit.head_sha == head


def test_the_command_tells_what_is_wrong(
    repository: GitRepository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.commit({MODEL: STOCK})
    flags = ["audit", "isolation", "--base", "main", "--head"]
    assert run_command_line([*flags, "gone", "--repo", str(repository.folder)]) == 2
    assert "--head `gone` names no commit" in capsys.readouterr().err
    assert run_command_line([*flags, "main", "--repo", str(tmp_path / "x")]) == 2
    assert "--repo must be a folder" in capsys.readouterr().err


def test_help_teaches_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["audit", "isolation", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "nothing of the repository runs" in text
    assert "k3-eval audit isolation --base origin/main" in text
    assert run_command_line(["audit"]) in {0, 2}


def test_the_record_is_json_with_a_version(
    repository: GitRepository, policy: IsolationPolicy
) -> None:
    base = repository.commit({MODEL: STOCK})
    repository.commit({MODEL: FAST})
    record = json.loads(_audit(repository, base, policy).model_dump_json())
    assert record["schema_version"] == "1"
    assert record["policy"]["name"] == "vllm"


def test_a_very_large_change_is_listed_in_part_and_says_so(
    repository: GitRepository, policy: IsolationPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = repository.commit({})
    patch = "import torch\ntorch.a = 1\ntorch.b = 2\ntorch.c = 3\n"
    repository.commit({f"vllm/{name}.py": patch for name in "abc"})
    monkeypatch.setattr(isolation, "_MOST_FILES", 2)
    monkeypatch.setattr(isolation, "_MOST_FINDINGS", 4)
    audit = _audit(repository, base, policy)
    assert [file.path for file in audit.files] == ["vllm/a.py", "vllm/b.py"]
    assert len(audit.writes) == 4
    assert audit.notes == (
        "The change touches 3 files; the first 2 by path are listed. Audit it in parts.",
        "Of 6 writes of state the first 4 are listed.",
    )


def test_a_file_beyond_the_limit_is_counted_and_not_looked_into(
    repository: GitRepository, policy: IsolationPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = repository.commit({})
    repository.commit({"vllm/large.py": "x = 1\n" * 100})
    monkeypatch.setattr(isolation, "_LARGEST_BLOB_BYTES", 100)
    (file,) = _audit(repository, base, policy).files
    assert (file.added_lines, file.symbols) == (100, ())
    assert file.unread is not None
    assert "was not read" in file.unread


def test_text_lists_a_few_of_many_and_names_the_rest(
    repository: GitRepository, policy: IsolationPolicy
) -> None:
    base = repository.commit({})
    lines = "".join(f"torch.a{number} = 1\n" for number in range(60))
    functions = "".join(f"def f{number}():\n    pass\n" for number in range(12))
    repository.commit({"vllm/many.py": f"import torch\n{lines}{functions}"})
    text = "\n".join(audit_lines(_audit(repository, base, policy)))
    assert "… 20 more; --json has all." in text
    assert ", 5 more" in text
