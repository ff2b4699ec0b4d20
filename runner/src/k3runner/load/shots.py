"""From planned requests to the bytes that are sent. Pure."""

import json
from collections.abc import Sequence

from k3runner.load.address import Address, request_bytes
from k3runner.load.capture import Shot
from k3runner.load.planned import PlannedRequest, request_body

__all__ = ["shots_of"]

_PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


def shots_of(batch: Sequence[PlannedRequest], address: Address, model: str) -> list[Shot]:
    """Shots numbered by their place in the batch.

    Args:
        batch: What to send.
        address: Where to.
        model: Served model name.
    """
    return [
        Shot(
            number=number,
            payload=request_bytes(
                address,
                _PATHS[request.endpoint],
                json.dumps(request_body(request, model), separators=(",", ":")).encode(),
            ),
            due_ns=request.due_ns,
        )
        for number, request in enumerate(batch)
    ]
