"""How this machine ran a plan, kept beside the journal so that `resume` needs no flags.

It holds paths, so it stays in the run folder and never enters a bundle.
"""

import json
from dataclasses import asdict
from pathlib import Path

from k3runner.errors import UsageError
from k3runner.image import AssertedImage
from k3runner.run_folder import LOCAL_CONFIG
from k3runner.settings import RunConfig, TimeLimits
from k3runner.subjects import load_subject
from k3runner.tiers.own_files import load_tier_with

__all__ = ["dump_local_config", "load_local_config"]


def dump_local_config(config: RunConfig) -> bytes:
    """The configuration as JSON."""
    found: dict[str, object] = {
        "tier": config.tier.name,
        "subject_source": config.subject_source,
        "pairing": config.pairing,
        "engine_url": config.engine_url,
        "engine_port": config.engine_port,
        "registry_url": config.registry_url,
        "engine_user": config.engine_user,
        "image": asdict(config.image),
        "only_deployments": config.only_deployments,
        "limits": asdict(config.limits),
    }
    for name in _PATHS:
        value = getattr(config, name)
        found[name] = None if value is None else str(value)
    return json.dumps(found, indent=2, sort_keys=True).encode() + b"\n"


def load_local_config(run_folder: Path) -> RunConfig:
    """The configuration that the first attempt used; tier and subject are read again.

    Raises:
        UsageError: The folder is not a run.
    """
    path = run_folder / LOCAL_CONFIG
    if not path.is_file():
        raise UsageError(
            f"{run_folder} is not a run folder: it has no {LOCAL_CONFIG}.",
            "Give the folder that `k3-eval run` named.",
        )
    found = json.loads(path.read_text("utf-8"))
    return RunConfig(
        tier=load_tier_with(found["tier"], _path(found["prompt_file"]), _path(found["trace_file"])),
        subject=load_subject(found["subject_source"]),
        subject_source=found["subject_source"],
        pairing=found["pairing"],
        engine_python=_path(found["engine_python"]),
        engine_url=found["engine_url"],
        engine_port=found["engine_port"],
        model_folder=_path(found["model_folder"]),
        runs_folder=run_folder.parent,
        key_path=Path(found["key_path"]),
        registry_url=found["registry_url"],
        engine_user=found["engine_user"],
        image=AssertedImage(**found["image"]),
        limits=TimeLimits(**found["limits"]),
        prompt_file=_path(found["prompt_file"]),
        trace_file=_path(found["trace_file"]),
        only_deployments=tuple(found["only_deployments"]),
        state_folder=_path(found["state_folder"]),
    )


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


_PATHS = (
    "engine_python",
    "model_folder",
    "key_path",
    "prompt_file",
    "trace_file",
    "state_folder",
)
