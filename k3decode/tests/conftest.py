"""Shared set-up: one thread, and engine checks only when they are asked for."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what starts a real server, unless `-m` names it."""
    if "engine" in config.getoption("-m"):
        return
    slow = [item for item in items if item.get_closest_marker("engine")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
