"""`k3-registry`: the command line; each command is a module of `commands`."""

import argparse
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, get_args

from k3server.commands import decisions, secrets_again, serve, upkeep
from k3server.commands.storage import STORAGE_EPILOG
from k3server.errors import MachineError
from k3server.exit_code import ExitCode
from k3server.log_lines import LogForm, formatter
from k3server.ports import StoreFullError, StoreUnavailableError

__all__ = ["COMMANDS", "main"]

_EPILOG: Final = f"""\
examples:
  k3-registry serve --data .k3eval/registry
  k3-registry serve --data /srv/k3 --port 0        choose a free port and print it
  k3-registry verify-store --data /srv/k3          hash every archive again

{STORAGE_EPILOG}
exit status:
  0 done, or stopped as asked, 1 verify-store found damage or
  rescan secrets, 2 wrong flag, 5 the machine lacks
  something (a free port, a writable folder, the database or the store), 70 a defect of the
  registry, 130 stopped by Ctrl-C
"""


@dataclass(frozen=True)
class _Command:
    sentence: str
    add_flags: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


COMMANDS: Final[dict[str, _Command]] = {
    "serve": _Command(
        "answer requests until stopped by Ctrl-C or SIGTERM", serve.add_flags, serve.run
    ),
    "collect": _Command(
        "remove archives that no submission names",
        upkeep.add_collect_flags,
        upkeep.run_collect,
    ),
    "verify-store": _Command(
        "hash the archive of every submission again", upkeep.add_verify_flags, upkeep.run_verify
    ),
    "rescan": _Command(
        "look for secrets in stored archives with the patterns of this version",
        secrets_again.add_rescan_flags,
        secrets_again.run_rescan,
    ),
    "export": _Command(
        "write everything public to files", upkeep.add_export_flags, upkeep.run_export
    ),
    "token": _Command(
        "make, list or end API tokens", decisions.add_token_flags, decisions.run_token
    ),
    "decide": _Command(
        "quarantine, retract, audit or ban, with a reason; or list what was decided",
        decisions.add_decide_flags,
        decisions.run_decide,
    ),
}
"""Every command."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Returns:
        Exit status, see `ExitCode`.
    """
    chosen = _parser().parse_args(arguments)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(chosen.log))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # A line per migration at each start says nothing to an operator.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    try:
        return COMMANDS[chosen.command].run(chosen)
    except MachineError as error:
        sys.stderr.write(f"k3-registry: {error}\n")
        return ExitCode.ENVIRONMENT
    except (StoreFullError, StoreUnavailableError) as error:
        sys.stderr.write(
            f"k3-registry: Expected database and store to answer, found: {error}. "
            "Start them, or make room, then run the same command again.\n"
        )
        return ExitCode.ENVIRONMENT
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="k3-registry",
        description="A registry of evidence: receives, verifies, stores and shows bundles.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="command", dest="command", required=True)
    for name, command in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=command.sentence,
            description=f"{command.sentence[0].upper()}{command.sentence[1:]}.",
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_flags(sub)
        sub.add_argument(
            "--log",
            choices=get_args(LogForm),
            default="text",
            help="form of the log's lines on stderr (%(default)s)",
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
