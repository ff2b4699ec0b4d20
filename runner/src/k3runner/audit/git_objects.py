"""Reads commits and blobs of a git repository without a checkout and without trusting it.

Only plumbing commands run, with the repository's hooks, filters, diff programs, replacement
objects and lazy downloads switched off, so that nothing of the repository is executed.
"""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final

from k3runner.audit.hunks import Hunk, HunkReader, RawChange, parse_raw_changes
from k3runner.errors import MachineError, UsageError
from k3runner.visible import one_line

__all__ = ["GitObjects"]

_LIMIT_S: Final = 300.0
_SHA1_DIGITS: Final = 40
_RENAME_LIMIT: Final = 4000
"""Above so many candidates git pairs only exact renames, instead of comparing for hours."""
_ENVIRONMENT: Final[Mapping[str, str]] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    # An empty list allows no protocol: an older git that knows no GIT_NO_LAZY_FETCH stops here.
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}
_SETTINGS: Final = (
    # Reading objects is safe whoever owns the folder, since nothing of it is executed.
    *("-c", "safe.directory=*"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
)
_SAFE_DIFF: Final = ("--no-ext-diff", "--no-textconv", "--no-color")


class GitObjects:
    """One repository, with or without a work tree."""

    def __init__(self, folder: Path) -> None:
        """Finds the repository.

        Args:
            folder: The repository, a folder of its work tree, or a bare repository.

        Raises:
            UsageError: There is no repository, or its objects are named by another hash.
            MachineError: Git is not installed.
        """
        self._folder = folder
        if not folder.is_dir():
            raise UsageError(
                f"--repo must be a folder, found none at {folder}.",
                "Give the path of a clone, with or without a work tree.",
            )
        found = self._try("rev-parse", "--absolute-git-dir")
        if found is None:
            raise UsageError(
                f"{folder} is no git repository.",
                "Give the path of a clone, with or without a work tree.",
            )
        kind = self._try("rev-parse", "--show-object-format")
        if kind is not None and kind.strip() != "sha1":
            raise UsageError(
                f"The repository {folder} names objects by {one_line(kind.strip(), 20)}; records "
                "hold SHA-1 names only.",
                "Audit a clone of the repository in its SHA-1 form.",
            )

    def commit(self, revision: str, flag: str) -> str:
        """The full SHA of the commit that a revision names.

        Args:
            revision: Branch, tag, SHA or expression such as `main~3`.
            flag: Flag that gave it, for the sentence.

        Raises:
            UsageError: The revision names no commit here.
        """
        shown = one_line(revision, 80)
        if not revision or revision.startswith("-") or "\0" in revision or "\n" in revision:
            raise UsageError(
                f"{flag} must name a commit, found `{shown}`.", "Give a branch, a tag or a SHA."
            )
        found = self._try("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        sha = (found or "").strip()
        if len(sha) == _SHA1_DIGITS:
            return sha
        cut = " The clone is shallow." if self.is_shallow() else ""
        hint = "Fetch it first: git fetch origin REVISION"
        raise UsageError(f"{flag} `{shown}` names no commit of {self._folder}.{cut}", hint)

    def is_shallow(self) -> bool:
        """Whether the history is cut."""
        return (self._try("rev-parse", "--is-shallow-repository") or "").strip() == "true"

    def merge_base(self, base: str, head: str) -> str | None:
        """The best common ancestor; None when the history here holds none."""
        found = self._try("merge-base", base, head)
        return found.split()[0] if found and found.strip() else None

    def changes(self, base: str, head: str) -> tuple[RawChange, ...]:
        """Touched paths between the trees of two commits, renames paired.

        Raises:
            UsageError: A tree is missing, as in a partial clone.
        """
        listing = self._run(
            "diff-tree", "-r", "-z", "--raw", "--no-abbrev", *self._rename_flags(), base, head
        )
        return parse_raw_changes(listing)

    def hunks(self, base: str, head: str) -> Mapping[tuple[str, str], tuple[Hunk, ...]]:
        """Changed line ranges, by the names of the blobs before and after.

        The patch is read as a stream and only line ranges are kept, so its size does not matter.

        Raises:
            UsageError: A blob is missing, as in a partial clone.
        """
        command = self._command(
            *("diff-tree", "-r", "-p", "-U0", "--full-index", *_SAFE_DIFF),
            *(*self._rename_flags(), base, head),
        )
        reader = HunkReader()
        with _started(command) as process:
            for line in _lines(process.stdout):
                reader.feed(line)
            said = process.stderr.read() if process.stderr else b""
            if process.wait(_LIMIT_S) != 0:
                raise self._missing(said)
        return reader.finish()

    def blobs(self, names: tuple[str, ...], largest_bytes: int) -> Mapping[str, bytes | None]:
        """Contents of blobs.

        Args:
            names: Full object names.
            largest_bytes: Larger blobs are not kept.

        Returns:
            Name -> content; None for a blob that is too large. Missing blobs have no entry.
        """
        found: dict[str, bytes | None] = {}
        if not names:
            return found
        command = self._command("cat-file", "--batch")
        with _started(command, stdin=subprocess.PIPE) as process:
            ask, answer = process.stdin, process.stdout
            if ask is None or answer is None:
                raise AssertionError("cat-file has no pipes")
            for name in names:
                ask.write(f"{name}\n".encode())
                ask.flush()
                header = answer.readline().split()
                if len(header) != 3:  # noqa: PLR2004
                    continue
                size = int(header[2])
                content = _read_exactly(answer, size, keep=size <= largest_bytes)
                answer.read(1)
                if header[1] == b"blob":
                    found[name] = content
            ask.close()
            process.wait(_LIMIT_S)
        return found

    def _rename_flags(self) -> tuple[str, ...]:
        return ("-M50%", f"-l{_RENAME_LIMIT}")

    def _command(self, *arguments: str) -> list[str]:
        return ["git", "--no-pager", "-C", str(self._folder), *_SETTINGS, *arguments]

    def _run(self, *arguments: str) -> bytes:
        done = _completed(self._command(*arguments))
        if done.returncode != 0:
            raise self._missing(done.stderr)
        return done.stdout

    def _try(self, *arguments: str) -> str | None:
        """Output of a command; None when it fails."""
        done = _completed(self._command(*arguments))
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None

    def _missing(self, stderr: bytes) -> UsageError:
        said = one_line(stderr.decode("utf-8", "replace").strip() or "git said nothing", 200)
        return UsageError(
            f"The repository {self._folder} does not hold all objects of the two commits: {said}.",
            "Use a clone without --filter, or fetch the missing objects: git fetch --refetch",
        )


def _completed(command: list[str]) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(
            command, capture_output=True, env=dict(_ENVIRONMENT), timeout=_LIMIT_S, check=False
        )
    except FileNotFoundError as error:
        raise _no_git() from error
    except subprocess.TimeoutExpired as error:
        raise MachineError(
            f"git did not answer within {_LIMIT_S:g} s.",
            "Audit a smaller range, or a clone on a faster disk.",
        ) from error


@contextlib.contextmanager
def _started(
    command: list[str], stdin: int = subprocess.DEVNULL
) -> "Iterator[subprocess.Popen[bytes]]":
    try:
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(_ENVIRONMENT),
        )
    except FileNotFoundError as error:
        raise _no_git() from error
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def _no_git() -> MachineError:
    return MachineError("The program git is not installed.", "Install it; the audit reads with it.")


def _lines(stream: IO[bytes] | None) -> Iterator[bytes]:
    """Starts of lines: a line of any length is read in pieces and only its first is given."""
    if stream is None:
        return
    start = True
    while piece := stream.readline(1 << 16):
        if start:
            yield piece
        start = piece.endswith(b"\n")


def _read_exactly(stream: IO[bytes], size: int, *, keep: bool) -> bytes | None:
    if keep:
        return stream.read(size)
    while size > 0:
        piece = stream.read(min(size, 1 << 20))
        if not piece:
            break
        size -= len(piece)
    return None
