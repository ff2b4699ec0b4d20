"""Problems a person can act on: one sentence of what is wrong, one of what to do next."""

__all__ = ["EXIT_INTERRUPTED", "EXIT_MACHINE", "EXIT_USAGE", "HouseError"]

EXIT_USAGE = 2
"""A variable or argument is wrong."""
EXIT_MACHINE = 5
"""The machine lacks something: a Python, disk space, a port, the network."""
EXIT_INTERRUPTED = 130
"""Stopped by Ctrl-C."""


class HouseError(Exception):
    """Shown as it is, without a traceback."""

    def __init__(self, problem: str, next_step: str, exit_code: int = EXIT_MACHINE) -> None:
        super().__init__(f"{problem} Next step: {next_step}")
        self.exit_code = exit_code
