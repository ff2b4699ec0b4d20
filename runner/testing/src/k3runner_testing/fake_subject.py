"""A subject whose engine is the fake server, written as the TOML that the referee reads."""

import json
from pathlib import Path
from typing import Any

__all__ = ["write_fake_model", "write_fake_subject"]

_TEMPLATE = """
name = "fake"
allowed_config_differences = ["additional_config.k3decode.decode_backend"]

[model]
name = "k3-tiny"
revision = "none"
random_weights = true

[engine]
name = "fake"
launch = ["-m", "k3runner_testing.fake_engine", "serve"]
distributions = ["k3-runner-testing"]
coverage_method = "k3decode_coverage"
arguments = []
volatile_config_keys = ["instance_id"]

[engine.environment]
"""


def write_fake_subject(
    folder: Path,
    *,
    baseline: dict[str, Any] | None = None,
    candidate: dict[str, Any] | None = None,
    candidate_backend: str = "candidate",
) -> Path:
    """Writes a subject file.

    Args:
        folder: Where to.
        baseline: Fields of `Behaviour` for the baseline's engine.
        candidate: The same for the candidate's.
        candidate_backend: Backend that the candidate is started with; `stock` is a mistake that
            the referee has to notice.
    """
    arms = ""
    for name, backend, behaviour in (
        ("baseline", "stock", baseline),
        ("candidate", candidate_backend, candidate),
    ):
        config = json.dumps({"k3decode": {"decode_backend": backend}})
        arguments = ["--additional-config", config, "--fake", json.dumps(behaviour or {})]
        arms += (
            f'\n[[arms]]\nname = "{name}"\ndecode_backend = "{backend}"\n'
            f'expected_path = "{"stock" if name == "baseline" else "candidate"}"\n'
            f"engine_arguments = {json.dumps(arguments)}\n"
        )
    path = folder / "fake.toml"
    path.write_text(_TEMPLATE + arms, "utf-8")
    return path


def write_fake_model(folder: Path) -> Path:
    """Writes a model folder that is just enough to draw prompts from."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"vocab_size": 900, "eos_token_id": 2}', "utf-8")
    return folder
