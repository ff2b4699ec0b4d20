"""What late inputs can show of an op is read off its declarations."""

from k3decode.jitter import Chain, chain_of
from k3decode.registry import OPS


def test_an_op_in_plain_stream_order_is_said_to_be() -> None:
    assert "no kernel starts early" in Chain(kernels=1, dependents=0).sentence("one")
    assert Chain(kernels=2, dependents=1).sentence("one") == (
        "one: 1 of 2 kernels start early, as dependents"
    )


def test_every_op_declares_its_kernels() -> None:
    names = [op.name for op in OPS]
    assert chain_of("situ", names) == Chain(kernels=1, dependents=0)
    # A cooperative launch.
    assert chain_of("experts", names) == Chain(kernels=1, dependents=0)
    # One for few tokens, one for many on Hopper.
    assert chain_of("projection", names) == Chain(kernels=2, dependents=2)
    assert all(chain_of(name, names).kernels >= 1 for name in names)
