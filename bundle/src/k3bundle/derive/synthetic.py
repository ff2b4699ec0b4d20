"""Whether the engine was told to accept drafts without checking them.

Synthetic acceptance (`rejection_sample_method` `synthetic` or `fly`) is a way to time speculation:
the tokens that come out are not the model's answer, so nothing about answers can be judged.
"""

import re
from collections.abc import Iterable
from typing import Final

from k3bundle.bundle import RunRecords
from k3bundle.derive.sentences import quote

__all__ = ["synthetic_acceptance"]

_KEY: Final = "rejection_sample_method"
_PATTERN: Final = re.compile(_KEY + r"[^A-Za-z0-9]{1,8}(synthetic|fly)\b")


def synthetic_acceptance(records: RunRecords) -> str | None:
    """Say where synthetic acceptance was asked for; None when it was nowhere."""
    for spec in records.plan.arms:
        method = _method_in(spec.engine_arguments)
        if method is not None:
            return f"The {spec.name} arm of the plan asks for {_KEY} {method}."
    for event in records.boots:
        if event.event == "started":
            method = _method_in(event.command)
        elif event.event == "ready":
            method = _method_in(f"{key}={text}" for key, text in event.effective_config.items())
        else:
            continue
        if method is not None:
            return f"The engine of {quote(event.boot_id)} ran with {_KEY} {method}."
    return None


def _method_in(texts: Iterable[str]) -> str | None:
    found = _PATTERN.search(" ".join(texts))
    return found.group(1) if found else None
