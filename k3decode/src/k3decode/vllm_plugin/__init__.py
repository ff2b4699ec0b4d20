"""Plugin for unmodified vLLM: registers the tiny K3 model under its own names, patches nothing."""

__all__ = ["register"]


def register() -> None:
    """Entry point of the group `vllm.general_plugins`; called once in each engine process.

    The class itself is registered, not its name: for a name, the first start on a machine imports
    the whole engine once more in a process of its own, only to look at the class.
    """
    from transformers import AutoConfig  # noqa: PLC0415
    from vllm import ModelRegistry  # noqa: PLC0415

    from k3decode.vllm_plugin.config import K3TinyConfig  # noqa: PLC0415
    from k3decode.vllm_plugin.model import K3TinyForCausalLM  # noqa: PLC0415

    AutoConfig.register(K3TinyConfig.model_type, K3TinyConfig, exist_ok=True)
    ModelRegistry.register_model("K3TinyForCausalLM", K3TinyForCausalLM)
