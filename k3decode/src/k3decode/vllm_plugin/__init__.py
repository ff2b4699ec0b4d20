"""Plugin for unmodified vLLM: a tiny K3 under its own name on a CPU, K3's own class on a GPU.

It patches nothing.
"""

import importlib.metadata

__all__ = ["register"]

_GPU_VERSION = "0.33.0"
_GPU_MODEL = "k3decode.vllm_plugin.gpu.model:K3ServedForCausalLM"


def register() -> None:
    """Entry point of the group `vllm.general_plugins`; called once in each engine process.

    The tiny class itself is registered, not its name: for a name, the first start on a machine
    imports the whole engine once more in a process of its own, only to look at the class. K3's
    class is registered by name, since importing it needs what only a GPU build of the engine has.
    """
    from vllm import ModelRegistry  # noqa: PLC0415

    if importlib.metadata.version("vllm") == _GPU_VERSION:
        ModelRegistry.register_model("KimiLinearForCausalLM", _GPU_MODEL)
        return
    from transformers import AutoConfig  # noqa: PLC0415

    from k3decode.vllm_plugin.config import K3TinyConfig  # noqa: PLC0415
    from k3decode.vllm_plugin.model import K3TinyForCausalLM  # noqa: PLC0415

    AutoConfig.register(K3TinyConfig.model_type, K3TinyConfig, exist_ok=True)
    ModelRegistry.register_model("K3TinyForCausalLM", K3TinyForCausalLM)
