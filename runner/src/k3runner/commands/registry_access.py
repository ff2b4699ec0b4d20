"""From flags and environment to one conversation with a registry."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import typer

from k3runner.errors import UsageError
from k3runner.registry_client import RegistryClient, registry_client
from k3runner.settings import resolve_registry, resolve_token

__all__ = ["asked", "named_registry", "needed_token", "say"]

T = TypeVar("T")

_HOW_TO_GIVE_ONE: Final = "Give --token-file FILE or set K3EVAL_TOKEN; the operator makes tokens."


def say(sentence: str) -> None:
    """Tell the person a sentence, on stderr."""
    typer.echo(f"k3-eval: {sentence}", err=True)


def named_registry(flag: str | None) -> str:
    """The registry's address.

    Raises:
        UsageError: None is named, or it is no address.
    """
    address = resolve_registry(flag, os.environ)
    if address is None:
        raise UsageError("No registry is named.", "Give --registry URL or set K3EVAL_REGISTRY.")
    return address


def needed_token(registry: str, token_file: Path | None) -> str:
    """The API token for something that needs one.

    Raises:
        UsageError: There is none, or it cannot be read or sent.
    """
    token = resolve_token(token_file, os.environ, registry)
    if token is None:
        raise UsageError(
            "This needs an API token of the registry, and none is given.", _HOW_TO_GIVE_ONE
        )
    return token


def asked(
    registry: str, action: Callable[[RegistryClient], Awaitable[T]], *, token: str | None = None
) -> T:
    """Do something with a registry, and return what came of it."""

    async def talk() -> T:
        async with registry_client(registry, say=say, token=token) as client:
            return await action(client)

    return asyncio.run(talk())
