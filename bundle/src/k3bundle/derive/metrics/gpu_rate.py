"""Output throughput per GPU.

    tokens/s/GPU = output tokens/s / GPUs that the engine may use

GPUs are those of the node's facts: an engine that leaves some idle has still occupied them.
"""

from collections.abc import Sequence

from k3bundle.derive.metrics.throughput import output_tokens_per_s
from k3bundle.request import RequestRecord

__all__ = ["tokens_per_s_per_gpu"]


def tokens_per_s_per_gpu(requests: Sequence[RequestRecord], gpu_count: int) -> float | None:
    """Output throughput per GPU of one cell in one boot, in tokens/s.

    Args:
        requests: The measured requests.
        gpu_count: GPUs of the node.

    Returns:
        The rate; None without a GPU, or where throughput is undefined.
    """
    rate = output_tokens_per_s(requests)
    return rate / gpu_count if rate is not None and gpu_count > 0 else None
