"""Shared by the tests that cross packages."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def root() -> Path:
    """The repository."""
    return ROOT
