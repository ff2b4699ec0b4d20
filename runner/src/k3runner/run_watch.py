"""What is watched beside the measurement: the machine, and what an engine does to others' files.

One `RunWatch` for a run, one context for each boot: it opens the folder that the engine works in,
samples the machine, and compares the files of the referee, of the engine and of the model before
and after.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pydantic import TypeAdapter

import k3bundle
import k3runner
from k3bundle import layout
from k3bundle.subject import ArmName
from k3bundle.telemetry import TelemetryLine
from k3runner.errors import MachineError
from k3runner.events import Event, Remark
from k3runner.journal import JOURNAL_FILES, Journal, read_lines
from k3runner.run_folder import LOCAL_CONFIG
from k3runner.separation.engine_home import ArmHome, EngineHomes
from k3runner.separation.engine_user import OtherUser, SameUser, choose_engine_user
from k3runner.separation.guard import Guard, referee_files
from k3runner.settings import RunConfig
from k3runner.telemetry.host import HostReader
from k3runner.telemetry.nvml import GpuReader, NvmlAbsent, open_gpus
from k3runner.telemetry.sampler import BootTelemetry
from k3runner.wording import plural

__all__ = ["BootPlace", "RunWatch"]

_STATIC = (
    *(layout.RUN, layout.PLAN, layout.SUBJECT, layout.ENVIRONMENT, layout.EARLIER),
    LOCAL_CONFIG,
)
_ELSEWHERE = NvmlAbsent(
    "The server was not started by the runner, so which accelerators it uses is not known."
)
_SHOWN_ALTERATIONS = 3
_REFEREE_PLACES = {
    sys.base_prefix: "<python>",
    sys.prefix: "<referee>",
    str(Path(k3bundle.__file__).parent): "<referee>/k3bundle",
    str(Path(k3runner.__file__).parent): "<referee>/k3runner",
}
_LINE: TypeAdapter[TelemetryLine] = TypeAdapter(TelemetryLine)


@dataclass(frozen=True)
class BootPlace:
    """Where and as whom one engine runs, and who samples the machine meanwhile."""

    folder: Path
    """Working folder of the engine."""
    tools: Path
    """Folder that may hold programs for its PATH."""
    environment: Mapping[str, str]
    """Variables that differ from the runner's own."""
    user: OtherUser | None
    """The user; None: the runner's own."""
    telemetry: BootTelemetry
    """Samples of the machine."""
    on_started: Callable[[], None]
    """To be called once the journal says that the boot was started; nothing is recorded before."""


class RunWatch:
    """Everything that is watched over one run. Use as a context manager."""

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        *,
        nonce: str,
        places: Mapping[str, str],
        emit: Callable[[Event], None],
    ) -> None:
        """Chooses the engine's user and opens the accelerators.

        Args:
            config: Configuration of the run.
            folder: Run folder.
            nonce: Nonce of the run; salts the names of accelerators.
            places: Path of this machine -> placeholder in records.
            emit: Told what is worth a remark.

        Raises:
            UsageError: The engine's user cannot be used.
            MachineError: The accelerators are not those of the boots before.
        """
        self._folder = folder
        self._nonce = nonce
        self._emit = emit
        self._user = _engine_user(config)
        self._gpus = open_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"))
        if config.engine_url is None:
            _refuse_other_gpus(folder, self._gpus, nonce)
        self._guard = Guard(
            (
                *referee_files(),
                *subject_files(config),
                config.key_path,
                *(folder / name for name in _STATIC),
            ),
            records=[folder / name for name in JOURNAL_FILES],
            places={**_REFEREE_PLACES, **places},
        )
        self._open = ExitStack()
        self._homes: EngineHomes | None = None
        if isinstance(self._user, OtherUser):
            homes = EngineHomes(self._user, keeps_bytecode=not _has_bytecode(config))
            self._homes = self._open.enter_context(homes)
            # Nobody but root needs the records, and the nonce in them tells the prompts.
            folder.chmod(0o700)
        elif config.engine_url is None:
            emit(Remark(f"{self._user.reason} {self._user.next_step}".rstrip()))

    def __enter__(self) -> "RunWatch":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()
        if isinstance(self._gpus, GpuReader):
            self._gpus.close()

    @contextmanager
    def boot(self, boot_id: str, arm: ArmName, journal: Journal) -> Iterator[BootPlace]:
        """Watches one booted engine, from before it starts until after it has ended.

        Args:
            boot_id: The boot.
            arm: Its arm.
            journal: Where records go.
        """
        started = False

        def on_started() -> None:
            nonlocal started
            started = True
            journal.telemetry([telemetry.source()])

        self._guard.begin()
        try:
            with ExitStack() as stack:
                telemetry = stack.enter_context(self._sample(boot_id, self._gpus))
                home = ArmHome(self._folder, {})
                if self._homes is not None:
                    home = stack.enter_context(self._homes.home(arm))
                yield BootPlace(
                    folder=home.folder,
                    tools=self._homes.folder if self._homes else self._folder,
                    environment=home.environment,
                    user=self._user if isinstance(self._user, OtherUser) else None,
                    telemetry=telemetry,
                    on_started=on_started,
                )
        finally:
            if started:
                self._compare(boot_id, journal)

    @contextmanager
    def existing_server(self, boot_id: str, journal: Journal) -> Iterator[BootTelemetry]:
        """Samples this machine while a server is measured that somebody else started.

        The journal says already that the boot was started.
        """
        with self._sample(boot_id, _ELSEWHERE) as telemetry:
            journal.telemetry([telemetry.source()])
            yield telemetry

    def _sample(self, boot_id: str, gpus: GpuReader | NvmlAbsent) -> BootTelemetry:
        return BootTelemetry(boot_id, gpus, HostReader(), salt=self._nonce)

    def _compare(self, boot_id: str, journal: Journal) -> None:
        record = self._guard.end(boot_id, self._user)
        journal.separation(record)
        if record.alterations:
            shown = ", ".join(one.path for one in record.alterations[:_SHOWN_ALTERATIONS])
            count = len(record.alterations) + record.alterations_left_out
            self._emit(
                Remark(
                    f"While {boot_id} ran, {plural(count, 'protected file')} changed, for example "
                    f"{shown}: the run shows no isolation any more."
                )
            )


def _refuse_other_gpus(folder: Path, gpus: GpuReader | NvmlAbsent, nonce: str) -> None:
    """Checks that boots of a resumed run use the accelerators of those before.

    Raises:
        MachineError: They are others.
    """
    now = {one.gpu for one in gpus.identities(nonce)} if isinstance(gpus, GpuReader) else set()
    for line in read_lines(folder / layout.TELEMETRY):
        record = _LINE.validate_json(line)
        if record.kind != "source":
            continue
        before = {one.gpu for one in record.gpus}
        if before != now:
            raise MachineError(
                f"{len(before - now)} of {len(before)} GPUs of the earlier boots are not there any "
                f"more, and {len(now - before)} others are.",
                "Resume with the same GPUs, see CUDA_VISIBLE_DEVICES, or start a new run.",
            )


def subject_files(config: RunConfig) -> tuple[Path, ...]:
    """What both arms are made of: what one of them changes there, the other one runs."""
    if config.engine_python is None:
        return ()
    overlays = (arm.overlay for arm in config.subject.arms if arm.overlay is not None)
    model = () if config.model_folder is None else (config.model_folder,)
    return (config.engine_python.parent.parent, *model, *overlays)


def _has_bytecode(config: RunConfig) -> bool:
    """Whether the engine's package was compiled where it is installed."""
    if config.engine_python is None:
        return False
    pattern = f"lib/python3*/site-packages/{config.subject.engine.name}/__pycache__/*.pyc"
    return any(config.engine_python.parent.parent.glob(pattern))


def _engine_user(config: RunConfig) -> OtherUser | SameUser:
    if config.engine_python is None:
        return SameUser("The server was not started by the runner.")
    model = () if config.model_folder is None else sorted(config.model_folder.iterdir())
    return choose_engine_user(
        config.engine_user,
        engine_python=config.engine_python,
        readable=[*subject_files(config), *model],
    )
