"""Teacher forcing inside the engine: logits are kept, and the next token is always the given one.

What the sampler gets are logits in which only the given token is possible. Rows of a step belong to
requests in the order in which they were given; the tokens that the engine returns prove it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["Forcing", "HiddenRows"]


class Forcing:
    """Stands between a model's logits and the sampler."""

    def __init__(self, model: Any) -> None:
        """Take the place of the model's `compute_logits`; it does nothing until it is begun."""
        self._compute: Callable[[Tensor], Tensor] = model.compute_logits
        self._given: Tensor | None = None
        self.before_step: Callable[[int], None] | None = None
        """Called with the number of the next step when one has ended."""
        self.logits: list[Tensor] = []
        model.compute_logits = self._forced

    def begin(self, given: Tensor) -> None:
        """Force these tokens from the next step on.

        Args:
            given: int64 [requests, steps].
        """
        self._given, self.logits = given, []

    def end(self) -> Tensor:
        """Stop; returns the logits of all steps, FP32 [steps, requests, V]."""
        self._given = None
        return torch.stack(self.logits)

    def _forced(self, hidden: Tensor) -> Tensor:
        logits = self._compute(hidden)
        step = len(self.logits)
        if self._given is None or step >= self._given.shape[1]:
            return logits
        if logits.shape[0] != self._given.shape[0]:
            raise RuntimeError(
                f"step {step}: expected a row of logits for each of {self._given.shape[0]} "
                f"requests, found {logits.shape[0]}: let all prompts be read in one step"
            )
        self.logits.append(logits.float())
        forced = torch.full_like(logits, -1e4)
        forced.scatter_(1, self._given[:, step : step + 1], 1e4)
        if self.before_step is not None:
            self.before_step(step + 1)
        return forced


class HiddenRows:
    """Keeps what the model gives for all tokens of the next prompt step."""

    def __init__(self, model: Any) -> None:
        """Take the place of the model's `forward`; it keeps nothing until it is asked to."""
        self._model = model
        self._forward: Callable[..., Tensor] = model.forward
        self._compute: Callable[[Tensor], Tensor] = model.compute_logits
        self._keep = False
        self._rows: list[Tensor] = []
        model.forward = self._run

    def begin(self) -> None:
        """Keep rows from now on."""
        self._keep, self._rows = True, []

    def normed(self, places: Sequence[int]) -> Tensor:
        """What the LM head multiplies at some places of the step, BF16 [places, D]."""
        rows = self._at(places)
        # As in the engine's own `compute_logits`.
        if not self._model.needs_norm_in_logits:
            return rows
        with torch.inference_mode():
            normed: Tensor = self._model.model.norm(rows, None)
            return normed

    def end(self, places: Sequence[int]) -> Tensor:
        """Stop; returns logits at some places of the step, FP32 [places, V]."""
        self._keep = False
        rows = self._at(places)
        with torch.inference_mode():
            return torch.cat([self._compute(some).float() for some in rows.split(64)])

    def _at(self, places: Sequence[int]) -> Tensor:
        with torch.inference_mode():
            return torch.cat(self._rows)[list(places)]

    def _run(self, *arguments: Any, **named: Any) -> Tensor:
        rows = self._forward(*arguments, **named)
        if self._keep:
            self._rows.append(rows.clone())
        return rows
