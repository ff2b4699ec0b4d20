"""What every ledger of blobs must do, run on SQLite and on a real PostgreSQL."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from k3server.adapters.sql.blob_ledger import SqlBlobLedger
from k3server.adapters.sql.database import Database
from k3server.adapters.sql.index import SqlIndex
from k3server.ports import BlobLedger, OpenUpload
from k3server.submission import NewSubmission
from k3server_testing.example_document import example_document
from k3server_testing.fixed_clock import FixedClock

NOW = FixedClock().now()
DAY = timedelta(days=1)
BLOB = "ab" * 32
PART = "cd" * 32
UPLOAD = OpenUpload(
    upload_id="0f" * 16,
    blob_sha256=BLOB,
    size_bytes=25,
    part_size_bytes=10,
    opened_at=NOW,
    expires_at=NOW + DAY,
)


@pytest.fixture
def ledger(database: Database) -> BlobLedger:
    return SqlBlobLedger(database)


def released(ledger: BlobLedger, sha256: str, days: float) -> bool:
    """Whether garbage collection takes the blob this many days after NOW."""
    removed: list[str] = []
    now = NOW + days * DAY
    answer = ledger.release(
        sha256, before=now - DAY, now=now, remove=lambda: removed.append(sha256)
    )
    assert answer == bool(removed)
    return answer


def test_release_waits_until_a_blob_was_long_unwanted(ledger: BlobLedger) -> None:
    ledger.renew(BLOB, NOW)
    assert not released(ledger, BLOB, 0.9)
    ledger.renew(BLOB, NOW + DAY)
    assert not released(ledger, BLOB, 1.9)
    assert released(ledger, BLOB, 2.1)


def test_renew_never_goes_back(ledger: BlobLedger) -> None:
    ledger.renew(BLOB, NOW + 5 * DAY)
    ledger.renew(BLOB, NOW)
    assert not released(ledger, BLOB, 5.5)


def test_release_of_an_unknown_blob_begins_to_count_now(ledger: BlobLedger) -> None:
    assert not released(ledger, BLOB, 100)
    assert not released(ledger, BLOB, 100.9)
    assert released(ledger, BLOB, 101.1)


def test_release_keeps_what_a_submission_names(database: Database, ledger: BlobLedger) -> None:
    ledger.renew(BLOB, NOW)
    SqlIndex(database).add(
        NewSubmission(
            document=example_document(),
            blob_sha256=BLOB,
            blob_size_bytes=1,
            received_at=NOW,
        )
    )
    assert not released(ledger, BLOB, 1000)


def test_release_keeps_parts_of_an_open_upload(ledger: BlobLedger) -> None:
    ledger.open_upload(UPLOAD)
    ledger.renew(PART, NOW)
    ledger.add_part(UPLOAD.upload_id, 1, PART)
    assert not released(ledger, PART, 3)
    assert ledger.close_expired(NOW + DAY) == 1
    assert released(ledger, PART, 3)


def test_renew_waits_while_a_blob_is_being_removed(ledger: BlobLedger) -> None:
    """Or an upload could find the blob there that is about to go."""
    ledger.renew(BLOB, NOW)
    order: list[str] = []
    removing = threading.Event()

    def renew() -> None:
        removing.wait(10)
        ledger.renew(BLOB, NOW + 3 * DAY)
        order.append("renewed")

    renewer = threading.Thread(target=renew)
    renewer.start()

    def remove() -> None:
        removing.set()
        renewer.join(0.5)
        order.append("removed")

    assert ledger.release(BLOB, before=NOW + DAY, now=NOW + 2 * DAY, remove=remove)
    renewer.join(30)
    assert order == ["removed", "renewed"]
    assert not released(ledger, BLOB, 3.5)


def test_release_that_cannot_remove_keeps_the_row(ledger: BlobLedger) -> None:
    ledger.renew(BLOB, NOW)

    def fail() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        ledger.release(BLOB, before=NOW + DAY, now=NOW + 2 * DAY, remove=fail)
    assert released(ledger, BLOB, 2)


def test_open_upload_again_is_the_same_one(ledger: BlobLedger) -> None:
    assert ledger.open_upload(UPLOAD) == UPLOAD
    again = replace(UPLOAD, upload_id="1f" * 16, opened_at=NOW + DAY / 2)
    assert ledger.open_upload(again) == UPLOAD
    other = replace(again, part_size_bytes=5)
    assert ledger.open_upload(other) == other
    late = replace(UPLOAD, upload_id="2f" * 16, opened_at=NOW + DAY)
    assert ledger.open_upload(late) == late


def test_parts_are_kept_by_number_and_the_last_one_wins(ledger: BlobLedger) -> None:
    ledger.open_upload(UPLOAD)
    for number, sha256 in ((3, "03" * 32), (1, "01" * 32), (1, "11" * 32)):
        ledger.add_part(UPLOAD.upload_id, number, sha256)
    assert ledger.parts(UPLOAD.upload_id) == {1: "11" * 32, 3: "03" * 32}
    ledger.close_upload(UPLOAD.upload_id)
    assert ledger.upload(UPLOAD.upload_id, NOW) is None
    assert ledger.parts(UPLOAD.upload_id) == {}
    with pytest.raises(KeyError):
        ledger.add_part(UPLOAD.upload_id, 1, PART)


def test_expired_upload_is_not_found(ledger: BlobLedger) -> None:
    ledger.open_upload(UPLOAD)
    assert ledger.upload(UPLOAD.upload_id, NOW + DAY / 2) == UPLOAD
    assert ledger.upload(UPLOAD.upload_id, NOW + DAY) is None


@pytest.mark.parametrize(("size", "count", "last"), [(25, 3, 5), (20, 2, 10), (1, 1, 1)])
def test_parts_cover_the_whole(size: int, count: int, last: int) -> None:
    upload = replace(UPLOAD, size_bytes=size)
    assert upload.part_count == count
    assert upload.part_bytes(count) == last
    assert sum(upload.part_bytes(n) for n in range(1, count + 1)) == size
