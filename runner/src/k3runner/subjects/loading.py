"""Reads subject files: those shipped with the runner by name, others by path."""

import hashlib
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import get_args

from k3bundle.subject import ArmName, ArmSpec
from k3runner.errors import UsageError
from k3runner.subjects.definition import EngineLaunch, Subject, SubjectArm, SubjectModel
from k3runner.subjects.kernel_package import KernelPackage, read_kernel_package
from k3runner.subjects.scope_table import read_deployments, read_guess, read_scope
from k3runner.subjects.wheel_overlay import unpacked_wheel
from k3runner.toml_table import Table

__all__ = ["load_subject", "overlay_digest", "shipped_subjects"]


def shipped_subjects() -> tuple[str, ...]:
    """Names of the subjects that come with the runner, sorted."""
    folder = resources.files("k3runner.subjects")
    return tuple(
        sorted(
            entry.name.removesuffix(".toml")
            for entry in folder.iterdir()
            if entry.name.endswith(".toml")
        )
    )


def load_subject(name_or_path: str) -> Subject:
    """Loads a subject.

    Args:
        name_or_path: A shipped name such as `k3-tiny`, or the path of a `.toml` file. Overlay
            folders and wheels in a file are relative to that file.

    Raises:
        UsageError: No such subject, or the file is not a subject.
        MachineError: A wheel cannot be unpacked.
    """
    if name_or_path in shipped_subjects():
        text = (resources.files("k3runner.subjects") / f"{name_or_path}.toml").read_text("utf-8")
        return _parse(text, where=f"subject {name_or_path}", folder=None)
    path = Path(name_or_path)
    if path.suffix != ".toml" or not path.is_file():
        raise UsageError(
            f"No subject `{name_or_path}`: it is neither a file nor one of "
            f"{', '.join(shipped_subjects())}.",
            "Give a shipped name or the path of a .toml file.",
        )
    return _parse(_text(path), where=f"subject {path.name}", folder=path.parent)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not UTF-8" if isinstance(error, ValueError) else error.strerror
        raise UsageError(f"The subject {path} cannot be read: {why}.", "Correct it.") from error


def overlay_digest(folder: Path) -> str:
    """SHA-256 over the sorted paths and contents of all files of an overlay folder."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"):
        name = path.relative_to(folder).as_posix()
        digest.update(f"{len(name)}:{name}".encode())
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(content.encode())
    return digest.hexdigest()


def _parse(text: str, *, where: str, folder: Path | None) -> Subject:
    try:
        table = Table(tomllib.loads(text), where)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where} is not TOML: {error}.", "Correct the file.") from error
    package = read_kernel_package(table.table("kernels", optional=True))
    if package is not None and not table.has("engine"):
        return _package_alone(table, package)
    engine, model = table.table("engine"), table.table("model")
    kernels = engine.string_lists("path_kernels")
    subject = Subject(
        name=table.take("name", str),
        engine=EngineLaunch(
            name=engine.take("name", str),
            launch=engine.strings("launch"),
            distributions=engine.strings("distributions"),
            path_distributions=engine.strings("path_distributions", ()),
            arguments=engine.strings("arguments"),
            environment=engine.string_map("environment"),
            volatile_config_keys=engine.strings("volatile_config_keys", ()),
            coverage_method=engine.take("coverage_method", str, "") or None,
            path_kernels=kernels,
        ),
        model=SubjectModel(
            name=model.take("name", str),
            revision=model.take("revision", str),
            random_weights=model.take("random_weights", bool),
        ),
        arms=tuple(_parse_arm(arm, where, folder, kernels) for arm in table.tables("arms")),
        allowed_config_differences=table.strings("allowed_config_differences"),
        deployments=read_deployments(table.tables("deployments", optional=True)),
        scope=read_scope(table.table("scope", optional=True)),
        gates=table.table("gates", optional=True).rest(),
        limits=table.strings("limits", ()),
        guess=read_guess(table.table("guess", optional=True)),
        kernels=package,
    )
    for read in (engine, model, table):
        read.finish()
    for deployment in subject.deployments:
        refused = subject.scope.refusal(deployment)
        if refused is not None:
            raise UsageError(f"{where}: {refused}", "Correct the deployment, or the scope.")
    if tuple(arm.spec.name for arm in subject.arms) != get_args(ArmName):
        raise UsageError(
            f"{where}: the arms must be baseline and candidate, in this order, found "
            f"{[arm.spec.name for arm in subject.arms]}.",
            "Correct the [[arms]] tables.",
        )
    return subject


def _package_alone(table: Table, package: KernelPackage) -> Subject:
    """A subject that no engine serves: it can be asked in the kernels tier only."""
    subject = Subject(
        name=table.take("name", str),
        engine=EngineLaunch(
            name=package.name,
            launch=(),
            distributions=(package.name,),
            path_distributions=(),
            arguments=(),
            environment={},
            volatile_config_keys=(),
            coverage_method=None,
        ),
        model=SubjectModel(name="no model", revision="none", random_weights=False),
        arms=(),
        allowed_config_differences=(),
        scope=read_scope(table.table("scope", optional=True)),
        gates=table.table("gates", optional=True).rest(),
        limits=table.strings("limits", ()),
        kernels=package,
    )
    table.finish()
    return subject


def _parse_arm(
    table: Table, where: str, folder: Path | None, kernels: Mapping[str, tuple[str, ...]]
) -> SubjectArm:
    name = table.take("name", str)
    if name not in get_args(ArmName):
        raise UsageError(
            f"{where}: an arm is called baseline or candidate, found `{name}`.", "Rename it."
        )
    overlay = _overlay(table, f"{where}: the {name} arm", folder or Path())
    expected_path = table.take("expected_path", str)
    spec = ArmSpec(
        name="baseline" if name == "baseline" else "candidate",
        decode_backend=table.take("decode_backend", str),
        expected_path=expected_path,
        kernel_patterns=kernels.get(expected_path, ()),
        engine_arguments=table.strings("engine_arguments", ()),
        environment=table.string_map("environment"),
        overlay_sha256=None if overlay is None else overlay_digest(overlay),
    )
    table.finish()
    return SubjectArm(spec=spec, overlay=None if overlay is None else overlay.resolve())


def _overlay(table: Table, whose: str, folder: Path) -> Path | None:
    """The folder that only this arm has on its PYTHONPATH: sources, or an unpacked wheel."""
    sources, wheel = table.take("overlay", str, ""), table.take("wheel", str, "")
    if sources and wheel:
        raise UsageError(
            f"{whose} has an overlay and a wheel.", "Give one; a wheel can hold the other's files."
        )
    path = folder / (sources or wheel)
    if sources and not path.is_dir():
        raise UsageError(
            f"{whose} has the overlay {path}, which is not a folder.",
            "Correct `overlay`; it is relative to the subject file.",
        )
    if wheel and not (path.is_file() and path.suffix == ".whl"):
        raise UsageError(
            f"{whose} has the wheel {path}, which is no such file.",
            "Correct `wheel`; it is relative to the subject file.",
        )
    if wheel:
        return unpacked_wheel(path)
    return path if sources else None
