"""What stops the audit before it can judge."""

__all__ = ["UnreadableInputError"]


class UnreadableInputError(ValueError):
    """A file is not what the audit reads; the text says what was expected and found."""
