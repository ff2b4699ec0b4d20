"""`k3-registry token` and `k3-registry decide`: accounts and decisions, by an operator."""

import argparse
import getpass
import re
import secrets
import sys
import unicodedata
from datetime import timedelta
from typing import Final, get_args

from k3server.account_ports import Action, NoEvidenceError, Scope
from k3server.adapters.sql.accounts import SqlAccounts
from k3server.adapters.sql.moderation import SqlModeration
from k3server.adapters.system_clock import SystemClock
from k3server.bearer import make_token
from k3server.commands.storage import add_storage_flags, database_of
from k3server.exit_code import ExitCode

__all__ = ["add_decide_flags", "add_token_flags", "operator_name", "run_decide", "run_token"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_IDENTITY: Final = re.compile(
    r"token:[A-Za-z0-9][A-Za-z0-9._-]{0,63}|github:[a-z0-9][a-z0-9-]{0,38}|"
    r"actions:[a-z0-9][a-z0-9-]{0,38}/[a-z0-9_.-]{1,100}|key:SHA256:[A-Za-z0-9+/]{43}"
)
_DAYS: Final = 365
_MOST_DAYS: Final = 3650
_LISTED: Final = 50
_DECISIONS: Final = ("quarantine", "release", "retract", "audit", "unaudit", "ban", "unban")
_OF_PEOPLE: Final = frozenset({"ban", "unban"})


def add_token_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `token`."""
    add_storage_flags(parser)
    act = parser.add_mutually_exclusive_group(required=True)
    act.add_argument("--for", dest="account", type=_name, help="make a token for this account")
    act.add_argument("--revoke", metavar="ID", help="end the token with this id")
    act.add_argument("--list", action="store_true", help="list all tokens, without their secrets")
    parser.add_argument("--organisation", type=_name, help="organisation of the account")
    parser.add_argument(
        "--scope",
        action="append",
        choices=get_args(Scope),
        help="what the token may be used for, repeatable (submit and claim)",
    )
    parser.add_argument(
        "--days", type=_days, default=_DAYS, help="how long the token works (%(default)s)"
    )


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"expected 1 to 64 letters, digits, dots, hyphens or underscores, found {text!a}"
        )
    return text


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= _MOST_DAYS):
        raise argparse.ArgumentTypeError(
            f"expected a number of days from 1 to {_MOST_DAYS}, found {text!a}"
        )
    return int(text)


def _line(text: str) -> str:
    if not text.strip() or any(unicodedata.category(one).startswith("C") for one in text):
        raise argparse.ArgumentTypeError(
            f"expected a sentence on one line, without control characters, found {text!a}"
        )
    return text


def run_token(chosen: argparse.Namespace) -> int:
    """Make, end or list tokens. The text of a new one goes to stdout, once."""
    now = SystemClock().now()
    with database_of(chosen) as database:
        accounts = SqlAccounts(database)
        if chosen.list:
            for token in accounts.tokens():
                works = token.revoked_at is None and now < token.expires_at
                words = (
                    token.token_id,
                    token.account,
                    token.organisation or "-",
                    ",".join(sorted(token.scopes)),
                    token.expires_at.strftime("%Y-%m-%d"),
                    "works" if works else "ended",
                )
                sys.stdout.write("\t".join(words) + "\n")
            return ExitCode.CLEAN
        if chosen.revoke is not None:
            if accounts.revoke(chosen.revoke, operator_name(), now):
                return ExitCode.CLEAN
            sys.stderr.write("k3-registry: Expected the id of a token that works, found none.\n")
            return ExitCode.USAGE
        text, token = make_token(
            chosen.account,
            chosen.scope or ("submit", "claim"),
            organisation=chosen.organisation,
            now=now,
            lifetime=timedelta(days=chosen.days),
            draw_hex=secrets.token_hex,
        )
        accounts.add(token, operator_name())
    sys.stdout.write(f"{text}\n")
    sys.stderr.write("k3-registry: This is shown once; only a digest of it is kept.\n")
    return ExitCode.CLEAN


def add_decide_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `decide`."""
    add_storage_flags(parser)
    parser.add_argument(
        "action", choices=(*_DECISIONS, "log"), help="what to decide, or `log` to list decisions"
    )
    parser.add_argument(
        "target",
        nargs="?",
        help="id of a submission; for ban and unban token:NAME, github:NAME, "
        "actions:OWNER/NAME or key:SHA256:...",
    )
    parser.add_argument("--reason", type=_line, help="why, in a sentence that is shown")


def run_decide(chosen: argparse.Namespace) -> int:
    """Decide about a submission or a contributor; or list what was decided."""
    with database_of(chosen) as database:
        moderation = SqlModeration(database)
        if chosen.action == "log":
            for act in moderation.acts(limit=_LISTED):
                at = act.at.strftime("%Y-%m-%dT%H:%M:%SZ")
                words = (at, act.actor, act.action, act.target, act.reason)
                sys.stdout.write("\t".join(words) + "\n")
            return ExitCode.CLEAN
        if not chosen.target or not chosen.reason:
            sys.stderr.write("k3-registry: Expected a target and --reason, found one missing.\n")
            return ExitCode.USAGE
        if chosen.action in _OF_PEOPLE and not _IDENTITY.fullmatch(chosen.target):
            sys.stderr.write(
                "k3-registry: Expected token:NAME, github:name or actions:owner/name in small "
                f"letters, or key:SHA256:..., found {chosen.target!a}. "
                "The page of a submission names it.\n"
            )
            return ExitCode.USAGE
        action: Action = chosen.action
        try:
            moderation.decide(
                action,
                chosen.target,
                actor=operator_name(),
                reason=chosen.reason,
                at=SystemClock().now(),
            )
        except KeyError:
            sys.stderr.write(
                f"k3-registry: Expected something to {action} under {chosen.target!a}, "
                "found nothing. Use the whole id, or the name as the log has it.\n"
            )
            return ExitCode.USAGE
        except NoEvidenceError:
            sys.stderr.write(
                f"k3-registry: Expected a submission to audit that stands, found {chosen.target!a} "
                "retracted. Release it first, with the reason, if it was retracted wrongly.\n"
            )
            return ExitCode.USAGE
    return ExitCode.CLEAN


def operator_name() -> str:
    """Who gives this command, as decisions note it."""
    return f"operator:{getpass.getuser()}"
