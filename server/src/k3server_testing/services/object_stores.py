"""S3-compatible stores: SeaweedFS refuses what S3 refuses, rclone honours little."""

import http.client
import json
import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from k3server.adapters.s3_client import S3Location, make_client
from k3server_testing.services.child import Child, free_port, program

__all__ = ["ACCESS_KEY", "BUCKET", "SECRET_KEY", "ObjectStore", "RcloneStore", "SeaweedStore"]

ACCESS_KEY: Final = "K3TESTKEY"
SECRET_KEY: Final = "k3testsecretk3testsecret"  # noqa: S105
BUCKET: Final = "k3-evidence"

_ASK_S: Final = 2.0
_GRPC_OFFSET: Final = 10_000


class ObjectStore:
    """A store on loopback with one empty bucket; keys come from the environment of the process."""

    REFUSES = frozenset({http.HTTPStatus.FORBIDDEN})
    """How it answers a request without a signature once it is ready."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="k3-store-"))
        self.port = free_port(_GRPC_OFFSET)
        self.start()
        make_client(self.location, endpoint=self.location.endpoint).create_bucket(Bucket=BUCKET)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # SeaweedFS takes 17 s to stop when it is asked.
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def location(self) -> S3Location:
        """Where it is."""
        return S3Location(bucket=BUCKET, endpoint=f"http://127.0.0.1:{self.port}")

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._child = Child(
            self._command(), self.folder / "log", environment={"PATH": os.environ["PATH"]}
        )
        self._child.wait_until(self._answers)

    def kill(self) -> None:
        """End it at once."""
        self._child.kill()

    def _command(self) -> list[str | Path]:
        raise NotImplementedError

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_ASK_S)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status in self.REFUSES
        except OSError:
            return False
        finally:
            connection.close()


class SeaweedStore(ObjectStore):
    """SeaweedFS: one process with everything in it."""

    def _command(self) -> list[str | Path]:
        config = self.folder / "s3.json"
        credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        identity = {"name": "k3", "credentials": credentials, "actions": actions}
        config.write_text(json.dumps({"identities": [identity]}))
        data = self.folder / "weed"
        data.mkdir(exist_ok=True)
        master, volume, filer = (free_port(_GRPC_OFFSET) for _ in range(3))
        return [
            *(program("weed"), "-logtostderr=true", "server", f"-dir={data}", "-ip=127.0.0.1"),
            *("-ip.bind=127.0.0.1", f"-master.port={master}", f"-volume.port={volume}"),
            *("-filer", f"-filer.port={filer}", "-s3", f"-s3.port={self.port}"),
            *(f"-s3.config={config}", "-s3.iam=false", "-s3.autoCreateBucket=false"),
            *("-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"),
            *("-master.electionTimeout=1s", "-master.volumeSizeLimitMB=64", "-volume.max=100"),
            "-volume.preStopSeconds=0",
        ]


class RcloneStore(ObjectStore):
    """rclone: ignores conditions and checksums."""

    REFUSES = frozenset(
        {http.HTTPStatus.FORBIDDEN, http.HTTPStatus.BAD_REQUEST, http.HTTPStatus.UNAUTHORIZED}
    )

    def _command(self) -> list[str | Path]:
        served = self.folder / "served"
        served.mkdir(exist_ok=True)
        return [
            *(program("rclone"), "serve", "s3", "--config", "/dev/null"),
            *("--addr", f"127.0.0.1:{self.port}", "--auth-key", f"{ACCESS_KEY},{SECRET_KEY}"),
            served,
        ]
