import pytest

from k3decode.vllm_plugin.options import Options, parse_options


@pytest.mark.parametrize("given", [{}, {"k3decode": {}}, {"other": {"decode_backend": "wild"}}])
def test_absent_settings_mean_stock(given: dict[str, object]) -> None:
    assert parse_options(given) == Options(decode_backend="stock")


@pytest.mark.parametrize("backend", ["stock", "candidate"])
def test_each_backend_can_be_named(backend: str) -> None:
    assert parse_options({"k3decode": {"decode_backend": backend}}).decode_backend == backend


@pytest.mark.parametrize(
    ("section", "found"),
    [
        ({"decode_backend": "auto"}, "found 'auto'"),
        ({"decode_backend": None}, "found None"),
        ({"decode_backend": "stock", "decode_backed": "x"}, "found decode_backed"),
        ("candidate", "found 'candidate'"),
    ],
)
def test_anything_else_is_refused_in_a_sentence(section: object, found: str) -> None:
    with pytest.raises(ValueError, match=found) as caught:
        parse_options({"k3decode": section})
    assert "decode_backend" in str(caught.value)
