"""Teacher-forced decoding by both paths of one engine, with proof of which path ran."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from k3decode.decode.coverage import PathName
from k3decode.vllm_plugin.gpu.step_counts import decode_coverage
from k3decode.vllm_plugin.served_check.agreement import (
    errors_by_step,
    judge_agreement,
    relative_errors,
)
from k3decode.vllm_plugin.served_check.check_engine import CheckEngine
from k3decode.vllm_plugin.served_check.forcing import Forcing, HiddenRows
from k3decode.vllm_plugin.served_check.loud_rows import deciding_row

__all__ = ["PathComparison"]


class PathComparison:
    """Both paths on the same prompts and the same given tokens."""

    def __init__(self, engine: CheckEngine, *, prompt_tokens: int, steps: int) -> None:
        """Hook into the model.

        Args:
            engine: with both paths.
            prompt_tokens: of each prompt.
            steps: given tokens of each request.
        """
        self._engine = engine
        self._prompt_tokens, self._steps = prompt_tokens, steps
        # Hidden rows are turned into logits by the model's own method, not by the forced one.
        self._hidden = HiddenRows(engine.model)
        self._forcing = Forcing(engine.model)

    def compare(self, rows: int, *, graphs: bool) -> dict[str, Any]:
        """Compare at so many requests; returns a line of results.

        Args:
            rows: requests.
            graphs: whether decode steps are replays of captured graphs.
        """
        prompts, given = self._inputs(rows)
        with self._engine.loud_rows() as loud:
            other = self._read_whole(prompts, given, loud)
            stock, stock_counts = self._decoded("stock", prompts, given, graphs=graphs)
            ours, our_counts = self._decoded("candidate", prompts, given, graphs=graphs)
        return {
            **self._line(rows, ours, stock, other),
            "graphs": graphs,
            "coverage": decode_coverage(our_counts),
            "counts": [asdict(one) for one in our_counts],
            "stock_counts": [asdict(one) for one in stock_counts],
        }

    def observe(self, rows: int) -> dict[str, Any]:
        """Compare captured steps whose experts rounding decides about; judges nothing."""
        self._engine.decide_routing(by_bias=False)
        found = self.compare(rows, graphs=True)
        self._engine.decide_routing(by_bias=True)
        judged = ("outcome", "sentence", "deciding_share", "equal_where_deciding", "allowed")
        return {name: value for name, value in found.items() if name not in judged}

    def alternate(self, rows: int) -> dict[str, Any]:
        """Steps by ours and by stock in turn, on one state, against stock alone."""
        prompts, given = self._inputs(rows)
        served = self._engine.model.served

        def turn(step: int) -> None:
            served.enabled = step % 2 == 0

        with self._engine.loud_rows() as loud:
            other = self._read_whole(prompts, given, loud)
            stock, _ = self._decoded("stock", prompts, given, graphs=False)
            self._engine.use("candidate", graphs=False)
            mixed, counts = self._forced(prompts, given, turn)
        return {
            **self._line(rows, mixed, stock, other),
            "graphs": False,
            "coverage": decode_coverage(counts),
            "counts": [asdict(one) for one in counts],
        }

    def _line(self, rows: int, ours: Tensor, stock: Tensor, other: Tensor) -> dict[str, Any]:
        # The first logits come of the prompt step, which is stock's in both.
        found, wanted, whole = (one[1:].flatten(0, 1) for one in (ours, stock, other))
        return {
            "rows": rows,
            "steps": self._steps - 1,
            **judge_agreement(found, wanted, whole).record(),
            "ours_to_stock": relative_errors(found, wanted),
            "stock_to_itself": relative_errors(whole, wanted),
            "ours_to_other_way": relative_errors(found, whole),
            "ours_to_stock_by_step": errors_by_step(ours[1:], stock[1:]),
            "stock_to_itself_by_step": errors_by_step(other[1:], stock[1:]),
            "prompt_step_equal": bool(torch.equal(ours[0], stock[0])),
        }

    def _inputs(self, rows: int) -> tuple[list[list[int]], Tensor]:
        generator = torch.Generator().manual_seed(rows)
        vocabulary = self._engine.request.dims.vocab_size
        shape = (rows, self._prompt_tokens + self._steps)
        tokens = torch.randint(0, vocabulary, shape, generator=generator)
        given = tokens[:, self._prompt_tokens :].cuda()
        return tokens[:, : self._prompt_tokens].tolist(), given

    def _decoded(
        self, path: PathName, prompts: list[list[int]], given: Tensor, *, graphs: bool
    ) -> tuple[Tensor, tuple[Any, ...]]:
        """Logits by one path, while the other one's decode steps raise."""
        self._engine.use(path, graphs=graphs)
        model = self._engine.model
        other = (model.served, "_run") if path == "stock" else (model.model, "forward")
        with _raising(*other) as raise_now:
            return self._forced(prompts, given, lambda _step: raise_now())

    def _forced(
        self, prompts: list[list[int]], given: Tensor, before_step: Callable[[int], None]
    ) -> tuple[Tensor, tuple[Any, ...]]:
        served = self._engine.model.served
        served.counts.reset()
        self._forcing.before_step = before_step
        self._forcing.begin(given)
        found = self._engine.generate(prompts, self._steps)
        logits = self._forcing.end()
        self._forcing.before_step = None
        if found != given.tolist():
            raise RuntimeError(
                f"{len(prompts)} requests: expected the given tokens in the engine's answers, "
                "found others, so rows are not in the order of requests"
            )
        return logits, served.counts.read()

    def _read_whole(self, prompts: list[list[int]], given: Tensor, loud: Tensor) -> Tensor:
        """Logits at the same places by one prompt step over all tokens.

        Before they are computed the LM head's loud rows are made to decide at these places.
        """
        self._engine.use("stock", graphs=False)
        texts = [
            [*prompt, *tokens]
            for prompt, tokens in zip(prompts, given[:, :-1].tolist(), strict=True)
        ]
        self._hidden.begin()
        self._engine.generate(texts, 1)
        length, first = len(texts[0]), self._prompt_tokens - 1
        places = [
            number * length + first + step
            for step in range(self._steps)
            for number in range(len(texts))
        ]
        row = deciding_row(self._hidden.normed(places), seed=len(texts))
        with torch.inference_mode():
            loud.copy_(torch.stack([row, -row]))
        return self._hidden.end(places).unflatten(0, (self._steps, len(texts)))


@contextmanager
def _raising(owner: Any, name: str) -> Iterator[Callable[[], None]]:
    """Gives what makes a method raise from then on, until the end."""

    def refuse(*_arguments: object, **_named: object) -> None:
        raise RuntimeError(f"{type(owner).__name__}.{name} was called in a step of the other path")

    def raise_now() -> None:
        setattr(owner, name, refuse)

    try:
        yield raise_now
    finally:
        # The method of the class is found again where the instance has none.
        vars(owner).pop(name, None)
