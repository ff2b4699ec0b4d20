"""The policy of an audit as data: which paths are whose, and what marks selection and fallback.

In globs `*` also matches slashes, so `vllm/v1/sample/*` names everything below that folder.
"""

import hashlib
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Final, get_args

from k3bundle.isolation_record import PathClass
from k3runner.errors import UsageError
from k3runner.toml_table import Table

__all__ = ["IsolationPolicy", "PathRule", "load_policy"]

_DEFAULT: Final = "vllm"
_STRICTNESS: Final[tuple[PathClass, ...]] = (
    "documentation",
    "test",
    "model_only",
    "unnamed",
    "shared",
)
"""From harmless to what other models share; of two classes the later one holds."""


@dataclass(frozen=True)
class PathRule:
    """Paths of one class and area."""

    path_class: PathClass
    """Class of the paths."""
    area: str
    """Part of the engine."""
    globs: tuple[str, ...]
    """Paths."""


@dataclass(frozen=True)
class Classified:
    """What the policy says of one path."""

    path_class: PathClass
    area: str
    rule: str
    """Glob that decided; empty when none did."""


@dataclass(frozen=True)
class IsolationPolicy:
    """What an audit looks for."""

    name: str
    """Name."""
    sha256: str
    """Digest of the file."""
    rules: tuple[PathRule, ...]
    """In order; the first that matches decides."""
    config_keys: tuple[str, ...]
    """Configuration keys that select a path."""
    environment_names: tuple[str, ...]
    """Globs of environment variables that matter."""
    environment_modules: tuple[str, ...]
    """Globs of names under which code reads variables as attributes."""
    registrations: tuple[str, ...]
    """Globs of calls and decorators that put something into a registry."""
    device_decorators: tuple[str, ...]
    """Globs of decorators that make a function device code."""
    deciders: tuple[str, ...]
    """Globs of functions whose empty answer means the standard path."""
    telling_calls: tuple[str, ...]
    """Globs of calls that log or count."""

    def classify(self, path: str) -> Classified:
        """Class of one path; `unnamed` when no rule matches."""
        for rule in self.rules:
            for glob in rule.globs:
                if fnmatchcase(path, glob):
                    return Classified(rule.path_class, rule.area, glob)
        return Classified("unnamed", "", "")

    def classify_rename(self, path: str, previous: str | None) -> Classified:
        """Class of a path that may have moved: the stricter of both places."""
        places = [self.classify(place) for place in (path, previous) if place is not None]
        return max(places, key=lambda place: _STRICTNESS.index(place.path_class))

    def classify_module(self, module: str) -> Classified | None:
        """Class of a Python module by its dotted name; None when no rule names its file."""
        inner = module.replace(".", "/")
        for path in (f"{inner}.py", f"{inner}/__init__.py"):
            found = self.classify(path)
            if found.path_class != "unnamed":
                return found
        return None


def load_policy(path: Path | None) -> IsolationPolicy:
    """Loads a policy.

    Args:
        path: A TOML file; None: the policy for vLLM that comes with the runner.

    Raises:
        UsageError: The file is not there or is no policy.
    """
    if path is None:
        resource = resources.files("k3runner.audit.policies") / f"{_DEFAULT}.toml"
        return parse_policy(resource.read_bytes(), where=f"policy {_DEFAULT}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"--policy {path} cannot be read: {error.strerror}.",
            "Give a TOML file; audit/policies/vllm.toml of the runner is one.",
        ) from error
    return parse_policy(content, where=f"policy {path.name}")


def parse_policy(content: bytes, *, where: str) -> IsolationPolicy:
    """Parses a policy.

    Raises:
        UsageError: The text is not a policy.
    """
    try:
        table = Table(tomllib.loads(content.decode("utf-8")), where)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{where} is not TOML: {error}.", "Correct the file.") from error
    selection, state, returns = (table.table(name) for name in ("selection", "state", "returns"))
    policy = IsolationPolicy(
        name=table.take("name", str),
        sha256=hashlib.sha256(content).hexdigest(),
        rules=tuple(_rule(rule, where) for rule in table.tables("rules")),
        config_keys=selection.strings("config_keys"),
        environment_names=selection.strings("environment_names"),
        environment_modules=selection.strings("environment_modules", ()),
        registrations=state.strings("registrations"),
        device_decorators=state.strings("device_decorators", ()),
        deciders=returns.strings("deciders"),
        telling_calls=returns.strings("telling_calls"),
    )
    for read in (selection, state, returns, table):
        read.finish()
    return policy


def _rule(table: Table, where: str) -> PathRule:
    name = table.take("class", str)
    known = [one for one in get_args(PathClass) if one != "unnamed"]
    if name not in known:
        raise UsageError(
            f"{where}: a class is one of {', '.join(known)}, found `{name}`.", "Correct the rule."
        )
    rule = PathRule(
        path_class=next(one for one in _STRICTNESS if one == name),
        area=table.take("area", str),
        globs=table.strings("paths"),
    )
    table.finish()
    return rule
