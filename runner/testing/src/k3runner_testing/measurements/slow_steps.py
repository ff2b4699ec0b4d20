"""A plugin for vLLM that makes every step take twice as long: a defect on purpose.

It runs in the engine's environment, out of the wheel that `slow_wheel` makes of this file.
"""

import time
from typing import Any

__all__ = ["register"]


def register() -> None:
    """Sleeps after each step for as long as the step took; done twice, it stays once."""
    # Here, since only the engine's environment has it.
    from vllm.v1.worker.gpu_worker import Worker  # noqa: PLC0415

    run = Worker.execute_model
    if getattr(run, "slowed", False):
        return

    def slowed(self: Any, *arguments: Any, **named: Any) -> Any:
        began = time.perf_counter()
        result = run(self, *arguments, **named)
        time.sleep(time.perf_counter() - began)
        return result

    slowed.slowed = True  # type: ignore[attr-defined]
    Worker.execute_model = slowed
