"""The audit that goes into a bundle is one of the commit that is evaluated."""

from pathlib import Path

import pytest

from k3runner.audit.isolation import audit_isolation
from k3runner.audit.policy import load_policy
from k3runner.commands.isolation_file import read_isolation
from k3runner.errors import UsageError
from k3runner_testing.git_repository import GitRepository
from k3runner_testing.run_case import CHANGE


def test_an_audit_of_the_commit_is_read_and_of_another_is_refused(tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "engine")
    base = repository.commit({"vllm/a.py": "x = 1\n"})
    head = repository.commit({"vllm/a.py": "x = 2\n"})
    audit = audit_isolation(repository.folder, base, head, load_policy(None))
    file = tmp_path / "isolation.json"
    file.write_text(audit.model_dump_json())
    assert read_isolation(file, CHANGE.model_copy(update={"commit_sha": head})) == audit
    with pytest.raises(UsageError, match=f"is the audit of {head}, and --commit is {'a' * 40}"):
        read_isolation(file, CHANGE)


@pytest.mark.parametrize("content", [None, "{}", "not json", '{"head_sha": 1}'])
def test_a_file_that_is_no_audit_is_a_sentence(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "isolation.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError, match=r"cannot be read|is no audit") as error:
        read_isolation(file, CHANGE)
    assert "k3-eval audit isolation" in error.value.hint
