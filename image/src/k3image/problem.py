"""What a person can act on: what is wrong, and what to do next."""

__all__ = ["EXIT_DIFFERENT", "EXIT_ENVIRONMENT", "EXIT_INPUT", "EXIT_USAGE", "ImageError"]

EXIT_DIFFERENT = 1
"""Two things that should be equal are not."""
EXIT_USAGE = 2
"""A flag or argument is wrong."""
EXIT_INPUT = 4
"""An input is not what the repository pins."""
EXIT_ENVIRONMENT = 5
"""The machine lacks something."""


class ImageError(Exception):
    """A problem in one sentence, with the next step; the text is meant for the user."""

    def __init__(self, problem: str, hint: str, exit_code: int = EXIT_ENVIRONMENT) -> None:
        super().__init__(f"{problem} Next: {hint}")
        self.exit_code = exit_code
