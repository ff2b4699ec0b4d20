"""Shared set-up: one thread, and what takes minutes only when it is asked for."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what starts a real server or compiles kernels, unless `-m` names it."""
    unnamed = [marker for marker in ("engine", "compiled") if marker not in config.getoption("-m")]
    slow = [item for item in items if any(item.get_closest_marker(m) for m in unnamed)]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
