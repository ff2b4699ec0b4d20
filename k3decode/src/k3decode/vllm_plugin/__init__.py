"""Plugin for unmodified vLLM: registers the tiny K3 model under its own names, patches nothing."""

__all__ = ["register"]


def register() -> None:
    """Entry point of the group `vllm.general_plugins`; called once in each engine process.

    The model class is registered by name, so that processes which do not run it need not import it.
    """
    from transformers import AutoConfig  # noqa: PLC0415
    from vllm import ModelRegistry  # noqa: PLC0415

    from k3decode.vllm_plugin.config import K3TinyConfig  # noqa: PLC0415

    AutoConfig.register(K3TinyConfig.model_type, K3TinyConfig, exist_ok=True)
    ModelRegistry.register_model(
        "K3TinyForCausalLM", "k3decode.vllm_plugin.model:K3TinyForCausalLM"
    )
