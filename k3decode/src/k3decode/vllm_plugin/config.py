"""The config class of the model type `k3tiny`."""

from typing import Any

from transformers import PretrainedConfig

from k3decode.dims import K3Dims

__all__ = ["K3TinyConfig"]


class K3TinyConfig(PretrainedConfig):  # type: ignore[misc]  # the library is untyped here
    """A K3-like model of any widths; the widths are in `k3_dims`."""

    model_type = "k3tiny"

    def __init__(self, k3_dims: dict[str, Any] | None = None, **others: Any) -> None:
        self.k3_dims = k3_dims
        super().__init__(**others)

    def dims(self) -> K3Dims:
        """The model's widths.

        Raises:
            ValueError: the config has none, or fields of another version.
        """
        if self.k3_dims is None:
            raise ValueError(
                "config.json of a k3tiny model must hold k3_dims, found none: write the "
                "checkpoint again with k3decode.tiny_checkpoint"
            )
        try:
            return K3Dims(**self.k3_dims)
        except TypeError as error:
            raise ValueError(
                f"k3_dims of config.json must hold the fields of K3Dims, found others ({error}): "
                "write the checkpoint again with k3decode.tiny_checkpoint"
            ) from error
