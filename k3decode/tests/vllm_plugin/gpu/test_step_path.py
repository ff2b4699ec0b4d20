from dataclasses import replace

import pytest

from k3decode.vllm_plugin.gpu.step_path import FALLBACKS, EngineStep, fallback_reason

DECODE = EngineStep(rows=4, has_metadata=True, decode_requests=4)
PREPARED = frozenset({4})


def test_a_prepared_decode_step_is_served() -> None:
    assert fallback_reason(DECODE, PREPARED) is None
    assert DECODE.kind == "decode"


@pytest.mark.parametrize(
    ("changes", "place", "kind"),
    [
        ({"has_metadata": False}, 0, "dummy"),
        ({"prompt_requests": 1}, 1, "mixed"),
        ({"prompt_requests": 4, "decode_requests": 0}, 1, "prefill"),
        ({"verify_requests": 4, "decode_requests": 0}, 2, "verify"),
        ({"piecewise": True}, 3, "mixed"),
        ({"embeddings_given": True}, 4, "decode"),
        ({"one_row_each": False}, 5, "decode"),
        ({"rows": 65}, 6, "decode"),
        ({"rows": 5}, 7, "decode"),
    ],
)
def test_each_fallback_has_a_reason(changes: dict[str, int], place: int, kind: str) -> None:
    step = replace(DECODE, **changes)  # type: ignore[arg-type]
    assert fallback_reason(step, PREPARED) == FALLBACKS[place][1]
    assert step.kind == kind
