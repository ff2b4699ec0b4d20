"""Whether what is installed is the commit under evaluation, where the installation says so. Pure.

An installer that fetches a package from a repository notes which commit it took. A package that was
built elsewhere says nothing, and then nothing is compared.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from k3bundle.subject import ChangeUnderTest
from k3runner.errors import MachineError

__all__ = ["Origin", "refuse_other_commit"]


@dataclass(frozen=True)
class Origin:
    """Where an installed distribution was fetched from."""

    name: str
    """The distribution."""
    url: str
    """Address of the repository."""
    commit_sha: str
    """Commit that was fetched."""


def refuse_other_commit(origins: Iterable[Origin], change: ChangeUnderTest) -> None:
    """Checks that nothing of the change's repository is installed from another commit.

    Args:
        origins: What the installation says.
        change: What the evidence is to be for.

    Raises:
        MachineError: Something is.
    """
    for origin in origins:
        if _repository(origin.url) != change.repository.lower():
            continue
        if origin.commit_sha.lower() != change.commit_sha:
            raise MachineError(
                f"{origin.name} is installed from commit {origin.commit_sha[:40]} of "
                f"{change.repository}, and {change.commit_sha} is to be evaluated.",
                "Install the commit that --commit names, or name the one that is installed.",
            )


def _repository(url: str) -> str:
    """`owner/name` of an address of any form; empty where it has none."""
    path = urlsplit(url).path if "://" in url else url.partition(":")[2]
    parts = path.lower().removesuffix("/").removesuffix(".git").split("/")
    return "/".join(parts[-2:]).lstrip("/")
