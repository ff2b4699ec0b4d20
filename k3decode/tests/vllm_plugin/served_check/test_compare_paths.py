"""The other path raises while one is compared, and is there again whatever happened."""

import pytest

from k3decode.vllm_plugin.served_check.compare_paths import _raising


class _Path:
    def forward(self) -> str:
        return "its own"


def test_the_other_path_raises_from_the_given_moment_until_the_end() -> None:
    path = _Path()
    with _raising(path, "forward") as raise_now:
        assert path.forward() == "its own"
        raise_now()
        with pytest.raises(RuntimeError, match=r"_Path\.forward was called in a step of the other"):
            path.forward()
    assert path.forward() == "its own"


def test_the_other_path_is_there_again_after_an_error() -> None:
    path = _Path()
    with pytest.raises(ValueError, match="no kernel"), _raising(path, "forward") as raise_now:
        raise_now()
        raise ValueError("no kernel")
    assert path.forward() == "its own"
