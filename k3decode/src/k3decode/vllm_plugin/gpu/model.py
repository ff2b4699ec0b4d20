"""K3's text model with the decode path: a subclass of the engine's own class, which it is else."""

from functools import partial
from typing import Any

from torch import Tensor
from vllm.config import CUDAGraphMode, VllmConfig
from vllm.forward_context import get_forward_context, is_forward_context_available
from vllm.logger import init_logger
from vllm.models.kimi_k3.nvidia.model import KimiLinearForCausalLM
from vllm.models.kimi_k3.nvidia.model_state import KimiK3ModelState

from k3decode.ops.experts.packing import PackedExperts
from k3decode.vllm_plugin.gpu.engine_experts import pack_before_reordering
from k3decode.vllm_plugin.gpu.engine_facts import prepared_rows, refuse_if_not_eligible
from k3decode.vllm_plugin.gpu.engine_state import AttentionLayer
from k3decode.vllm_plugin.gpu.engine_weights import engine_ends, engine_layer
from k3decode.vllm_plugin.gpu.served_decode import ServedDecode
from k3decode.vllm_plugin.gpu.served_dims import served_dims
from k3decode.vllm_plugin.gpu.step_counts import coverage_json
from k3decode.vllm_plugin.options import parse_options

__all__ = ["K3ServedForCausalLM", "K3ServedState"]

_logger = init_logger("vllm.k3decode")


class K3ServedForCausalLM(KimiLinearForCausalLM):  # type: ignore[misc]  # untyped engine
    """With `decode_backend` `candidate` pure decode steps are ours; with `stock` nothing is."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        backend = parse_options(vllm_config.additional_config or {}).decode_backend
        if backend == "candidate":
            refuse_if_not_eligible(vllm_config)
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        self.backend = backend
        self.served: ServedDecode | None = None
        self.twice_bytes = 0
        """Bytes of weights that engine and path keep in orders of their own."""
        self._packed: dict[int, PackedExperts] = {}
        if backend == "candidate":
            self.dims = served_dims(vllm_config.model_config.hf_text_config)
            self._prepared = prepared_rows(vllm_config)
            for number, layer in enumerate(self.model.layers):
                if layer.is_moe_layer:
                    keep = partial(self._packed.__setitem__, number)
                    experts = layer.mlp.experts.routed_experts
                    pack_before_reordering(experts, self.dims, number, keep)

    def get_model_state_cls(self) -> type:
        """State of the runner, which builds the path when weights are loaded."""
        return K3ServedState

    def build_served(self) -> None:
        """Take the loaded weights; nothing without the candidate.

        Raises:
            ValueError: a weight is not as the kernels read it, or was not loaded in the usual way.
        """
        if self.backend != "candidate":
            return
        layers = list(self.model.layers)
        unpacked = [n for n, one in enumerate(layers) if one.is_moe_layer and n not in self._packed]
        if unpacked:
            raise ValueError(
                f"layers {unpacked}: expected experts that were packed when they were loaded, "
                "found none: load weights in the engine's usual way, or ask for decode_backend "
                "stock"
            )
        weights = [
            engine_layer(one, number, self._packed.pop(number, None), self.dims)
            for number, one in enumerate(layers)
        ]
        self.twice_bytes = sum(one.twice_bytes for one in weights)
        self.served = ServedDecode(
            self.dims,
            [one.layer for one in weights],
            engine_ends(self, self.dims),
            [AttentionLayer(number, one.self_attn) for number, one in enumerate(layers)],
            prepared=self._prepared,
        )
        _logger.info(
            "k3decode serves decode steps of %s rows; %.2f GB of weights are kept twice",
            sorted(self.served.prepared),
            self.twice_bytes / 1e9,
        )

    def forward(  # noqa: D102
        self,
        input_ids: Tensor | None,
        positions: Tensor,
        intermediate_tensors: Any = None,
        inputs_embeds: Tensor | None = None,
        **others: Any,
    ) -> Any:
        if self.served is not None:
            context = get_forward_context() if is_forward_context_available() else None
            served = self.served.serve(
                None if inputs_embeds is not None else input_ids,
                int(positions.shape[0]),
                getattr(context, "attn_metadata", None),
                getattr(context, "slot_mapping", None),
                piecewise=getattr(context, "cudagraph_runtime_mode", None)
                == CUDAGraphMode.PIECEWISE,
            )
            if served is not None:
                return served
        return super().forward(input_ids, positions, intermediate_tensors, inputs_embeds, **others)

    def coverage_json(self) -> str:
        """Counts of steps since the first real one, as JSON text.

        Raises:
            RuntimeError: the path is not in the engine, so that nothing is counted.
        """
        if self.served is None:
            raise RuntimeError(
                "steps are counted with decode_backend candidate, found stock: start the engine "
                "with it"
            )
        return coverage_json(self.served.counts.read(), self.served.reasons, self.backend)


class K3ServedState(KimiK3ModelState):  # type: ignore[misc]  # untyped engine
    """The engine's state of K3; builds the path, and has it count from the first real step on."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.language_model.build_served()

    def preprocess_state(self, *arguments: Any, **named: Any) -> None:
        """As the engine does; only real steps come here."""
        if self.language_model.served is not None:
            self.language_model.served.begin()
        super().preprocess_state(*arguments, **named)
