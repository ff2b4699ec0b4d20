"""The thread that makes records of captures, behind everything else that wants its core.

Making records costs as much as receiving did. Where they share a core with a sending process, as on
a machine whose other cores belong to the engine, that process would wait for its turn, and every
time that it takes would be late by as much. Records may wait; times may not.
"""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

__all__ = ["recording_thread"]

_NICE = 10
"""A tenth of the share of a process without one, where both want the core."""
_MOST_NICE = 19


@contextmanager
def recording_thread() -> Iterator[ThreadPoolExecutor]:
    """One thread of low priority; it takes calls in order, and drops what waits at the end."""
    thread = ThreadPoolExecutor(1, "recording", _step_back)
    try:
        yield thread
    finally:
        thread.shutdown(wait=True, cancel_futures=True)


def _step_back() -> None:
    # Of this thread alone: engines inherit the priority of the thread that starts them.
    thread = threading.get_native_id()
    nice = min(_MOST_NICE, os.getpriority(os.PRIO_PROCESS, thread) + _NICE)
    os.setpriority(os.PRIO_PROCESS, thread, nice)
