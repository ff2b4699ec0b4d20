"""The tiny K3 model inside vLLM: the layer skeleton with attention on the engine's caches."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from vllm.config import VllmConfig
from vllm.forward_context import get_forward_context
from vllm.model_executor.layers.mamba.mamba_utils import get_temporal_copy_spec
from vllm.model_executor.models.interfaces import HasInnerState, IsHybrid

from k3decode.decode.coverage import Coverage
from k3decode.decode.plan import Fallback, plan
from k3decode.dims import K3Dims
from k3decode.model.parameters import parameter_shapes
from k3decode.model.skeleton import hidden_rows, logits
from k3decode.model.weights import ModelWeights, model_weights
from k3decode.ops.kda.reference import KdaForm, kda_chunked, kda_recurrent
from k3decode.ops.mla.reference import MlaWeights
from k3decode.vllm_plugin.layers import KdaLayer, MlaLayer, kda_state_shapes
from k3decode.vllm_plugin.options import parse_options
from k3decode.vllm_plugin.rows import StepRows, read_rows, step_facts
from k3decode.vllm_plugin.startup import CPU_SCOPE, refuse_if_not_eligible

__all__ = ["K3TinyForCausalLM"]


@dataclass(frozen=True)
class _ActiveStep:
    """One step being served."""

    rows: dict[int, StepRows]
    """By KDA layer number; layers of one cache group share a value."""
    kda_form: KdaForm


class K3TinyForCausalLM(nn.Module, HasInnerState, IsHybrid):  # type: ignore[misc]  # untyped engine
    """A K3-like decoder, plain torch, fp32, one rank.

    `stock` serves KDA chunked and MLA unabsorbed; `candidate` KDA recurrent and MLA absorbed.
    A step outside the candidate's scope runs the stock KDA form on the candidate's caches.
    """

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        self.backend = parse_options(vllm_config.additional_config or {}).decode_backend
        refuse_if_not_eligible(vllm_config, self.backend)
        self.dims: K3Dims = vllm_config.model_config.hf_config.dims()
        self.coverage = Coverage()
        self._weights: ModelWeights | None = None
        _register_parameters(self, self.dims)
        start = f"{prefix}." if prefix else ""
        self.attention_layers = nn.ModuleList(
            MlaLayer(vllm_config, self.dims, f"{start}layers.{i}.mla", self.backend)
            if self.dims.is_mla(i)
            else KdaLayer(vllm_config, self.dims, f"{start}layers.{i}.kda")
            for i in range(self.dims.num_hidden_layers)
        )

    @classmethod
    def get_mamba_state_shape_from_config(cls, vllm_config: VllmConfig) -> tuple[Any, ...]:
        """Shapes of one state page, as the KDA layers give them."""
        return kda_state_shapes(vllm_config.model_config.hf_config.dims())

    @classmethod
    def get_mamba_state_dtype_from_config(
        cls,
        vllm_config: VllmConfig,  # noqa: ARG003
    ) -> tuple[torch.dtype, ...]:
        """Number formats of one state page, as the KDA layers give them."""
        return torch.float32, torch.float32

    @classmethod
    def get_mamba_state_copy_func(cls) -> tuple[Any, ...]:
        """How prefix caching copies a page: both parts whole.

        With speculation each page holds the taps and memory after one token, so the page of the
        last accepted token is right for both; no shifting inside a page.
        """
        return get_temporal_copy_spec, get_temporal_copy_spec

    def embed_input_ids(self, input_ids: Tensor, *_: Any, **__: Any) -> Tensor:
        """Embed tokens [T]; returns [T, D]."""
        return self._built().embedding[input_ids]

    def forward(
        self,
        input_ids: Tensor | None,
        positions: Tensor,  # noqa: ARG002  # no op of the model depends on positions
        intermediate_tensors: Any = None,  # noqa: ARG002
        inputs_embeds: Tensor | None = None,
        **_: Any,
    ) -> Tensor:
        """Serve one step; returns rows before the model's norm, [T, D]."""
        embedded = self.embed_input_ids(input_ids) if inputs_embeds is None else inputs_embeds
        metadata = get_forward_context().attn_metadata
        if metadata is None:
            # A dummy run that measures memory: no request, no state, not counted.
            return torch.zeros_like(embedded)
        step = self._begin(metadata)
        return hidden_rows(embedded, self._built(), self.dims, partial(self._attend, step))

    def compute_logits(self, hidden_states: Tensor, *_: Any, **__: Any) -> Tensor:
        """Logits of chosen rows; [T, D] -> [T, vocabulary]."""
        return logits(hidden_states, self._built(), self.dims)

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> set[str]:
        """Copy a checkpoint's tensors into the parameters; returns the names that were read.

        Raises:
            ValueError: a tensor is missing, unknown or of another shape.
        """
        tensors = dict(weights)
        model_weights(tensors, self.dims)
        parameters = dict(self.named_parameters())
        for name, tensor in tensors.items():
            parameters[name].data.copy_(tensor)
        self._weights = None
        self._built()
        return set(tensors)

    def _built(self) -> ModelWeights:
        """Weights in the form the references take; made from the parameters when first needed."""
        if self._weights is None:
            tensors = {name: value.data for name, value in self.named_parameters()}
            self._weights = model_weights(tensors, self.dims)
        return self._weights

    def _begin(self, metadata: dict[str, Any]) -> _ActiveStep:
        """Decide how the step is served and count it, once for all layers."""
        by_group: dict[int, StepRows] = {}
        rows: dict[int, StepRows] = {}
        for number, layer in enumerate(self.attention_layers):
            if isinstance(layer, KdaLayer):
                group = metadata[layer.prefix]
                if id(group) not in by_group:
                    by_group[id(group)] = read_rows(group)
                rows[number] = by_group[id(group)]
        facts = step_facts(next(iter(rows.values())))
        if self.backend == "stock":
            self.coverage.record(facts.kind, "stock", None)
            return _ActiveStep(rows=rows, kda_form=kda_chunked)
        decision = plan(facts, CPU_SCOPE)
        if isinstance(decision, Fallback):
            self.coverage.record(facts.kind, "stock", decision.reason)
            return _ActiveStep(rows=rows, kda_form=kda_chunked)
        self.coverage.record(facts.kind, "candidate", None)
        return _ActiveStep(rows=rows, kda_form=kda_recurrent)

    def _attend(self, step: _ActiveStep, number: int, x: Tensor) -> Tensor:
        weights = self._built().layers[number].attention
        layer = self.attention_layers[number]
        if isinstance(weights, MlaWeights):
            out: Tensor = layer(x, weights)
        else:
            out = layer(x, weights, step.rows[number], step.kda_form)
        return out


def _register_parameters(root: nn.Module, dims: K3Dims) -> None:
    """Give a module the parameters of a checkpoint, under the checkpoint's own dotted names."""
    for name, shape in parameter_shapes(dims).items():
        *path, last = name.split(".")
        owner = root
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, nn.Module())
            owner = owner.get_submodule(part)
        value = torch.empty(shape, dtype=torch.float32)
        owner.register_parameter(last, nn.Parameter(value, requires_grad=False))
