"""Refuses to load weights on accelerators that cannot be used, with what to do about it."""

from pathlib import Path

from k3runner.doctor.accelerator_judgement import judge_accelerators
from k3runner.doctor.accelerator_probe import accelerators_of_this_machine
from k3runner.doctor.engine_probe import probe_engine
from k3runner.errors import MachineError
from k3runner.telemetry.nvml import NvmlLibrary

__all__ = ["warnings_of_accelerators"]


def warnings_of_accelerators(
    engine_python: Path, library: NvmlLibrary | None = None
) -> tuple[str, ...]:
    """What is doubtful about the accelerators that the engine may use.

    Args:
        engine_python: Python of the engine's environment.
        library: NVML's binding; None: the installed one.

    Returns:
        Sentences; none on a machine without accelerators.

    Raises:
        MachineError: An engine cannot run on them.
    """
    found = accelerators_of_this_machine(library)
    if found is None:
        return ()
    checks = judge_accelerators(found, probe_engine(engine_python).cuda)
    for check in checks:
        if check.outcome == "problem":
            raise MachineError(check.sentence, check.remedy)
    return tuple(
        f"{check.sentence} {check.remedy}" for check in checks if check.outcome == "warning"
    )
