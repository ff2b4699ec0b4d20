"""Events as JSON lines, for programs."""

import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from k3bundle.record import Record
from k3runner.events import Event

__all__ = ["JsonlDisplay", "event_object"]


def event_object(event: Event) -> dict[str, Any]:
    """Return an event as JSON values; `event` is its name in snake case."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()
    values = {field.name: _plain(getattr(event, field.name)) for field in fields(event)}
    return {"event": name, **values}


def _plain(value: object) -> object:
    if isinstance(value, Record):
        return value.model_dump(mode="json", by_alias=True)
    return str(value) if isinstance(value, Path) else value


class JsonlDisplay:
    """Writes one JSON object per event, with the seconds since the display was opened."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._opened_at = clock()

    def __enter__(self) -> Self:
        """Begin to show."""
        self._opened_at = self._clock()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to undo."""

    def show(self, event: Event) -> None:
        """Write one line."""
        elapsed = round(self._clock() - self._opened_at, 3)
        line = json.dumps({**event_object(event), "elapsed_s": elapsed}, ensure_ascii=False)
        self._stream.write(f"{line}\n")
        self._stream.flush()
