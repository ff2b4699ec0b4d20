"""Greedy prompts that a subject claims to serve. Pure.

A greedy cell is many prompts of several lengths; a subject with a short context still owes correct
answers for those that fit. What is left out is told among the plan's limits.
"""

from collections.abc import Iterable

from k3bundle.plan import GreedyCell
from k3bundle.schedule import RunnableCell
from k3runner.subjects.scope import Scope
from k3runner.wording import plural

__all__ = ["left_out_prompts", "within_scope"]


def within_scope(cell: GreedyCell, scope: Scope) -> GreedyCell:
    """The cell with the prompts that the subject claims; as it is where it claims none of them."""
    longest = scope.maximum_prompt_tokens
    kept = tuple(one for one in cell.prompt_tokens if longest is None or one <= longest)
    if not kept or kept == cell.prompt_tokens:
        return cell
    return cell.model_copy(update={"prompt_tokens": kept})


def left_out_prompts(cells: Iterable[RunnableCell], scope: Scope) -> tuple[str, ...]:
    """A sentence for each greedy cell that lost prompts in this scope."""
    said = []
    for cell in cells:
        if isinstance(cell, GreedyCell):
            left_out = len(cell.prompt_tokens) - len(within_scope(cell, scope).prompt_tokens)
            if left_out:
                said.append(
                    f"{cell.cell_id} leaves out {plural(left_out, 'prompt')} of more than "
                    f"{scope.maximum_prompt_tokens} tokens, which the subject does not claim."
                )
    return tuple(said)
