"""`python -m k3server.verify_child`: judge one archive in a process with limits, print JSON.

The archive comes from a stranger, so it is opened only here: a crash, endless loop or memory
bomb ends this process and nothing else. The answer is one JSON object on stdout,
`{"findings": [...], "document": {...} | null}`; exactly one of the two is empty. With
`--secrets-only` nothing but secrets is looked for, and both may be empty.
"""

import argparse
import ctypes
import json
import os
import resource
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from k3bundle.archive import ArchiveLimits

__all__ = ["ABANDONED", "OUT_OF_MEMORY", "main"]

OUT_OF_MEMORY: Final = 3
"""Exit status when the memory limit was reached."""

ABANDONED: Final = 4
"""Exit status when nobody is left to answer to."""

_PR_SET_PDEATHSIG: Final = 1


def main(arguments: list[str] | None = None) -> int:
    """Set the limits, verify, print.

    Returns:
        Exit status: 0 when an answer was printed, whatever it says.
    """
    parser = argparse.ArgumentParser(prog="python -m k3server.verify_child", description=__doc__)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--repository", default="")
    parser.add_argument("--pull-request", default=0, type=int)
    parser.add_argument("--commit", default="")
    parser.add_argument("--secrets-only", action="store_true")
    parser.add_argument("--parent-pid", required=True, type=int)
    parser.add_argument("--cpu-s", required=True, type=int)
    parser.add_argument("--memory-bytes", required=True, type=int)
    parser.add_argument("--archive-bytes", required=True, type=int)
    parser.add_argument("--content-bytes", required=True, type=int)
    chosen = parser.parse_args(arguments)
    if not _dies_with(chosen.parent_pid):
        return ABANDONED
    _set_limits(cpu_s=chosen.cpu_s, memory_bytes=chosen.memory_bytes)
    try:
        answer = _scan(chosen) if chosen.secrets_only else _judge(chosen)
    except MemoryError:
        return OUT_OF_MEMORY
    sys.stdout.write(answer)
    return 0


def _dies_with(parent_pid: int) -> bool:
    """Tie this process to its parent, which may be killed at any moment.

    Returns:
        False when the parent died before the tie was made.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent_pid


def _set_limits(*, cpu_s: int, memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def _judge(chosen: argparse.Namespace) -> str:
    # Imported under the limits, because reading the libraries is part of the cost.
    from k3bundle.policy import Policy  # noqa: PLC0415
    from k3bundle.subject import ChangeUnderTest  # noqa: PLC0415
    from k3server.judge import judge  # noqa: PLC0415

    change = ChangeUnderTest(
        repository=chosen.repository,
        pull_request=chosen.pull_request,
        commit_sha=chosen.commit,
    )
    # A plan of a tier that asks for less than the tier does is no evidence of that tier.
    policy = Policy(change=change, require_standard=True)
    findings, document = judge(chosen.archive, policy, _limits(chosen))
    return json.dumps(
        {
            "findings": [asdict(finding) for finding in findings],
            "document": None
            if document is None
            else document.model_dump(mode="json", by_alias=True),
        }
    )


def _scan(chosen: argparse.Namespace) -> str:
    from k3server.judge import secret_findings  # noqa: PLC0415

    limits = _limits(chosen)
    findings = [asdict(finding) for finding in secret_findings(chosen.archive, limits)]
    return json.dumps({"findings": findings, "document": None})


def _limits(chosen: argparse.Namespace) -> "ArchiveLimits":
    from k3bundle.archive import ArchiveLimits  # noqa: PLC0415

    content = chosen.content_bytes
    # What cannot be compressed becomes hardly larger, so a larger file is never read.
    archive = min(chosen.archive_bytes, content + content // 64 + 2**20)
    # One file inside may be all that there is.
    return ArchiveLimits(archive, file_bytes=content, total_bytes=content)


if __name__ == "__main__":
    sys.exit(main())
