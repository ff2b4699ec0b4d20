"""What a change touches: files, symbols, selection of a path, state it writes, ways back to stock.

Written by `k3-eval audit isolation` from git objects alone. Everything in it is text of a change
that somebody else wrote: shown, never interpreted.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from k3bundle.record import CommitSha, Count, Record, Sha256, ShortText

__all__ = [
    "AuditPolicy",
    "ChangeKind",
    "IsolationAudit",
    "PathClass",
    "SelectionPoint",
    "StandardReturn",
    "StateWrite",
    "TouchedFile",
    "TouchedSymbol",
    "outside_files",
]

PathClass = Literal["model_only", "shared", "test", "documentation", "unnamed"]
"""Who uses a file: one model, every model, tests, readers, or no rule of the policy names it."""

ChangeKind = Literal["added", "changed", "removed", "renamed"]
"""What happened to a file."""

Excerpt = Annotated[str, StringConstraints(max_length=200)]
"""One line of code, shortened."""


class AuditPolicy(Record):
    """The policy that classified the paths."""

    name: str = Field(max_length=80)
    """Its name, for example `vllm`."""
    sha256: Sha256
    """Digest of the policy file."""


class TouchedSymbol(Record):
    """A function, class or the module itself, in which lines changed."""

    name: ShortText
    """Qualified name, for example `KimiModel.forward`; `<module>` for lines outside of all."""
    change: Literal["added", "changed", "removed"]
    """What happened to it."""
    lines: Count
    """Lines of it that were added or removed, those of inner symbols left out."""


class TouchedFile(Record):
    """One file that the change touches."""

    path: ShortText
    """Path after the change; before it for a removed file."""
    previous_path: ShortText | None
    """Path before a rename; None without one."""
    change: ChangeKind
    """What happened to it."""
    path_class: PathClass
    """How the policy classifies it; the stricter class of both paths of a rename."""
    area: str = Field(max_length=80)
    """Part of the engine that the rule names, for example `sampling`."""
    rule: ShortText
    """Glob that decided; empty when none did."""
    content: Literal["python", "text", "binary", "link", "submodule"]
    """What it holds."""
    added_lines: Count
    """Lines added; 0 for what has no lines."""
    removed_lines: Count
    """Lines removed."""
    symbols: tuple[TouchedSymbol, ...]
    """Symbols in which lines changed, in order; empty for what is not parsed Python."""
    unread: ShortText | None
    """Why symbols and state are not known, in a sentence; None when they are."""


class _Place(Record):
    path: ShortText
    """File, after the change."""
    line: int = Field(ge=1)
    """Line in it."""
    symbol: ShortText
    """Symbol around it."""
    path_class: PathClass
    """Class of the file."""
    excerpt: Excerpt
    """The line, shortened."""


class SelectionPoint(_Place):
    """A place where the change chooses between the optimized path and the standard one."""

    kind: Literal["config_key", "environment", "import"]
    """By a configuration key, by an environment variable, or by importing the model's code."""
    name: ShortText
    """Key, variable or module."""
    branches: bool
    """Whether the line decides a branch; else it only names the key."""


class StateWrite(_Place):
    """A place where the change writes state that outlives the call or belongs to others."""

    kind: Literal[
        "monkey_patch",
        "module_global",
        "environment",
        "registration",
        "foreign_attribute",
        "in_place",
        "buffer",
    ]
    """`monkey_patch`: an attribute of something imported. `module_global`: a name of the module,
    from inside a function. `environment`: a variable of the process. `registration`: an operator,
    hook or class in a registry. `foreign_attribute`: an attribute of an argument, or two levels
    below self. `in_place`: the content of an argument's attribute. `buffer`: a buffer or parameter
    of the module itself."""
    target: ShortText
    """What is written."""


class StandardReturn(_Place):
    """A place where the change gives a step back to the standard path, or refuses to serve it."""

    kind: Literal["declines", "calls_parent", "swallows_error", "refuses"]
    """`declines`: a deciding function returns nothing. `calls_parent`: the parent's method serves.
    `swallows_error`: an exception is caught and not raised again. `refuses`: an error is raised."""
    condition: Excerpt
    """The innermost condition around it; empty when it is unconditional."""
    told: bool
    """Whether the branch logs, counts or raises; False is a silent fallback."""


class IsolationAudit(Record):
    """`isolation.json`: the audit of one change."""

    schema_version: Literal["1"] = "1"
    """Record format version."""
    policy: AuditPolicy
    """What classified the paths."""
    base_sha: CommitSha
    """Commit that was given as base."""
    head_sha: CommitSha
    """Commit that was audited."""
    compared_sha: CommitSha
    """Commit whose tree the head was compared with."""
    comparison: Literal["merge_base", "trees"]
    """`merge_base`: with the common ancestor. `trees`: with the base itself, for want of one."""
    files: tuple[TouchedFile, ...]
    """Every touched file, sorted by path."""
    selections: tuple[SelectionPoint, ...]
    """Where a path is selected, in lines that the change adds."""
    writes: tuple[StateWrite, ...]
    """What state is written, in lines that the change adds."""
    returns: tuple[StandardReturn, ...]
    """How a step returns to the standard path, in lines that the change adds."""
    device_functions: Count
    """Functions of device code among the touched ones; their writes go to their arguments."""
    notes: tuple[ShortText, ...]
    """What could not be read, and what was left out, in sentences."""


def outside_files(audit: IsolationAudit) -> tuple[TouchedFile, ...]:
    """Files that other models use too, or that no rule names: the change is not alone in them."""
    return tuple(file for file in audit.files if file.path_class in {"shared", "unnamed"})
