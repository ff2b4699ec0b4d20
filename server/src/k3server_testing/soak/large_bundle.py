"""A bundle of 1 GiB: how fast it is taken in, beside the least that must be done with its bytes."""

import base64
import hashlib
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

from k3bundle.derive import derive
from k3bundle.seal import assemble
from k3bundle.trailer import make_trailer, mark, split_trailer
from k3bundle.ustar import write_ustar
from k3bundle_testing.example_plan import EXAMPLE_CHANGE
from k3bundle_testing.example_run import files_of, good_records
from k3bundle_testing.sealing import SEALED_AT_UTC
from k3bundle_testing.signers import example_signer
from k3server_testing.process import RegistryProcess, memory_bytes

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["LargeBundleResult", "run_large_bundle"]

_LOG_MIB: Final = 128
_LOOK_S: Final = 0.02
_STEP_BYTES: Final = 1 << 20
_MOST_FILES: Final = 1024
_PART_BYTES: Final = 16 << 20
_SENDERS: Final = 2


@dataclass(frozen=True)
class LargeBundleResult:
    """Seconds of each step, one after the other, and what they come to."""

    archive_bytes: int
    """Size of the bundle file; its logs hardly compress, so nearly that of its content."""
    hash_s: float
    """SHA-256 of the bundle file alone, one thread."""
    decompress_s: float
    """Decompression alone, one thread, the content thrown away."""
    write_s: float
    """The bundle file written once and forced to disk, which taking it in cannot do without."""
    send_s: float
    """All parts sent, hashed and on disk."""
    join_s: float
    """The whole made of its parts, hashed and on disk."""
    submit_s: float
    """Verified and in the index: from the request to the answer."""
    verify_s: float
    """Of `submit_s`: the verifier's process, once more and alone."""
    verify_processor_s: float
    """Processor time of that process, of which a second is for its start."""
    verify_memory_bytes: int
    """Most memory of that process."""
    registry_memory_bytes: int
    """Most memory of the registry's own process (VmHWM)."""
    speed_ratio: float
    """(hash + decompress) / (send + join + submit): 1 would be as fast as these two alone."""
    verify_speed_ratio: float
    """(hash + decompress) / verify, in processor time: other programs hardly change it."""
    status: int
    """Of the submission: 201 when it was taken."""


def run_large_bundle(folder: Path, *, mib: int, seed: int) -> LargeBundleResult:
    """Make a bundle of about `mib` MiB, time the least, then send and submit it."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / "large.k3b"
    _make(archive, mib, seed)
    before = time.process_time()
    hash_s, decompress_s = _timed(lambda: _hash(archive)), _timed(lambda: _decompress(archive))
    least_processor_s = time.process_time() - before
    data = archive.read_bytes()
    write_s = _timed(lambda: _write(folder / "copy", data))
    parts = list(_parts(data))
    limit = f"--max-content-mib={mib + 64}"
    with RegistryProcess(folder / "data", limit) as registry, registry.client() as client:
        digest = hashlib.sha256(data).hexdigest()
        asked = {"blob_sha256": digest, "size_bytes": len(data)}
        upload = client.post("/api/v1/uploads", json=asked).json()
        send_s = _timed(lambda: _send(registry.address, upload["upload_id"], parts))
        done = f"/api/v1/uploads/{upload['upload_id']}/complete"
        join_s = _timed(lambda: client.post(done, timeout=600).raise_for_status())
        claim = {"blob_sha256": digest, **EXAMPLE_CHANGE.model_dump()}
        started = time.perf_counter()
        status = client.post("/api/v1/submissions", json=claim, timeout=600).status_code
        submit_s = time.perf_counter() - started
        registry_memory = registry.memory_bytes("VmHWM")
    before = _children_s()
    started = time.perf_counter()
    verify_memory = _verify(archive, mib)
    verify_s = time.perf_counter() - started
    verify_processor_s = _children_s() - before
    least_s = hash_s + decompress_s
    return LargeBundleResult(
        archive_bytes=archive.stat().st_size,
        hash_s=round(hash_s, 2),
        decompress_s=round(decompress_s, 2),
        write_s=round(write_s, 2),
        send_s=round(send_s, 2),
        join_s=round(join_s, 2),
        submit_s=round(submit_s, 2),
        verify_s=round(verify_s, 2),
        verify_processor_s=round(verify_processor_s, 2),
        verify_memory_bytes=verify_memory,
        registry_memory_bytes=registry_memory,
        speed_ratio=round(least_s / (send_s + join_s + submit_s), 3),
        verify_speed_ratio=round(least_processor_s / verify_processor_s, 3),
        status=status,
    )


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _make(path: Path, mib: int, seed: int) -> None:
    """A good run with logs of random bytes; they are text that no compressor makes small."""
    draw = random.Random(seed)  # noqa: S311
    logs = {}
    for number, at in enumerate(range(0, mib, _LOG_MIB)):
        size = min(_LOG_MIB, mib - at) << 20
        # By chance such bytes would look like an address with a password.
        logs[f"logs/engine-{number:02d}.log"] = draw.randbytes(size).replace(b"://", b":--")
    records = good_records()
    raw = {**files_of(records), **logs}
    files = assemble(raw, records, derive(records), example_signer(), SEALED_AT_UTC)
    compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.checksum_flag: 1})
    frame = b"".join(compressor.compress(piece) for piece in write_ustar(files))
    frame += compressor.flush()
    trailer = make_trailer(frame, [mark(name, files[name]) for name in sorted(files)])
    path.write_bytes(frame + trailer)


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_STEP_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _decompress(path: Path) -> int:
    parts = split_trailer(path.read_bytes(), _MOST_FILES)
    if parts is None:
        raise ValueError("Expected the trailer of the bundle that was just made, found none.")
    frame = parts[0]
    decompressor = zstd.ZstdDecompressor()
    size = 0
    for at in range(0, len(frame), _STEP_BYTES):
        size += len(decompressor.decompress(frame[at : at + _STEP_BYTES]))
    return size


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    path.unlink()


def _parts(data: bytes) -> Iterator[tuple[int, memoryview, str]]:
    """Number, bytes and digest of each part: a contributor knows them before anything is sent."""
    view = memoryview(data)
    for number, at in enumerate(range(0, len(data), _PART_BYTES), start=1):
        part = view[at : at + _PART_BYTES]
        yield number, part, base64.b64encode(hashlib.sha256(part).digest()).decode()


def _send(address: str, upload_id: str, parts: list[tuple[int, memoryview, str]]) -> None:
    """Send all parts over two connections, so that the registry need not wait for the sender."""

    def share(first: int) -> None:
        with closing(HTTPConnection(address, timeout=600)) as connection:
            for number, part, digest in parts[first::_SENDERS]:
                connection.request(
                    "PUT",
                    f"/api/v1/uploads/{upload_id}/parts/{number}",
                    body=part,
                    headers={
                        "Content-Digest": f"sha-256=:{digest}:",
                        "Content-Length": str(len(part)),
                    },
                )
                answer = connection.getresponse()
                if answer.status != HTTPStatus.CREATED:
                    raise RuntimeError(
                        f"Expected part {number} to be taken, found {answer.read()!r}."
                    )
                answer.read()

    with ThreadPoolExecutor(_SENDERS) as pool:
        list(pool.map(share, range(_SENDERS)))


def _verify(archive: Path, mib: int) -> int:
    """What the registry runs, with limits that nothing reaches; returns its most memory."""
    change = EXAMPLE_CHANGE
    process = subprocess.Popen(
        [
            *(sys.executable, "-I", "-m", "k3server.verify_child", str(archive)),
            *(f"--repository={change.repository}", f"--pull-request={change.pull_request}"),
            *(f"--commit={change.commit_sha}", f"--parent-pid={os.getpid()}", "--cpu-s=3600"),
            *(f"--memory-bytes={1 << 40}", f"--archive-bytes={1 << 32}"),
            f"--content-bytes={(mib + 64) << 20}",
        ],
        stdout=subprocess.DEVNULL,
    )
    most = 0
    while process.poll() is None:
        # What the kernel says after the end counts this process, too, which it was forked from.
        with suppress(LookupError, FileNotFoundError, ProcessLookupError):
            most = memory_bytes(process.pid, "VmHWM")
        time.sleep(_LOOK_S)
    if process.returncode:
        raise RuntimeError(f"Expected the verifier to end well, found {process.returncode}.")
    return most
