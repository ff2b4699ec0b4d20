"""Reads the audit that goes into a bundle, and refuses one of another commit."""

from pathlib import Path

from pydantic import ValidationError

from k3bundle.isolation_record import IsolationAudit
from k3bundle.subject import ChangeUnderTest
from k3runner.errors import UsageError

__all__ = ["read_isolation"]


def read_isolation(path: Path, change: ChangeUnderTest) -> IsolationAudit:
    """Read an audit from a file.

    Raises:
        UsageError: The file is not there, is no audit, or is the audit of another commit.
    """
    hint = (
        "Make it with `k3-eval audit isolation --base REV --head "
        f"{change.commit_sha} --repo PATH --json > FILE`."
    )
    try:
        audit = IsolationAudit.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"--isolation {path} cannot be read: {error.strerror}.", hint) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the top"
        raise UsageError(f"{path} is no audit: {where}: {first['msg']}.", hint) from error
    if audit.head_sha != change.commit_sha:
        raise UsageError(
            f"{path} is the audit of {audit.head_sha}, and --commit is {change.commit_sha}.", hint
        )
    return audit
