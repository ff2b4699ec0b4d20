"""Making records steps back behind sending, in order, and alone."""

import os
import threading
import time

import pytest

from k3runner.load.recording_thread import recording_thread


def _niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_thread_steps_back_and_its_starter_does_not() -> None:
    before = _niceness()
    with recording_thread() as thread:
        behind = thread.submit(_niceness).result()
    assert behind == min(19, before + 10)
    assert _niceness() == before


def test_calls_are_taken_in_order() -> None:
    with recording_thread() as thread:
        order: list[int] = []
        for number in range(50):
            last = thread.submit(order.append, number)
        last.result()
    assert order == list(range(50))


def test_what_waits_at_the_end_is_dropped() -> None:
    began = threading.Event()

    def first() -> None:
        began.set()
        time.sleep(0.05)

    done: list[int] = []
    with recording_thread() as thread:
        thread.submit(first)
        waiting = thread.submit(done.append, 1)
        began.wait(5)
    assert waiting.cancelled()
    assert done == []


def test_a_failed_record_is_not_lost() -> None:
    with recording_thread() as thread, pytest.raises(ZeroDivisionError):
        thread.submit(lambda: 1 // 0).result()
