import base64
import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from k3runner.errors import MachineError
from k3runner.installed_commit import Origin, refuse_other_commit
from k3runner.installed_files import read_installed_engine
from k3runner.subjects.definition import EngineLaunch
from k3runner_testing.run_case import CHANGE


def launch(*, paths: tuple[str, ...] = ()) -> EngineLaunch:
    return EngineLaunch(
        name="toy",
        launch=(),
        distributions=("toy-cpu", "toy"),
        path_distributions=paths,
        arguments=(),
        environment={},
        volatile_config_keys=(),
        coverage_method="none",
    )


class Environment:
    """An environment that looks like a venv: its python is a link to this one."""

    def __init__(self, folder: Path) -> None:
        self.python = folder / "bin" / "python"
        self.python.parent.mkdir(parents=True)
        self.python.symlink_to(sys.executable)
        (folder / "pyvenv.cfg").write_text("home = /nowhere\n")
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site = folder / "lib" / version / "site-packages"
        self.site.mkdir(parents=True)
        (folder / "lib64").symlink_to("lib")

    def install(self, name: str, files: dict[str, str], editable: Path | None = None) -> None:
        info = f"{name.replace('-', '_')}-1.0.dist-info"
        rows = []
        for path, text in files.items():
            (self.site / path).parent.mkdir(parents=True, exist_ok=True)
            (self.site / path).write_text(text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            rows.append(f"{path},sha256={digest.rstrip(b'=').decode()},{len(text)}")
        folder = self.site / info
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (folder / "RECORD").write_text("\n".join([*rows, f"{info}/RECORD,,"]) + "\n")
        if editable is not None:
            direct = {"url": editable.as_uri(), "dir_info": {"editable": True}}
            (folder / "direct_url.json").write_text(json.dumps(direct))


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    made = Environment(tmp_path / "env")
    made.install("toy-cpu", {"toy/__init__.py": "x = 1\n", "toy/fast.so": "binary"})
    # A distribution of metadata only, as wheels that only set a version are.
    made.install("toy", {})
    return made


def test_untouched_installation_has_no_difference(environment: Environment) -> None:
    found = read_installed_engine(launch(), environment.python)
    assert found.build.distribution == "toy-cpu 1.0"
    assert found.build.files_checked == 2
    assert found.build.differences == ()
    assert found.build.packages == {"toy": "1.0", "toy-cpu": "1.0"}
    assert found.remarks == ()


def test_changed_and_missing_files_are_named(environment: Environment) -> None:
    (environment.site / "toy/__init__.py").write_text("x = 2\n")
    (environment.site / "toy/fast.so").unlink()
    found = read_installed_engine(launch(), environment.python)
    assert [(one.path, one.kind) for one in found.build.differences] == [
        ("toy/__init__.py", "changed"),
        ("toy/fast.so", "missing"),
    ]


def test_added_files_are_remarked(environment: Environment) -> None:
    (environment.site / "toy/extra.py").write_text("")
    (environment.site / "sneaky.pth").write_text("import toy\n")
    remarks = " ".join(read_installed_engine(launch(), environment.python).remarks)
    assert "toy/extra.py" in remarks
    assert "sneaky.pth" in remarks


def test_code_of_the_environment_does_not_run(environment: Environment, tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    (environment.site / "trap.pth").write_text(
        f"import pathlib; pathlib.Path({str(trap)!r}).touch()\n"
    )
    read_installed_engine(launch(), environment.python)
    assert not trap.exists()


def test_editable_decode_path_has_a_digest_that_follows_its_source(
    environment: Environment, tmp_path: Path
) -> None:
    source = tmp_path / "decode" / "src" / "decode"
    source.mkdir(parents=True)
    (source / "__init__.py").write_text("a = 1\n")
    environment.install("decode", {}, editable=tmp_path / "decode")
    before = read_installed_engine(launch(paths=("decode",)), environment.python)
    (source / "__init__.py").write_text("a = 2\n")
    after = read_installed_engine(launch(paths=("decode",)), environment.python)
    assert "editable installation" in before.remarks[0]
    assert before.build.packages["decode"].startswith("1.0+editable.")
    assert before.build.packages["decode"] != after.build.packages["decode"]


def test_engine_installed_from_an_editable_wheel_is_an_engine(tmp_path: Path) -> None:
    source = tmp_path / "toy" / "src"
    source.mkdir(parents=True)
    (source / "toy.py").write_text("a = 1\n")
    made = Environment(tmp_path / "env")
    made.install("toy", {"_editable_impl_toy.pth": str(source)})
    assert read_installed_engine(launch(), made.python).build.distribution == "toy 1.0"


def test_decode_path_that_is_not_installed_is_remarked(environment: Environment) -> None:
    found = read_installed_engine(launch(paths=("decode",)), environment.python)
    assert found.remarks == ("decode is not installed in the engine's environment.",)


def test_environment_without_the_engine_is_a_sentence(tmp_path: Path) -> None:
    empty = Environment(tmp_path / "env")
    with pytest.raises(MachineError, match="none of toy-cpu, toy is installed"):
        read_installed_engine(launch(), empty.python)


def test_python_that_does_not_run_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="does not run"):
        read_installed_engine(launch(), tmp_path / "python")


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/example/engine.git",
        "https://github.com/Example/Engine/",
        "ssh://git@github.com/example/engine",
        "git@github.com:example/engine.git",
    ],
)
def test_a_package_of_another_commit_of_the_repository_is_refused(
    environment: Environment, url: str
) -> None:
    direct = {"url": url, "vcs_info": {"vcs": "git", "commit_id": "b" * 40}}
    info = environment.site / "toy_cpu-1.0.dist-info"
    (info / "direct_url.json").write_text(json.dumps(direct))
    (origin,) = read_installed_engine(launch(), environment.python).origins
    assert origin == Origin("toy-cpu", url, "b" * 40)
    with pytest.raises(MachineError, match=f"toy-cpu is installed from commit {'b' * 40} of exam"):
        refuse_other_commit([origin], CHANGE)
    refuse_other_commit([replace(origin, commit_sha=CHANGE.commit_sha)], CHANGE)


@pytest.mark.parametrize(
    "url", ["https://github.com/other/engine", "file:///src/engine", "engine", ""]
)
def test_commits_of_other_repositories_are_not_compared(url: str) -> None:
    refuse_other_commit([Origin("toy", url, "b" * 40)], CHANGE)


def test_what_was_not_fetched_from_a_repository_has_no_origin(environment: Environment) -> None:
    environment.install("decode", {}, editable=environment.site)
    assert read_installed_engine(launch(), environment.python).origins == ()
