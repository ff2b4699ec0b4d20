"""`python -m k3decode.vllm_plugin.gpu.conditions_page FILE`: writes the page of all conditions.

`docs/served.md` is this page; a test compares them.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from k3decode.vllm_plugin.gpu.deployment import RULES
from k3decode.vllm_plugin.gpu.step_path import FALLBACKS

__all__ = ["conditions_page", "main"]

_HEAD = """# When the decode path serves, inside vLLM on a GPU

Made by `python -m k3decode.vllm_plugin.gpu.conditions_page`; do not edit.

With `decode_backend` `candidate` a deployment of which one of these holds does not start. All
sentences that apply are said at once.
"""
_STEPS = """
A step of which one of these holds is served by the engine's own forward. The first that applies is
the reason in `k3decode_coverage`.
"""


def conditions_page() -> str:
    """The page."""
    refused = [f"- {reason}" for _, reason in RULES]
    stepped_aside = [f"- {reason}" for _, reason in FALLBACKS]
    return "\n".join(
        [_HEAD, *refused, "\n## Steps that the engine serves", _STEPS, *stepped_aside, ""]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m k3decode.vllm_plugin.gpu.conditions_page", description=__doc__
    )
    parser.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    options.file.write_text(conditions_page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
