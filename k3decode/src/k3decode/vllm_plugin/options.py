"""The plugin's own settings, read from the engine's `additional_config`."""

from collections.abc import Mapping
from dataclasses import dataclass

from k3decode.decode.coverage import PathName

__all__ = ["Options", "parse_options"]

_BACKENDS: tuple[PathName, ...] = ("stock", "candidate")


@dataclass(frozen=True)
class Options:
    """Settings of one engine."""

    decode_backend: PathName = "stock"
    """Path asked for: `stock`, or `candidate` where a step's plan allows it."""


def parse_options(additional_config: Mapping[str, object]) -> Options:
    """Read the value of the key `k3decode`; everything else belongs to others.

    Raises:
        ValueError: unknown key or value, in a sentence.
    """
    section = additional_config.get("k3decode", {})
    if not isinstance(section, Mapping):
        raise ValueError(  # noqa: TRY004  # one kind of error for every bad setting
            f"additional_config.k3decode must be an object, found {section!r}: "
            'pass for example {"k3decode": {"decode_backend": "candidate"}}'
        )
    unknown = sorted(str(key) for key in section if key != "decode_backend")
    if unknown:
        raise ValueError(
            f"additional_config.k3decode knows only decode_backend, found {', '.join(unknown)}: "
            "remove or rename what it does not know"
        )
    value = section.get("decode_backend", "stock")
    for backend in _BACKENDS:
        if value == backend:
            return Options(decode_backend=backend)
    raise ValueError(
        f"additional_config.k3decode.decode_backend must be one of {', '.join(_BACKENDS)}, "
        f"found {value!r}: name one of them"
    )
