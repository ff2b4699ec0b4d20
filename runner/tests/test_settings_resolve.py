import sys
from pathlib import Path

import pytest

from k3runner.errors import MachineError, UsageError
from k3runner.local_config import dump_local_config, load_local_config
from k3runner.run_folder import LOCAL_CONFIG
from k3runner.settings import RunConfig, resolve, resolve_registry
from k3runner_testing.fake_subject import write_fake_model


def good(tmp_path: Path, **environ: str) -> RunConfig:
    model = tmp_path / "model"
    if not model.exists():
        write_fake_model(model)
    return resolve(
        environ={"K3EVAL_ENGINE_PYTHON": sys.executable, "K3EVAL_MODEL": str(model), **environ}
    )


def test_resolve_environment_fills_what_flags_leave_open(tmp_path: Path) -> None:
    config = good(tmp_path, K3EVAL_RUNS="/somewhere", K3EVAL_ENGINE_PORT="8123")
    assert config.engine_python == Path(sys.executable)
    assert config.runs_folder == Path("/somewhere")
    assert config.engine_port == 8123
    assert config.pairing == "paired"


def test_resolve_flag_wins_over_environment(tmp_path: Path) -> None:
    model = write_fake_model(tmp_path / "flag")
    config = resolve(
        environ={"K3EVAL_MODEL": "/nowhere"}, engine_python=Path(sys.executable), model=model
    )
    assert config.model_folder == model


def test_resolve_environment_registry_alone_asks_no_nonce(tmp_path: Path) -> None:
    assert good(tmp_path, K3EVAL_REGISTRY="http://127.0.0.1:8765").registry_url is None


def test_resolve_engine_url_needs_no_python_and_no_model() -> None:
    config = resolve(environ={}, engine_url="http://127.0.0.1:8000/")
    assert config.pairing == "single"
    assert config.engine_url == "http://127.0.0.1:8000"
    assert config.engine_python is None


def test_resolve_without_engine_python_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="No engine Python at"):
        resolve(environ={}, engine_python=tmp_path / "python")


def test_resolve_without_model_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"has no config\.json"):
        resolve(environ={}, engine_python=Path(sys.executable), model=tmp_path)


@pytest.mark.parametrize("port", ["0", "70000", "http", "-1"])
def test_resolve_port_that_is_none_is_a_sentence(tmp_path: Path, port: str) -> None:
    with pytest.raises(UsageError, match="K3EVAL_ENGINE_PORT"):
        good(tmp_path, K3EVAL_ENGINE_PORT=port)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host", "http://"])
def test_resolve_url_that_is_none_is_a_sentence(url: str) -> None:
    with pytest.raises(UsageError, match="must look like http"):
        resolve(environ={}, engine_url=url)


def test_local_config_comes_back_as_it_was(tmp_path: Path) -> None:
    config = good(tmp_path, K3EVAL_RUNS=str(tmp_path))
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / LOCAL_CONFIG).write_bytes(dump_local_config(config))
    assert load_local_config(folder) == config


@pytest.mark.parametrize(
    "url",
    [
        *("http://[::1", "http://127.0.0.1:99999", "http://127.0.0.1:abc", "http://host:0"),
        *("http://a..example", f"http://{'x' * 64}.example", "http://ho st"),
    ],
)
def test_resolve_url_that_cannot_be_asked_is_a_sentence(url: str) -> None:
    with pytest.raises(UsageError, match="--engine-url is no address, found"):
        resolve(environ={}, engine_url=url)
    with pytest.raises(UsageError, match="The registry URL is no address"):
        resolve_registry(url, {})


@pytest.mark.parametrize("url", ["http://[::1]:8000", "https://müller.example", "http://a_b:1/x"])
def test_resolve_url_that_can_be_asked_is_taken(url: str) -> None:
    assert resolve_registry(url, {}) == url
