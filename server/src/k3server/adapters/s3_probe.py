"""What an S3-compatible store honours, found out by trying.

Stores differ in exactly the safety features, so nothing is taken from their name.
"""

import base64
import hashlib
import secrets
from dataclasses import asdict, dataclass
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from k3server.adapters.s3_client import code_of

__all__ = ["Capabilities", "probe"]

_CONTENT: Final = b"k3-registry probes what this store honours"
_OTHER: Final = b"other content"
_REFUSED: Final = frozenset({"PreconditionFailed", "412", "ConditionalRequestConflict"})


@dataclass(frozen=True)
class Capabilities:
    """What was found. Nothing depends on a feature being there: it is a second line."""

    conditional_put: bool
    """A second put with If-None-Match is refused and changes nothing."""
    checks_sha256: bool
    """A put whose content has not the promised SHA-256 is refused. Without it the registry reads
    each object again after it was written."""
    range_reads: bool
    """A part of an object can be read."""

    def sentence(self) -> str:
        """The findings for a log."""
        return ", ".join(f"{name} {'yes' if has else 'no'}" for name, has in asdict(self).items())


def probe(client: Any, bucket: str) -> Capabilities:
    """Try what the store honours; leaves nothing behind.

    Raises:
        ClientError, BotoCoreError: Not even a plain put and get work.
    """
    key = f"probe/{secrets.token_hex(16)}"
    client.put_object(Bucket=bucket, Key=key, Body=_CONTENT)
    try:
        found = client.get_object(Bucket=bucket, Key=key)["Body"].read()
        if found != _CONTENT:
            raise ClientError({"Error": {"Code": "OtherContent"}}, "GetObject")
        return Capabilities(
            conditional_put=_conditional_put(client, bucket, key),
            checks_sha256=_checks_sha256(client, bucket, f"{key}-sha256"),
            range_reads=_range_reads(client, bucket, key),
        )
    finally:
        for each in (key, f"{key}-sha256"):
            client.delete_object(Bucket=bucket, Key=each)


def _conditional_put(client: Any, bucket: str, key: str) -> bool:
    try:
        client.put_object(Bucket=bucket, Key=key, Body=_OTHER, IfNoneMatch="*")
    except ClientError as error:
        return code_of(error) in _REFUSED
    client.put_object(Bucket=bucket, Key=key, Body=_CONTENT)
    return False


def _checks_sha256(client: Any, bucket: str, key: str) -> bool:
    wrong = base64.b64encode(hashlib.sha256(_OTHER).digest()).decode()
    try:
        client.put_object(Bucket=bucket, Key=key, Body=_CONTENT, ChecksumSHA256=wrong)
    except ClientError:
        return True
    return False


def _range_reads(client: Any, bucket: str, key: str) -> bool:
    try:
        answer = client.get_object(Bucket=bucket, Key=key, Range="bytes=3-10")
        return bool(answer["Body"].read() == _CONTENT[3:11])
    except (ClientError, BotoCoreError):
        return False
