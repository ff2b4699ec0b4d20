"""A small engine in a git repository, and one Python file of it as the audit sees it."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from k3bundle.isolation_record import PathClass
from k3runner.audit.policy import IsolationPolicy, load_policy
from k3runner.audit.python_module import ChangedModule, symbol_map
from k3runner_testing.git_repository import GitRepository

MakeModule = Callable[..., ChangedModule]


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    """An empty repository."""
    return GitRepository(tmp_path / "engine")


@pytest.fixture(scope="session")
def policy() -> IsolationPolicy:
    """The policy for vLLM."""
    return load_policy(None)


@pytest.fixture
def make_module() -> MakeModule:
    """Parses source whose lines are all new."""

    def make(
        source: str,
        *,
        path: str = "vllm/models/kimi_k3/nvidia/model.py",
        path_class: PathClass = "model_only",
        added: frozenset[int] | None = None,
    ) -> ChangedModule:
        tree = ast.parse(source)
        lines = tuple(source.split("\n"))
        every = frozenset(range(1, len(lines) + 1))
        return ChangedModule(
            path=path,
            path_class=path_class,
            tree=tree,
            lines=lines,
            symbols=symbol_map(tree, len(lines)),
            added=every if added is None else added,
        )

    return make
