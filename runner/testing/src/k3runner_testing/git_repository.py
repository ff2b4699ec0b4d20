"""Small git repositories for tests of what reads git objects."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

__all__ = ["GitRepository"]

_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "somebody",
    "GIT_AUTHOR_EMAIL": "somebody@example.org",
    "GIT_COMMITTER_NAME": "somebody",
    "GIT_COMMITTER_EMAIL": "somebody@example.org",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}


class GitRepository:
    """A repository with a work tree in a folder of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        """Makes an empty repository on the branch `main`."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch", "main", *arguments, ".")

    def git(self, *arguments: str) -> str:
        """Runs git in the repository and returns what it prints, without the last newline."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env={**os.environ, **_ENVIRONMENT},
            capture_output=True,
            check=True,
        )
        return done.stdout.decode().rstrip("\n")

    def commit(self, files: Mapping[str, str | bytes | None], message: str = "change") -> str:
        """Writes files, removes those that are None, commits, and returns the full SHA."""
        for name, content in files.items():
            path = self.folder / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.git("add", "--all", ".")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")
