"""Puts an audit together: objects from git, classes from the policy, findings from the code."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from k3bundle.isolation_record import (
    AuditPolicy,
    ChangeKind,
    IsolationAudit,
    SelectionPoint,
    StandardReturn,
    StateWrite,
    TouchedFile,
    TouchedSymbol,
)
from k3runner.audit.git_objects import GitObjects
from k3runner.audit.hunks import NO_BLOB, Hunk, RawChange, added_lines, removed_lines
from k3runner.audit.policy import Classified, IsolationPolicy
from k3runner.audit.python_module import (
    ChangedModule,
    SymbolMap,
    parse_python,
    symbol_map,
    touched_symbols,
)
from k3runner.audit.selection import selection_points, text_selection_points
from k3runner.audit.standard_returns import standard_returns
from k3runner.audit.state_writes import state_writes

__all__ = ["audit_isolation"]

_LARGEST_BLOB_BYTES: Final = 2 << 20
_MOST_FILES: Final = 5_000
_MOST_FINDINGS: Final = 5_000
_LINK: Final = "120000"
_SUBMODULE: Final = "160000"
_CHANGES: Final[Mapping[str, ChangeKind]] = {
    "A": "added",
    "D": "removed",
    "R": "renamed",
    "C": "added",
}
_Content = Literal["python", "text", "binary", "link", "submodule"]
_NO_SYMBOLS: Final = SymbolMap(owner=(), names=())


@dataclass
class _Found:
    """Findings of all files so far."""

    files: list[TouchedFile] = field(default_factory=list)
    selections: list[SelectionPoint] = field(default_factory=list)
    writes: list[StateWrite] = field(default_factory=list)
    returns: list[StandardReturn] = field(default_factory=list)
    device_functions: int = 0


@dataclass(frozen=True)
class _Sides:
    """One change with its contents."""

    change: RawChange
    content: _Content
    before: bytes
    after: bytes
    hunks: tuple[Hunk, ...]
    unread: str | None


def audit_isolation(repo: Path, base: str, head: str, policy: IsolationPolicy) -> IsolationAudit:
    """Audits what `head` changes since it left `base`.

    Args:
        repo: A clone, with or without a work tree. Only its objects are read.
        base: Revision that the change starts from.
        head: Revision with the change.
        policy: Classes of paths, and what to look for.

    Raises:
        UsageError: No repository, an unknown revision, or missing objects.
        MachineError: Git is not installed.
    """
    git = GitObjects(repo)
    base_sha, head_sha = git.commit(base, "--base"), git.commit(head, "--head")
    ancestor = git.merge_base(base_sha, head_sha)
    compared = ancestor or base_sha
    changes = git.changes(compared, head_sha)
    notes = list(_history_notes(git, ancestor))
    if len(changes) > _MOST_FILES:
        notes.append(
            f"The change touches {len(changes)} files; the first {_MOST_FILES} by path are "
            "listed. Audit it in parts."
        )
        changes = changes[:_MOST_FILES]
    found = _Found()
    hunks = git.hunks(compared, head_sha) if changes else {}
    for sides in _with_contents(git, changes, hunks):
        _audit_file(sides, policy, found)
    return IsolationAudit(
        policy=AuditPolicy(name=policy.name, sha256=policy.sha256),
        base_sha=base_sha,
        head_sha=head_sha,
        compared_sha=compared,
        comparison="merge_base" if ancestor else "trees",
        files=tuple(found.files),
        selections=tuple(found.selections[:_MOST_FINDINGS]),
        writes=tuple(found.writes[:_MOST_FINDINGS]),
        returns=tuple(found.returns[:_MOST_FINDINGS]),
        device_functions=found.device_functions,
        notes=(*notes, *_left_out_notes(found)),
    )


def _history_notes(git: GitObjects, ancestor: str | None) -> tuple[str, ...]:
    shallow = git.is_shallow()
    if ancestor is None:
        why = "in this shallow clone" if shallow else "of base and head"
        return (
            f"There is no common ancestor {why}, so the trees of base and head are compared: what "
            "base gained meanwhile looks removed. Fetch more history: git fetch --unshallow.",
        )
    if shallow:
        return (
            "The clone is shallow; the common ancestor may be an older one than the true one, and "
            "changes of others may be listed too.",
        )
    return ()


def _left_out_notes(found: _Found) -> tuple[str, ...]:
    groups = (
        ("places of selection", len(found.selections)),
        ("writes of state", len(found.writes)),
        ("ways back", len(found.returns)),
    )
    return tuple(
        f"Of {count} {name} the first {_MOST_FINDINGS} are listed."
        for name, count in groups
        if count > _MOST_FINDINGS
    )


def _with_contents(
    git: GitObjects,
    changes: tuple[RawChange, ...],
    hunks: Mapping[tuple[str, str], tuple[Hunk, ...]],
) -> list[_Sides]:
    """Changes with the contents of their blobs, in the order given."""
    wanted = {
        blob
        for change in changes
        for mode, blob in ((change.old_mode, change.old_blob), (change.new_mode, change.new_blob))
        if blob != NO_BLOB and mode != _SUBMODULE
    }
    blobs = git.blobs(tuple(sorted(wanted)), _LARGEST_BLOB_BYTES)
    return [_sides(change, blobs, hunks) for change in changes]


def _sides(
    change: RawChange,
    blobs: Mapping[str, bytes | None],
    hunks: Mapping[tuple[str, str], tuple[Hunk, ...]],
) -> _Sides:
    mode = change.new_mode if change.status != "D" else change.old_mode
    unread = None
    sides = []
    for blob in (change.old_blob, change.new_blob):
        content = blobs.get(blob, b"" if blob == NO_BLOB else None)
        if content is None and mode != _SUBMODULE:
            limit = _LARGEST_BLOB_BYTES >> 20
            unread = f"It is larger than {limit} MiB or not in the clone, and was not read."
        sides.append(content or b"")
    before, after = sides
    content_kind = _content_kind(change, mode, before, after)
    ranges = hunks.get((change.old_blob, change.new_blob), ())
    if change.status == "T":
        ranges = (
            *hunks.get((change.old_blob, NO_BLOB), ()),
            *hunks.get((NO_BLOB, change.new_blob), ()),
        )
    return _Sides(change, content_kind, before, after, ranges, unread)


def _content_kind(change: RawChange, mode: str, before: bytes, after: bytes) -> _Content:
    if mode == _SUBMODULE:
        return "submodule"
    if mode == _LINK:
        return "link"
    # The sign by which git itself tells binary content.
    if any(b"\0" in side[:8000] for side in (before, after)):
        return "binary"
    return "python" if change.path.endswith((".py", ".pyi")) else "text"


def _audit_file(sides: _Sides, policy: IsolationPolicy, found: _Found) -> None:
    change = sides.change
    place = policy.classify_rename(change.path, change.previous_path)
    symbols: tuple[TouchedSymbol, ...] = ()
    unread = sides.unread or _why_unread(sides.content)
    if unread is None and sides.content == "python":
        try:
            symbols, unread = _audit_python(sides, place, policy, found)
        except RecursionError:
            unread = "Its code is nested too deeply to be looked into."
    elif unread is None:
        _audit_text(sides, place, policy, found)
    found.files.append(
        TouchedFile(
            path=change.path[:2000],
            previous_path=change.previous_path[:2000] if change.previous_path else None,
            change=_CHANGES.get(change.status, "changed"),
            path_class=place.path_class,
            area=place.area[:80],
            rule=place.rule[:2000],
            content=sides.content,
            added_lines=sum(hunk.new_count for hunk in sides.hunks),
            removed_lines=sum(hunk.old_count for hunk in sides.hunks),
            symbols=symbols,
            unread=unread,
        )
    )


def _why_unread(content: _Content) -> str | None:
    reasons: Mapping[_Content, str] = {
        "binary": "It is binary, so nothing in it can be named.",
        "link": "It is a symbolic link; what it points to is not followed.",
        "submodule": "It is another repository at a commit; audit that one by itself.",
    }
    return reasons.get(content)


def _audit_python(
    sides: _Sides, place: Classified, policy: IsolationPolicy, found: _Found
) -> tuple[tuple[TouchedSymbol, ...], str | None]:
    """Symbols of a Python file, or why they are not known."""
    maps: list[SymbolMap] = []
    trees = []
    for source in (sides.before, sides.after):
        tree = parse_python(source)
        if isinstance(tree, str):
            return (), tree
        trees.append(tree)
        maps.append(symbol_map(tree, source.count(b"\n") + 1) if source else _NO_SYMBOLS)
    before, after = maps
    added = frozenset(added_lines(sides.hunks))
    symbols = touched_symbols(before, after, removed_lines(sides.hunks), sorted(added))
    if place.path_class not in {"test", "documentation"} and added:
        module = ChangedModule(
            path=sides.change.path[:2000],
            path_class=place.path_class,
            tree=trees[1],
            lines=tuple(sides.after.decode("utf-8", "replace").split("\n")),
            symbols=after,
            added=added,
        )
        state = state_writes(module, policy)
        found.selections.extend(selection_points(module, policy))
        found.returns.extend(standard_returns(module, policy))
        found.writes.extend(state.writes)
        found.device_functions += state.device_functions
    return symbols, None


def _audit_text(sides: _Sides, place: Classified, policy: IsolationPolicy, found: _Found) -> None:
    if place.path_class in {"test", "documentation"}:
        return
    lines = sides.after.decode("utf-8", "replace").split("\n")
    added = [(n, lines[n - 1]) for n in added_lines(sides.hunks) if 0 < n <= len(lines)]
    found.selections.extend(
        text_selection_points(sides.change.path[:2000], place.path_class, added, policy)
    )
