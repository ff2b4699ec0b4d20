"""Flags of `serve` about GitHub, and what they stand for. Secrets come from elsewhere."""

import argparse
import os
from pathlib import Path

from k3server.adapters.issuer_keys import HttpIssuer
from k3server.adapters.system_clock import SystemClock
from k3server.errors import MachineError
from k3server.forge.app import ForgeApp, read_app_key
from k3server.forge.client import ForgeClient, ForgeError
from k3server.forge.teller import Teller
from k3server.parts import Parts
from k3server.settings import Settings

__all__ = ["add_github_flags", "forge_of", "issuer_of", "teller_of"]


def add_github_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument(
        "--github-url",
        help="address of GitHub's REST interface; published keys are then asked for there",
    )
    parser.add_argument(
        "--github-repository",
        action="append",
        default=[],
        metavar="OWNER/NAME",
        help="repository whose pull requests get a status and a comment, repeatable; "
        "the token comes from GITHUB_TOKEN, the secret of its webhook from GITHUB_WEBHOOK_SECRET",
    )
    parser.add_argument(
        "--github-actions-issuer",
        metavar="URL",
        help="take identity tokens of workflows from this issuer; GitHub's is "
        "https://token.actions.githubusercontent.com",
    )
    parser.add_argument(
        "--github-account", metavar="LOGIN", help="account of the token; its comment is updated"
    )
    parser.add_argument(
        "--github-app",
        type=_number,
        metavar="ID",
        help="number of a GitHub App that makes a check run beside status and comment",
    )
    parser.add_argument(
        "--github-app-key", type=Path, metavar="FILE", help="private key of the App, in PEM"
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:12]) > 0):
        raise argparse.ArgumentTypeError(f"expected the number of an App, found {text!a}")
    return int(text[:12])


def forge_of(chosen: argparse.Namespace) -> ForgeClient | None:
    """The forge that the flags name; None: none is talked to.

    Raises:
        MachineError: It is no address.
    """
    if chosen.github_url is None:
        return None
    token = os.environ.get("GITHUB_TOKEN", "")
    try:
        return ForgeClient(chosen.github_url, token, account=chosen.github_account or "")
    except ForgeError as error:
        raise MachineError(str(error), "Check --github-url.") from None


def issuer_of(chosen: argparse.Namespace) -> HttpIssuer | None:
    """Whose identity tokens are taken; None: nobody's.

    Raises:
        MachineError: It is no address that may be asked.
    """
    address: str | None = chosen.github_actions_issuer
    return None if address is None else HttpIssuer(address)


def teller_of(
    chosen: argparse.Namespace, settings: Settings, parts: Parts, client: ForgeClient | None
) -> Teller | None:
    """Who tells the forge about pull requests; None: nothing is told.

    Raises:
        MachineError: A flag or secret is missing, or the App's key cannot be read.
    """
    if not chosen.github_repository:
        return None
    if client is None or not chosen.github_account or not os.environ.get("GITHUB_TOKEN"):
        raise MachineError(
            "Expected --github-url, --github-account and GITHUB_TOKEN with --github-repository, "
            "found one of them missing.",
            "Give all of them, or leave --github-repository out: nothing is told then.",
        )
    repositories = frozenset(name.lower() for name in chosen.github_repository)
    app = _app(chosen, client)
    return Teller(parts, client, repositories=repositories, public_url=settings.public_url, app=app)


def _app(chosen: argparse.Namespace, client: ForgeClient) -> ForgeApp | None:
    if chosen.github_app is None and chosen.github_app_key is None:
        return None
    hint = "Give both, or neither: there is no check run then."
    if chosen.github_app is None or chosen.github_app_key is None:
        raise MachineError("Expected --github-app with --github-app-key, found one.", hint)
    try:
        key = read_app_key(chosen.github_app_key.read_bytes())
    except (OSError, ForgeError) as error:
        why = getattr(error, "strerror", None) or error
        raise MachineError(
            f"The private key of the App cannot be read from {chosen.github_app_key}: {why}",
            "Give the .pem file that GitHub made for the App.",
        ) from None
    return ForgeApp(client, SystemClock(), app_id=chosen.github_app, key=key)
