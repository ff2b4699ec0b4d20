# mypy: ignore-errors
"""SiTU in FP32, with the accurate hyperbolic tangent."""

from cutlass import Float32, cute

__all__ = ["situ"]


@cute.jit
def situ(gate: Float32, up: Float32, beta: float, linear_beta: float) -> Float32:
    """A bounded SiLU of the gate times a bounded linear value; infinities give the bounds."""
    # exp(-gate) may become infinite, the sigmoid then is zero.
    sigmoid = 1.0 / (1.0 + cute.math.exp(-gate))
    bounded_gate = beta * cute.math.tanh(gate * (1.0 / beta)) * sigmoid
    return bounded_gate * (linear_beta * cute.math.tanh(up * (1.0 / linear_beta)))
