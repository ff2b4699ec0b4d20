"""Reading git objects: any clone, none of its code, and a sentence for what is missing."""

from pathlib import Path

import pytest

from k3runner.audit import git_objects
from k3runner.audit.git_objects import GitObjects
from k3runner.audit.hunks import Hunk
from k3runner.errors import UsageError
from k3runner_testing.git_repository import GitRepository


def test_a_bare_clone_is_read_like_a_work_tree(repository: GitRepository, tmp_path: Path) -> None:
    base = repository.commit({"a.py": "x = 1\n"})
    head = repository.commit({"a.py": "x = 2\n"})
    repository.git("clone", "--quiet", "--bare", ".", str(tmp_path / "bare.git"))
    whole, bare = GitObjects(repository.folder), GitObjects(tmp_path / "bare.git")
    assert whole.changes(base, head) == bare.changes(base, head)
    assert bare.commit("main", "--head") == head
    assert bare.merge_base(base, head) == base


def test_a_changed_file_has_its_line_ranges(repository: GitRepository) -> None:
    base = repository.commit({"a.py": "1\n2\n3\n4\n5\n"})
    head = repository.commit({"a.py": "1\ntwo\ntwo more\n3\n4\n"})
    git = GitObjects(repository.folder)
    (change,) = git.changes(base, head)
    hunks = git.hunks(base, head)[change.old_blob, change.new_blob]
    assert hunks == (Hunk(2, 1, 2, 2), Hunk(5, 1, 5, 0))


def test_content_that_looks_like_a_header_of_a_patch_is_content(repository: GitRepository) -> None:
    fake = f"index {'a' * 40}..{'b' * 40} 100644\n@@ -1 +1,9 @@\n"
    base = repository.commit({"a.txt": "x\n", "b.txt": "y\n"})
    head = repository.commit({"a.txt": fake, "b.txt": "z\n"})
    git = GitObjects(repository.folder)
    hunks = git.hunks(base, head)
    assert len(hunks) == 2
    assert {one for ranges in hunks.values() for one in ranges} == {
        Hunk(1, 1, 1, 2),
        Hunk(1, 1, 1, 1),
    }


def test_a_rename_names_both_paths(repository: GitRepository) -> None:
    text = "".join(f"line {n}\n" for n in range(50))
    base = repository.commit({"old name.py": text})
    head = repository.commit({"old name.py": None, "new\tname.py": text + "more\n"})
    (change,) = GitObjects(repository.folder).changes(base, head)
    assert (change.status, change.previous_path, change.path) == (
        "R",
        "old name.py",
        "new\tname.py",
    )


def test_nothing_of_the_repository_is_executed(repository: GitRepository) -> None:
    trap = repository.folder / "trap"
    script = f"#!/bin/sh\ntouch {trap}\n"
    base = repository.commit({"a.py": "x = 1\n", ".gitattributes": "*.py diff=trap filter=trap\n"})
    head = repository.commit({"a.py": "x = 2\n"})
    program = repository.folder / "program"
    program.write_text(script)
    program.chmod(0o755)
    for key in ("diff.trap.textconv", "diff.trap.command", "diff.external", "core.fsmonitor",
                "filter.trap.smudge", "filter.trap.clean", "core.pager"):  # fmt: skip
        repository.git("config", key, str(program))
    git = GitObjects(repository.folder)
    (change,) = git.changes(base, head)
    assert git.hunks(base, head)[change.old_blob, change.new_blob] == (Hunk(1, 1, 1, 1),)
    assert git.blobs((change.new_blob,), 100) == {change.new_blob: b"x = 2\n"}
    assert not trap.exists()


def test_replacement_objects_are_not_followed(repository: GitRepository) -> None:
    base = repository.commit({"a.py": "x = 1\n"})
    head = repository.commit({"a.py": "x = 2\n"})
    repository.git("replace", head, base)
    assert len(GitObjects(repository.folder).changes(base, head)) == 1


@pytest.mark.parametrize("revision", ["nowhere", "--output=x", "", "HEAD^{tree}", "a\nb"])
def test_a_revision_that_names_no_commit_is_a_sentence(
    repository: GitRepository, revision: str
) -> None:
    repository.commit({"a.py": "x = 1\n"})
    with pytest.raises(UsageError, match="--head") as error:
        GitObjects(repository.folder).commit(revision, "--head")
    assert error.value.hint


def test_a_folder_without_a_repository_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no git repository"):
        GitObjects(tmp_path)
    with pytest.raises(UsageError, match="must be a folder"):
        GitObjects(tmp_path / "nothing")


def test_a_repository_with_other_names_for_objects_is_a_sentence(tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "new", "--object-format=sha256")
    repository.commit({"a.py": "x = 1\n"})
    with pytest.raises(UsageError, match="sha256"):
        GitObjects(repository.folder)


def test_a_commit_beyond_a_shallow_clone_is_told_so(
    repository: GitRepository, tmp_path: Path
) -> None:
    first = repository.commit({"a.py": "x = 1\n"})
    repository.commit({"a.py": "x = 2\n"})
    clone = tmp_path / "shallow"
    repository.git("clone", "--quiet", "--depth", "1", f"file://{repository.folder}", str(clone))
    git = GitObjects(clone)
    assert git.is_shallow()
    with pytest.raises(UsageError, match="The clone is shallow"):
        git.commit(first, "--base")


def test_a_clone_without_blobs_is_told_and_downloads_nothing(
    repository: GitRepository, tmp_path: Path
) -> None:
    repository.git("config", "uploadpack.allowFilter", "true")
    base = repository.commit({"a.py": "x = 1\n"})
    head = repository.commit({"a.py": "x = 2\n"})
    clone = tmp_path / "partial"
    repository.git(
        *("clone", "--quiet", "--bare", "--filter=blob:none"),
        *(f"file://{repository.folder}", str(clone)),
    )
    git = GitObjects(clone)
    with pytest.raises(UsageError, match="does not hold all objects"):
        git.hunks(base, head)
    (change,) = git.changes(base, head)
    assert git.blobs((change.new_blob,), 100) == {}


def test_a_large_blob_is_known_and_not_kept(repository: GitRepository) -> None:
    repository.commit({})
    head = repository.commit({"a.bin": b"x" * 1000, "b.txt": "small\n"})
    git = GitObjects(repository.folder)
    names = {one.path: one.new_blob for one in git.changes(f"{head}~1", head)}
    found = git.blobs((names["a.bin"], names["b.txt"]), 100)
    assert found == {names["a.bin"]: None, names["b.txt"]: b"small\n"}


def test_a_clone_of_another_user_is_read(
    repository: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = repository.commit({"a.py": "x = 1\n"})
    # git's own switch for tests of its refusal of other people's folders.
    other = {**git_objects._ENVIRONMENT, "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    monkeypatch.setattr(git_objects, "_ENVIRONMENT", other)
    assert GitObjects(repository.folder).commit("main", "--head") == head
    monkeypatch.setattr(git_objects, "_SETTINGS", ())
    with pytest.raises(UsageError, match="is no git repository"):
        GitObjects(repository.folder)
