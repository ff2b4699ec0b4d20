"""Whether the engine was another process after a cell than before it.

A counter only grows, and a process starts once. Where either is not so, the engine was restarted
behind the referee's back, and differences of its counters mean nothing.
"""

from typing import Final

from k3bundle.coverage import EngineCounters
from k3bundle.derive.selection import Bracket

__all__ = ["START_TIME", "restart_problem"]

START_TIME: Final = "process_start_time_seconds"


def restart_problem(counters: Bracket[EngineCounters]) -> str | None:
    """Say how the counters show a restart during a cell.

    Args:
        counters: Snapshots before and after the cell.

    Returns:
        What they show, in a sentence without full stop; None when they show none.
    """
    before = counters.before.counters if counters.before else {}
    after = counters.after.counters if counters.after else {}
    started = before.get(START_TIME), after.get(START_TIME)
    if None not in started and started[0] != started[1]:
        return "the engine process after the cell is not the one before it"
    for name in sorted(before.keys() & after.keys()):
        if after[name] < before[name]:
            return f"the counter {name} went backwards during the cell"
    return None
