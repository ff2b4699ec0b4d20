"""What a full disk says, in the terms of the ports."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from k3server.ports import StoreFullError

__all__ = ["full_is_told"]

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def full_is_told() -> Iterator[None]:
    """Turn the error of a full disk into the protocol's; others pass.

    Raises:
        StoreFullError: There is no room.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreFullError(str(error)) from error
        raise
