"""What a command that runs kernels asks of its machine before it starts its work."""

import argparse

import torch

from k3decode.needed_compiler import missing_compiler

__all__ = ["require_compiler", "require_gpu"]


def require_gpu(parser: argparse.ArgumentParser) -> None:
    """End with a sentence and status 2 where there is no CUDA device."""
    if not torch.cuda.is_available():
        parser.error("expected a CUDA device, found none: kernels run on a GPU only")


def require_compiler(parser: argparse.ArgumentParser) -> None:
    """End with a sentence and status 2 where kernels cannot be compiled."""
    if (problem := missing_compiler()) is not None:
        parser.error(problem)
