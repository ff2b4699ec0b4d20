"""The effective configuration as flat text, without what differs by chance."""

from k3runner.effective_config import flatten_config, with_place_named


def test_nested_values_get_dotted_keys_and_volatile_ones_are_left_out() -> None:
    found = {"model": {"dtype": "float32", "sizes": [1, 2]}, "ports": [{"port": 7}], "empty": {}}
    assert flatten_config(found, ("ports.*",)) == {
        "empty": "{}",
        "model.dtype": "float32",
        "model.sizes": "[1, 2]",
    }


def test_homes_of_two_arms_are_no_difference() -> None:
    key = "vllm_env.VLLM_CACHE_ROOT"
    baseline, candidate = (
        with_place_named({key: f"/homes/{arm}/.cache"}, f"/homes/{arm}", "<engine-home>")
        for arm in ("baseline", "candidate")
    )
    assert baseline == candidate == {key: "<engine-home>/.cache"}
