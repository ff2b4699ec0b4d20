"""Clients of an S3-compatible store, and what their errors mean.

Keys come from where boto3 looks for them: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a file of
profiles. They are never an argument, so that no list of processes shows them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    PartialCredentialsError,
)

from k3server.errors import MachineError
from k3server.ports import StoreFullError, StoreUnavailableError

__all__ = ["S3Location", "code_of", "create_bucket", "make_client", "starting", "translated"]

_MISSING: Final = frozenset({"NoSuchKey", "404", "NotFound"})
_OWNED: Final = frozenset({"BucketAlreadyOwnedByYou", "BucketAlreadyExists"})
_FULL: Final = frozenset({"InsufficientStorage", "QuotaExceeded", "XMinioStorageFull", "507"})


@dataclass(frozen=True)
class S3Location:
    """Where archives are kept."""

    bucket: str
    """Name of the bucket; it exists already."""
    endpoint: str | None = None
    """Address of the store; None for the one that boto3 knows."""
    region: str = "us-east-1"
    """Region that requests are signed for."""
    public_endpoint: str | None = None
    """Address of the store for contributors. With it downloads are redirected to signed addresses;
    without it the registry passes the bytes on."""


def make_client(location: S3Location, *, endpoint: str | None) -> Any:
    """A client that is safe to share between threads.

    Args:
        location: Bucket and region.
        endpoint: Address that requests go to, and that signed addresses name.
    """
    config = Config(
        connect_timeout=3,
        read_timeout=30,
        retries={"total_max_attempts": 3, "mode": "standard"},
        s3={"addressing_style": "path"},
        signature_version="s3v4",
        max_pool_connections=50,
        # What is read is hashed here; some stores send checksums that fit no partial answer.
        response_checksum_validation="when_required",
    )
    return boto3.session.Session().client(
        "s3", endpoint_url=endpoint, region_name=location.region, config=config
    )


def create_bucket(location: S3Location) -> None:
    """Make the bucket, unless it is there.

    Raises:
        MachineError: The store cannot be used.
    """
    with starting(location):
        client = make_client(location, endpoint=location.endpoint)
        try:
            client.create_bucket(Bucket=location.bucket)
        except ClientError as error:
            if code_of(error) not in _OWNED:
                raise


def code_of(error: ClientError) -> str:
    """The code of an error answer, for example `NoSuchKey`; the status where there is no code."""
    response: dict[str, Any] = error.response
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", "")
    return str(response.get("Error", {}).get("Code") or status)


@contextmanager
def translated(sha256: str = "") -> Iterator[None]:
    """Turn errors of boto3 into those of the store's protocol.

    Args:
        sha256: The blob at hand, named by the KeyError when it is not there.

    Raises:
        KeyError: The object is not there.
        StoreFullError: The store has no room.
        StoreUnavailableError: It does not answer, or answers with another error.
    """
    try:
        yield
    except ClientError as error:
        code = code_of(error)
        if code in _MISSING:
            raise KeyError(sha256) from None
        if code in _FULL:
            raise StoreFullError(code) from error
        raise StoreUnavailableError(f"The object store answered {code}.") from error
    except BotoCoreError as error:
        raise StoreUnavailableError(f"The object store: {error}") from error


@contextmanager
def starting(location: S3Location) -> Iterator[None]:
    """Turn errors at the first use of a store into sentences for the operator.

    Raises:
        MachineError: The store cannot be used.
    """
    where = f"the bucket {location.bucket} at {location.endpoint or 'the default endpoint'}"
    try:
        yield
    except (NoCredentialsError, PartialCredentialsError):
        raise MachineError(
            f"Expected keys for {where}, found none.",
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        ) from None
    except ClientError as error:
        raise MachineError(
            f"Expected to read and write in {where}, found the answer {code_of(error)}.",
            "Make the bucket, or check the keys and what they may do.",
        ) from None
    except BotoCoreError as error:
        raise MachineError(
            f"Expected {where} to answer, found: {error}.",
            "Start the store, or check --s3-endpoint.",
        ) from None
