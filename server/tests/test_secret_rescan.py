"""Secrets that nobody knew as such when the bundle came: found later, and hidden."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from k3bundle.archive import archive_bytes
from k3bundle.canonical import sha256_hex
from k3server.adapters.filesystem_store import FilesystemStore
from k3server.adapters.sql.database import Database
from k3server.adapters.sql.index import SqlIndex
from k3server.adapters.sql.moderation import SqlModeration
from k3server.cli import main
from k3server.exit_code import ExitCode
from k3server.submission import NewSubmission
from k3server_testing.example_document import example_document
from k3server_testing.fixed_clock import FixedClock

# Written in two pieces, so that no scanner takes this file for a leak.
TOKEN = b"ghp_" + b"a1B2" * 9
CLEAN = archive_bytes({"logs/boot-0.log": b"ready\n"})
LEAKY = archive_bytes({"logs/boot-0.log": b"ready\nusing " + TOKEN + b"\n"})


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(Database.in_file(tmp_path / "registry.sqlite3")) as database:
        yield database


def keep(folder: Path, database: Database, number: int, archive: bytes) -> str:
    """An archive that is stored and indexed, as if the patterns had been others then."""
    digest = sha256_hex(archive)
    incoming = FilesystemStore(folder / "blobs").begin(digest)
    incoming.write(archive)
    incoming.commit()
    document = example_document(run_id=f"{number:032x}")
    new = NewSubmission(document, digest, len(archive), FixedClock().now())
    return SqlIndex(database).add(new).submission.row.bundle_sha256


def state(database: Database, digest: str) -> tuple[str, str | None]:
    found = SqlIndex(database).get(digest)
    assert found is not None
    return found.row.state, found.row.reason


def test_rescan_quarantines_what_has_a_secret_and_says_where_it_is(
    tmp_path: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    clean = keep(tmp_path, database, 1, CLEAN)
    leaky = keep(tmp_path, database, 2, LEAKY)
    data = f"--data={tmp_path}"
    assert main(["rescan", "--report-only", data]) == ExitCode.DAMAGE
    assert state(database, leaky) == ("visible", None)
    assert main(["rescan", data]) == ExitCode.DAMAGE
    said = capsys.readouterr()
    found, quarantined = said.out.splitlines()
    assert found == (
        f"found {leaky} logs/boot-0.log line 2: "
        "Expected no secrets, found what looks like a GitHub token."
    )
    assert quarantined == found.replace("found ", "quarantined ", 1)
    assert TOKEN.decode() not in said.out + said.err
    assert state(database, leaky)[0] == "quarantined"
    assert state(database, clean) == ("visible", None)
    (act,) = SqlModeration(database).acts(limit=9)
    assert (act.action, act.target) == ("quarantine", leaky)
    # What is hidden is not scanned again, and nothing else is left to find.
    assert main(["rescan", data]) == ExitCode.CLEAN


def test_archive_that_cannot_be_read_is_told_and_hides_nothing(
    tmp_path: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = keep(tmp_path, database, 1, LEAKY[:40])
    gone = keep(tmp_path, database, 2, CLEAN)
    path = tmp_path / "blobs" / "cas" / sha256_hex(CLEAN)[:2] / sha256_hex(CLEAN)
    path.unlink()
    assert main(["rescan", f"--data={tmp_path}"]) == ExitCode.DAMAGE
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[1] for line in lines} == {cut, gone}
    assert all(line.startswith("found ") for line in lines)
    assert [state(database, each)[0] for each in (cut, gone)] == ["visible", "visible"]
