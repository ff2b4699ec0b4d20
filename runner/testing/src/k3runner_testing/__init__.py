"""A scriptable OpenAI-shaped server: set delays, chunking and faults, and an engine made of it."""

from k3runner_testing.behaviour import Behaviour
from k3runner_testing.fake_server import FakeServer, create_app

__all__ = ["Behaviour", "FakeServer", "create_app"]
