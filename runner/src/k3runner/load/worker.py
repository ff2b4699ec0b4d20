"""One process of the load client: `python -m k3runner.load.worker FD`.

Does nothing but send and receive. It holds no display, no journal and no telemetry, and it collects
no garbage while a phase runs, so that nothing of the runner's delays a read. It ends when the
runner's end of the socket is closed, in whatever way the runner ended.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
import time
import traceback

import uvloop

from k3runner.load.connection import ConnectionPool
from k3runner.load.driver import Driver, Phase
from k3runner.load.frames import Beat, Go, Hold, PhaseEnded, Ready, Stop, read_frame, write_frame

__all__ = ["main"]

_MOST_BEAT_S = 0.5
_BEATS_PER_LIMIT = 5


async def _serve(descriptor: int) -> None:
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
    pool: ConnectionPool | None = None
    driver: Driver | None = None
    running: set[asyncio.Task[None]] = set()
    while (message := await read_frame(reader)) is not None:
        if isinstance(message, Phase):
            pool = pool or ConnectionPool(message.address)
            driver = Driver(pool, message, lambda capture: write_frame(writer, capture))
            write_frame(writer, Ready())
        elif driver is None:
            continue
        elif isinstance(message, Go):
            running = {asyncio.create_task(_run(driver, message.start_ns, writer))}
        elif isinstance(message, Hold):
            driver.hold(message.detail)
        elif isinstance(message, Stop):
            driver.stop()
    for task in running:
        task.cancel()
    if pool is not None:
        pool.close()
    writer.close()


async def _run(driver: Driver, start_ns: int, writer: asyncio.StreamWriter) -> None:
    period_s = min(_MOST_BEAT_S, driver.idle_limit_ns / 1e9 / _BEATS_PER_LIMIT)

    async def beat() -> None:
        while True:
            write_frame(writer, Beat(time.monotonic_ns(), driver.in_flight, driver.progress_ns))
            await asyncio.sleep(period_s)

    beating = asyncio.create_task(beat())
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        stats = await driver.run(start_ns)
    except Exception:
        # The runner must not wait for a phase that nobody runs any more.
        traceback.print_exc()
        os._exit(1)
    finally:
        gc.enable()
        beating.cancel()
    write_frame(writer, PhaseEnded(stats))
    await writer.drain()


def main(arguments: list[str]) -> None:
    """Serves the runner until it is gone."""
    # Ctrl-C reaches the whole process group; the runner decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    uvloop.run(_serve(int(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
