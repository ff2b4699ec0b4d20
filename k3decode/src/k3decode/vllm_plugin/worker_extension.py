"""Methods added to the engine's workers, reached through its collective RPC."""

from typing import Any

__all__ = ["K3DecodeWorkerExtension"]


class K3DecodeWorkerExtension:
    """Mixed into the worker class by `--worker-extension-cls`."""

    def k3decode_coverage(self: Any) -> str:
        """Step counts since the engine started, as JSON text.

        Raises:
            RuntimeError: the served model is not this plugin's.
        """
        model = self.model_runner.get_model()
        on_device = getattr(model, "coverage_json", None)
        if on_device is not None:
            counted: str = on_device()
            return counted
        coverage = getattr(model, "coverage", None)
        if coverage is None:
            raise RuntimeError(
                "coverage is counted by K3TinyForCausalLM and K3ServedForCausalLM, found "
                f"{type(model).__name__}: serve a k3tiny checkpoint, or K3 on a GPU"
            )
        text: str = coverage.to_json(model.backend)
        return text
