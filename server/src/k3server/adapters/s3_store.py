"""Archives in an S3-compatible store, addressed by digest: `cas/ab/ab...`.

The bytes are hashed on their way. An object becomes visible with one last request, which is only
sent when the digest is right, so a key under cas/ always has its whole content. What the store
says about checksums is a second line: `materialise` hashes what it reads, and on a store that
checks nothing each object is read again before it counts as stored.
"""

import base64
import hashlib
import logging
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, Literal, cast

from botocore.exceptions import BotoCoreError, ClientError

from k3server.adapters.full_disk import full_is_told
from k3server.adapters.s3_client import S3Location, code_of, make_client, starting, translated
from k3server.adapters.s3_probe import Capabilities, probe
from k3server.ports import DigestMismatchError, StoredBlob, StoreUnavailableError

__all__ = ["S3Store"]

_LOG: Final = logging.getLogger("k3server.store")
_PREFIX: Final = "cas/"
# Parts of an object in the store, not of an upload; the protocol wants 5 MiB at least.
_PART_BYTES: Final = 8 * 1024 * 1024
_PIECE_BYTES: Final = 1024 * 1024
_LINK_S: Final = 300
_TURNS: Final = 32
_EXISTS: Final = frozenset({"PreconditionFailed", "412", "ConditionalRequestConflict"})
_DIGEST_LENGTH: Final = 64


class S3Store:
    """A `BundleStore` in one bucket."""

    def __init__(self, location: S3Location, spool: Path) -> None:
        """Connect and find out what the store honours.

        Args:
            location: Bucket and addresses.
            spool: Local folder for archives while they are verified.

        Raises:
            MachineError: The store cannot be used.
        """
        self._bucket = location.bucket
        self._spool = spool
        spool.mkdir(parents=True, exist_ok=True)
        with starting(location):
            self._client = make_client(location, endpoint=location.endpoint)
            self.capabilities: Capabilities = probe(self._client, location.bucket)
        self._turns = tuple(threading.Lock() for _ in range(_TURNS))
        self._linker = None
        if location.public_endpoint is not None:
            self._linker = make_client(location, endpoint=location.public_endpoint)
        _LOG.info("object store %s: %s", location.bucket, self.capabilities.sentence())

    def begin(self, sha256: str) -> "_IncomingObject":
        """Start to receive a blob."""
        turn = self._turns[int(sha256[:2], 16) % _TURNS]
        return _IncomingObject(self._client, self._bucket, sha256, self.capabilities, turn)

    def size(self, sha256: str) -> int | None:
        """Size of a stored blob in bytes; None when it is not there."""
        try:
            with translated(sha256):
                head = self._client.head_object(Bucket=self._bucket, Key=_key(sha256))
                return int(head["ContentLength"])
        except KeyError:
            return None

    def open(self, sha256: str) -> BinaryIO:
        """Open a stored blob for reading."""
        with translated(sha256):
            body = self._client.get_object(Bucket=self._bucket, Key=_key(sha256))["Body"]
        return cast("BinaryIO", body)

    @contextmanager
    def materialise(self, sha256: str) -> Iterator[Path]:
        """A local copy, hashed while it is made."""
        with full_is_told():
            descriptor, name = tempfile.mkstemp(dir=self._spool, suffix=".k3b")
        path = Path(name)
        try:
            # Without a buffer: closing one on a full disk would fail a second time.
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                self._copy(sha256, file)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _copy(self, sha256: str, file: IO[bytes]) -> None:
        found = hashlib.sha256()
        with translated(sha256), self.open(sha256) as body:
            while piece := body.read(_PIECE_BYTES):
                found.update(piece)
                _write(file, piece)
        if found.hexdigest() != sha256:
            raise StoreUnavailableError(f"The object store gave other bytes for {sha256}.")

    def iterate(self) -> Iterator[StoredBlob]:
        """Every stored blob, by digest."""
        pages = self._client.get_paginator("list_objects_v2")
        with translated():
            for page in pages.paginate(Bucket=self._bucket, Prefix=_PREFIX):
                for entry in page.get("Contents", ()):
                    name = str(entry["Key"]).rpartition("/")[2]
                    if len(name) == _DIGEST_LENGTH:
                        yield StoredBlob(name, int(entry["Size"]))

    def remove(self, sha256: str) -> None:
        """Remove a blob; harmless when it is not there."""
        with translated(sha256):
            self._client.delete_object(Bucket=self._bucket, Key=_key(sha256))

    def sweep(self, before: datetime) -> int:
        """End uploads to the store that were begun before `before` and never finished."""
        ended = 0
        with translated():
            answer = self._client.list_multipart_uploads(Bucket=self._bucket, Prefix=_PREFIX)
            for upload in answer.get("Uploads", ()):
                if upload["Initiated"] < before:
                    self._client.abort_multipart_upload(
                        Bucket=self._bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                    )
                    ended += 1
        return ended

    def download_url(self, sha256: str, file_name: str) -> str | None:
        """A signed address that gives the blob as an attachment for five minutes."""
        if self._linker is None:
            return None
        url: str = self._linker.generate_presigned_url(
            "get_object",
            Params={
                "Bucket": self._bucket,
                "Key": _key(sha256),
                "ResponseContentDisposition": f'attachment; filename="{file_name}"',
                "ResponseContentType": "application/octet-stream",
            },
            ExpiresIn=_LINK_S,
        )
        return url


class _IncomingObject:
    """Bytes on their way to a key; small ones in one request, larger ones in parts."""

    def __init__(
        self,
        client: Any,
        bucket: str,
        sha256: str,
        honours: Capabilities,
        turn: threading.Lock,
    ) -> None:
        self._client = client
        self._where = {"Bucket": bucket, "Key": _key(sha256)}
        self._expected = sha256
        self._honours = honours
        self._turn = turn
        self._hash = hashlib.sha256()
        self._buffer = bytearray()
        self._upload_id: str | None = None
        self._parts: list[dict[str, Any]] = []

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._hash.update(data)
        self._buffer += data
        while len(self._buffer) >= _PART_BYTES:
            with translated(self._expected):
                self._send_part(bytes(self._buffer[:_PART_BYTES]))
            del self._buffer[:_PART_BYTES]

    def commit(self) -> Literal["created", "existing"]:
        """Check the digest, then make the object visible."""
        found = self._hash.hexdigest()
        try:
            if found != self._expected:
                raise DigestMismatchError(self._expected, found)
            # One after the other: a store without conditions lets a second put replace the object
            # while the first one reads it again.
            with translated(self._expected), self._turn:
                if self._is_there():
                    return "existing"
                outcome = self._finish()
                if outcome == "created" and not self._honours.checks_sha256:
                    self._read_again()
                return outcome
        finally:
            self.discard()

    def discard(self) -> None:
        """Forget the bytes and end the upload."""
        self._buffer.clear()
        if self._upload_id is not None:
            upload, self._upload_id = self._upload_id, None
            # A store that is down keeps the upload until `sweep` ends it.
            with suppress(ClientError, BotoCoreError):
                self._client.abort_multipart_upload(**self._where, UploadId=upload)

    def _send_part(self, data: bytes) -> None:
        if self._upload_id is None:
            begun = self._client.create_multipart_upload(**self._where)
            self._upload_id = begun["UploadId"]
        number = len(self._parts) + 1
        sent = self._client.upload_part(
            **self._where, UploadId=self._upload_id, PartNumber=number, Body=data
        )
        self._parts.append({"PartNumber": number, "ETag": sent["ETag"]})

    def _finish(self) -> Literal["created", "existing"]:
        condition = {"IfNoneMatch": "*"} if self._honours.conditional_put else {}
        try:
            if self._upload_id is None:
                checksum = {"ChecksumSHA256": _base64(self._expected)}
                body = bytes(self._buffer)
                self._client.put_object(**self._where, Body=body, **checksum, **condition)
            else:
                if self._buffer:
                    self._send_part(bytes(self._buffer))
                self._client.complete_multipart_upload(
                    **self._where,
                    UploadId=self._upload_id,
                    MultipartUpload={"Parts": self._parts},
                    **condition,
                )
                self._upload_id = None
        except ClientError as error:
            if code_of(error) in _EXISTS:
                return "existing"
            raise
        return "created"

    def _is_there(self) -> bool:
        try:
            self._client.head_object(**self._where)
        except ClientError as error:
            if code_of(error) in {"404", "NoSuchKey", "NotFound"}:
                return False
            raise
        return True

    def _read_again(self) -> None:
        found = hashlib.sha256()
        with self._client.get_object(**self._where)["Body"] as body:
            while piece := body.read(_PIECE_BYTES):
                found.update(piece)
        if found.hexdigest() != self._expected:
            self._client.delete_object(**self._where)
            raise StoreUnavailableError(f"The object store kept other bytes for {self._expected}.")


def _write(file: IO[bytes], data: bytes) -> None:
    left = memoryview(data)
    with full_is_told():
        while left:
            left = left[file.write(left) :]


def _key(sha256: str) -> str:
    return f"{_PREFIX}{sha256[:2]}/{sha256}"


def _base64(sha256: str) -> str:
    return base64.b64encode(bytes.fromhex(sha256)).decode()
